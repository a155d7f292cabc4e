"""How the `aiter` provider finds, loads and calls aiter: the installed package or a source checkout of any commit.

source.py: where the package is and which one it is. machine.py: what kernels are compiled for. shim.py: loads the kernel files without
running the package's `__init__`. watch.py: sees what is launched. binding.py: arguments by name. rows.py: tensors in aiter's forms.
gluon.py: the Gluon kernels. calls.py: the variants.
"""

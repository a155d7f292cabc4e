"""How the `aiter` provider finds, loads and calls aiter: the installed package or a source checkout of any commit.

source.py: where the package is and which one it is. machine.py: what device this is. shim.py: loads the Triton kernel files without
running the package's `__init__`. binding.py: arguments by name. rows.py: tensors in aiter's forms. calls.py: the variants.
"""

"""The plain torch formula of further ops of `torch_eager`, one file each, the function named after the op."""

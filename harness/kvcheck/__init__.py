"""kvcheck judges FP8 paged KV-cache attention kernels against a certified reference."""

__version__ = "0.1.0"

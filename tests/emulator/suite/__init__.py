"""Small Triton kernels of our own, compiled for gfx942 and gfx950, run in the emulator, compared with torch."""

"""Why a kernel is wrong: which planted fault, applied to the honest kernel, leaves what the kernel left."""

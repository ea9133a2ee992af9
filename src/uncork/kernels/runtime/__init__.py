"""The runtime of kernels: compiling, keeping on disk, loading and calling them."""

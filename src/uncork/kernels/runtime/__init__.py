"""What compiles kernels, keeps them on disk, loads them and calls them."""

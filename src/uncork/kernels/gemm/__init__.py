"""Products of matrices, and the inner loops of all kernels that multiply."""

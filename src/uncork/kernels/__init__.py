"""Native kernels, which Python writes and LLVM compiles on the user's machine: they change the
speed of a model, not its results.

Deleting this package leaves every correctness test green; without llvmlite it is not used.
"""

"""Speed, no meaning: native kernels that Python writes and LLVM compiles on the user's machine.

Deleting this package leaves every correctness test green; without llvmlite it is not used.
"""

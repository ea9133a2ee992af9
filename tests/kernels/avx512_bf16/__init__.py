"""Cases of AVX512-BF16, each run in a process of its own: `python -m tests.kernels.avx512_bf16
FOLDER CASE`.
"""

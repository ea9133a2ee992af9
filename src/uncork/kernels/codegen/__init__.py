"""The language that kernels are written in: scalar types, vectors, control flow, functions,
threads.
"""

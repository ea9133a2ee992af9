"""Loop nests from one generator: reductions, softmax, pooling, normalisation, resampling, running
sums; a few lines of text become a kernel.
"""

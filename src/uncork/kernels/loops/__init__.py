"""Loop nests from one generator: pooling, softmax, normalisation, resampling, running sums; a few
lines of text become a kernel.
"""

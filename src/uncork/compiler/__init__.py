"""The compiler: it turns a checked model into an object that is called, chooses how each step runs,
and runs it.
"""

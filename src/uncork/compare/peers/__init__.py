"""The systems that a model is compared with. Each runs in a process of its own (`worker`), which
may die; `process` talks to it.
"""

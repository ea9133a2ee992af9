"""The functions of `torch.nn.functional`, by its names and with its arguments.

`arrays.py` has those that look at what the arrays hold. Each of the others is written as layers, in
the words of `uncork.onnx.graph`; `layered.py` makes them functions on arrays.
"""

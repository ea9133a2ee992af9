"""ONNX models, read: each operator is said in operations of the IR (`read.py`, `lower.py`)."""

"""The file and the graph: reading, writing and checking IR models, and the interpreter."""

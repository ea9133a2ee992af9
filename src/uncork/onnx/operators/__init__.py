"""The lowerings of operators, a file a subject."""

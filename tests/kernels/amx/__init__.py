"""Cases of tile instructions, each run in a process of its own: `python -m tests.kernels.amx FOLDER
CASE`.
"""

"""Embedding tables in 8 or 4 bits or as f16, in standard layers that OpenVINO runs too.

from uncork.shrink import shrink
shrunk = shrink(uncork.read_model("model.xml"), "int8")
print(*shrunk.tables, *shrunk.skipped, sep="\\n")
uncork.write_model(shrunk.model, "small.xml")
"""

from uncork.shrink.compare import OutputError, output_errors
from uncork.shrink.rewrite import KINDS, Kind, Shrunk, ShrunkTable, SkippedTable, shrink

__all__ = [
    "KINDS",
    "Kind",
    "OutputError",
    "Shrunk",
    "ShrunkTable",
    "SkippedTable",
    "output_errors",
    "shrink",
]

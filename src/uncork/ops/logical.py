"""Logic on booleans: LogicalAnd, LogicalOr, LogicalXor (in early files also Xor), LogicalNot.

Pages: operation-specs/logical/<name>-1. Only the boolean type is taken, as the pages say.
"""

from __future__ import annotations

import numpy as np

from uncork.ops._common.elementwise import Binary, Unary
from uncork.ops._operation import register
from uncork.ops._ports import BOOLEAN, Input


class _Logical(Binary):
    a = Input(BOOLEAN, "T")
    b = Input(BOOLEAN, "T")


@register("LogicalAnd", 1)
class LogicalAnd(_Logical):
    """a and b"""

    function = np.logical_and


@register("LogicalOr", 1)
class LogicalOr(_Logical):
    """a or b"""

    function = np.logical_or


@register("LogicalXor", 1)
class LogicalXor(_Logical):
    """Exactly one of a and b"""

    function = np.logical_xor


@register("Xor", 1)
class Xor(LogicalXor):
    """LogicalXor by the type name that opset 1 had for it"""


@register("LogicalNot", 1)
class LogicalNot(Unary):
    """not data"""

    data = Input(BOOLEAN, "T")

    reference = np.logical_not

"""Operations that only see a tensor in another shape."""

from __future__ import annotations

from uncork.internal_ops.view import View
from uncork.kernels.select import selects_view
from uncork.ops.reshape import Reshape1
from uncork.ops.squeeze import Squeeze1, Squeeze15, Unsqueeze1

selects_view(Reshape1, Squeeze1, Squeeze15, Unsqueeze1, View)

"""The emitter of ExperimentalDetectronTopKROIs, which copies the best regions."""

from __future__ import annotations

from uncork.kernels.codegen.emit import F32, U32, Kernel, emitter
from uncork.kernels.codegen.radix_sort import radix_sort, sortable
from uncork.kernels.detection.emit_boxes import PlaceRooms
from uncork.kernels.detection.spec import BestRows

_LAST = 0xFFFFFFFF


@emitter
def emit_best_rows(k: Kernel, spec: BestRows) -> None:
    """The LLVM text of the kernel."""
    a = k.named
    k.stop_unless(a["count"] < k.integer(2**31), k.integer(1))
    rooms = PlaceRooms(k, a, radix_sort(k))
    with k.loop(0, a["count"]) as i:
        score = k.load(a["scores"] + i * F32.bytes, F32)
        key = sortable(k, score, descending=True)
        key = k.select(score.equals(score), key, k.constant(_LAST, U32))
        rooms.put_entry(i, key, i)
    rooms.sorted(a["count"])
    with k.loop(0, a["kept"]) as i:
        row = k.load(a["rows"] + rooms.place(i) * (4 * F32.bytes), F32, 4)
        k.store(row, a["output"] + i * (4 * F32.bytes))

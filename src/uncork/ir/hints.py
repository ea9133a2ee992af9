"""`Hints`: what the compiler is told about a layer beside its meaning."""

from __future__ import annotations

from msgspec import Struct


class Hints(Struct, frozen=True):
    """Hints about the kernels of a layer, and a remark for the plan.

    References know none of it.
    """

    #: What the factors of a recurrent layer's products are rounded to: f32, bf16 or bf16x3.
    precision: str = "f32"
    #: Kernels multiply every pair that the formula has and no other, by no algorithm with fewer
    #: products.
    direct_sums: bool = False
    #: Kernels add up products in the same order for every row, however many rows there are.
    rows_alike: bool = False
    #: What FakeQuantize makes is multiplied as f32, not as integer codes.
    in_f32: bool = False
    #: Whether weights of few bits are decompressed as they are written, or in f32.
    decompression: str = "as-written"
    #: What the data of products with such weights may be rounded to: f32, i16 or i8.
    activations: str = "f32"
    #: What variables that grow keep keys and values in: f16, bf16 or u8; "" as the model has them.
    kv_cache_precision: str = ""
    #: A kernel that cannot be had is an error; else references run in its place.
    kernels_required: bool = False
    #: What a pass has to say of the layer where the plan is printed.
    note: str = ""


NO_HINTS = Hints()

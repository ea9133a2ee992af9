"""A case of code that LLVM writes, compiled and loaded as kernels are."""

from __future__ import annotations

import ctypes

from tests.kernels._bf16 import TILES
from tests.kernels.amx.case import FULL, bits_of, case, emulators, integers, paired
from uncork.kernels.runtime.elf_link import link
from uncork.kernels.runtime.exec_memory import mapped
from uncork.kernels.runtime.llvm import compiled, host
from uncork.kernels.runtime.target import Target

#: f32 `c` (16 x 16) += bf16 `a` (16 x 64) times `b` (64 x 16 in pairs: 32 rows of 16 pairs).
LLVM = """
declare void @llvm.x86.ldtilecfg(ptr)
declare void @llvm.x86.tilerelease()
declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)
declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)
declare void @llvm.x86.tdpbf16ps(i8 immarg, i8 immarg, i8 immarg)

define void @product(ptr %shapes, ptr %a, ptr %b, ptr %c) {
begin:
  call void @llvm.x86.ldtilecfg(ptr %shapes)
  call void @llvm.x86.tileloadd64(i8 0, ptr %c, i64 64)
  br label %loop
loop:
  %k = phi i64 [0, %begin], [%next, %loop]
  %a_bytes = mul i64 %k, 64
  %a_part = getelementptr i8, ptr %a, i64 %a_bytes
  %b_bytes = mul i64 %k, 1024
  %b_part = getelementptr i8, ptr %b, i64 %b_bytes
  call void @llvm.x86.tileloadd64(i8 1, ptr %a_part, i64 128)
  call void @llvm.x86.tileloadd64(i8 2, ptr %b_part, i64 64)
  call void @llvm.x86.tdpbf16ps(i8 0, i8 1, i8 2)
  %next = add i64 %k, 1
  %more = icmp ult i64 %next, 2
  br i1 %more, label %loop, label %end
end:
  call void @llvm.x86.tilestored64(i8 0, ptr %c, i64 64)
  call void @llvm.x86.tilerelease()
  ret void
}
"""


@case
def what_llvm_writes() -> None:
    """A matrix of 16 x 64 by one of 64 x 16, two products of tiles."""
    name, features = host()
    target = Target.of("x86_64", name, features + ",+avx512f,+amx-tile,+amx-bf16")
    object_file = compiled(LLVM, target)
    machine, entry = link(object_file, "product")
    memory = mapped(machine)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 4)(memory.ctypes.data + entry)
    a, b, c = integers(16, 64), integers(64, 16), integers(16, 16)
    expected = c.astype(int) + a.astype(int) @ b.astype(int)
    left, right = bits_of(a), paired(b)
    function(*(x.ctypes.data for x in (FULL, left, right, c)))
    assert c.tolist() == expected.tolist()
    if emulators:
        counts = emulators[0].counts()
        assert [counts[kind] for kind in TILES] == [1, 1, 0, 5, 1, 2, 0, 0]

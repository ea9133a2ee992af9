"""Run one case, or one encoding that there is not. The folder keeps what is built between
processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kernels import _bf16
from tests.kernels.avx512_bf16 import conversions, operands, products  # noqa: F401  # the cases
from tests.kernels.avx512_bf16.case import CASES, emulators, enter
from tests.kernels.avx512_bf16.reserved import RESERVED
from tests.kernels.avx512_bf16.steps import Step, execute

folder, name = Path(sys.argv[1]), sys.argv[2]
enter(folder)
emulator = _bf16.enable(folder)
emulators.extend([] if emulator is None else [emulator])
if name in RESERVED:
    execute([Step(RESERVED[name])])
else:
    CASES[name]()
print("done")

"""Run one case, one refusal, or an instruction that nobody emulates. The folder keeps what is built
between processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.kernels.amx import byte_products, memory, products  # noqa: F401  # the cases in them
from tests.kernels.amx.case import CASES, FULL, start, steps
from tests.kernels.amx.refusals import REFUSALS

folder, name = Path(sys.argv[1]), sys.argv[2]
start(folder, handled_before=name == "handled_before")
if name in ("undefined", "handled_before"):
    steps().call("undefined").run()
elif name == "product_of_bytes":
    steps().configure(FULL).call("product_of_bytes").run()
elif name in REFUSALS:
    REFUSALS[name].steps().run()
else:
    if name == "what_llvm_writes":
        from tests.kernels.amx import compiled  # noqa: F401  # needs llvmlite
    CASES[name]()
print("done")

"""Ids that do not exist, in OpenVINO and in uncork: python examples/ids_out_of_range.py (needs `pip
install openvino`).

OpenVINO is asked in a process of its own: what it does with some of these inputs is not defined.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

import uncork

ASK_OPENVINO = """
import sys, numpy, openvino
model = openvino.Core().compile_model(sys.argv[1], "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
print(model([numpy.array(eval(sys.argv[2]))])[0].tolist())
"""


def embedding_bag(name: str, index: str) -> uncork.Model:
    """One bag of a table of five rows: row i holds the number i. Its ids are i64, or made i32 as
    models from PyTorch do.
    """
    builder = uncork.Builder(name)
    table = builder.constant(np.arange(5, dtype=np.float32)[:, np.newaxis])
    ids = builder.parameter("ids", "i64", [1])
    if index == "i32":
        (ids,) = builder.add("Convert", 1, ids, destination_type="i32")
    offsets = builder.constant(np.zeros(1, np.dtype("int64" if index == "i64" else "int32")))
    (bag,) = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bag")
    builder.result(bag, "bag")
    return builder.model()


def gather() -> uncork.Model:
    """Five integers, picked by ids."""
    builder = uncork.Builder("gather")
    data = builder.constant(np.array([1, 2, 3, 4, 5], np.int32))
    ids = builder.parameter("ids", "i64", [3])
    (picked,) = builder.add("Gather", 8, data, ids, builder.constant(np.int64(0)))
    builder.result(picked, "picked")
    return builder.model()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        for title, model, ids in (
            (
                "EmbeddingBagOffsetsSum, id 2**32 + 1 in a table of 5 rows",
                embedding_bag("bag", "i64"),
                [2**32 + 1],
            ),
            (
                "The same behind a Convert to i32, as models from PyTorch have it",
                embedding_bag("converted", "i32"),
                [2**32 + 1],
            ),
            ("Gather-8 of [1, 2, 3, 4, 5], ids 3, 10 and -20", gather(), [3, 10, -20]),
        ):
            path = Path(folder) / f"{model.name}.xml"
            uncork.write_model(model, path)
            print(title)
            asked = subprocess.run(
                [sys.executable, "-c", ASK_OPENVINO, str(path), str(ids)],
                capture_output=True,
                text=True,
                check=False,
            )
            last = (asked.stdout or asked.stderr).strip().splitlines() or [
                f"the process ended with status {asked.returncode}"
            ]
            print("  OpenVINO:", last[-1])
            try:
                print("  uncork:  ", uncork.load(path)(ids)[0].tolist())
            except uncork.UncorkError as error:
                print("  uncork:  ", str(error).removeprefix(f"{folder}/"))


if __name__ == "__main__":
    main()

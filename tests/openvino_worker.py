"""Runs models with OpenVINO in a process of its own: it crashes on some inputs, and a crash must
cost one answer only.

Reads lines of JSON from standard input, {"model": "x.xml", "inputs": "in.npz", "outputs":
"out.npz", "reshape": bool}, and answers each with {"error": text or null}. Inputs are named by
position.
"""

from __future__ import annotations

import json
import sys

import numpy as np


def main() -> None:
    import openvino

    core = openvino.Core()
    options = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    for line in sys.stdin:
        job = json.loads(line)
        try:
            with np.load(job["inputs"]) as stored:
                arrays = [stored[str(i)] for i in range(len(stored.files))]
            model = core.read_model(job["model"])
            if job.get("reshape"):
                # With dynamic shapes OpenVINO ignores sequence lengths.
                model.reshape({i: list(a.shape) for i, a in enumerate(arrays)})
            compiled = core.compile_model(model, "CPU", options)
            tensors = [
                openvino.Tensor(a.tolist())
                if a.dtype.kind == "U"
                else openvino.Tensor(np.ascontiguousarray(a).reshape(a.shape))
                for a in arrays
            ]
            results = compiled(dict(enumerate(tensors)))
            np.savez(
                job["outputs"],
                **{str(i): np.asarray(results[i]) for i in range(len(compiled.outputs))},
            )
            answer = None
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        print(json.dumps({"error": answer}), flush=True)


if __name__ == "__main__":
    main()

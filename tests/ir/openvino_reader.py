"""How OpenVINO reads some files, as JSON: the names, types and shapes of their inputs and outputs.
A process of its own.
"""

from __future__ import annotations

import json
import sys


def main() -> None:
    import openvino

    core = openvino.Core()
    answers = []
    for path in sys.argv[1:]:
        try:
            model = core.read_model(path)
            ports = [
                [
                    [
                        sorted(p.names),
                        p.element_type.get_type_name(),
                        str(p.partial_shape),
                        p.get_node().get_friendly_name(),
                    ]
                    for p in side
                ]
                for side in (model.inputs, model.outputs)
            ]
            answers.append({"inputs": ports[0], "outputs": ports[1], "info": sorted(model.rt_info)})
        except Exception as error:
            answers.append({"error": str(error)})
    print(json.dumps(answers))


if __name__ == "__main__":
    main()

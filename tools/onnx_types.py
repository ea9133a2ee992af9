"""What of ONNX is read, operator by operator, and who else has it: `python -m tools.onnx_types`
writes tools/onnx_operators.txt, which docs/onnx.md is made of.

The types are those of the first input: every test of one operator that the package `onnx` ships is
opened with each type that the standard gives the operator. onnxruntime says itself what its CPU
provider has; --tinygrad is a file of its version and the names in `tinygrad.nn.onnx.onnx_ops`.
"""

from __future__ import annotations

import argparse
import copy
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import Any

import uncork
from uncork.errors import UncorkError
from uncork.onnx.read import OLDEST
from uncork.onnx.registry import plain_domain
from uncork.onnx.types import ELEMENT_TYPES

TABLE = Path(__file__).with_name("onnx_operators.txt")
#: Domains of the standard without what trains.
_DOMAINS = ("", "ai.onnx.ml")
#: Operators that no such test is of: shapes of their inputs, and attributes.
_OTHERS: Mapping[str, tuple[Sequence[Sequence[int]], Mapping[str, Any]]] = {
    "GlobalLpPool": ([[1, 2, 4, 4]], {}),
    "MaxRoiPool": ([[1, 2, 4, 4], [1, 5]], {"pooled_shape": [2, 2]}),
    "Multinomial": ([[1, 3]], {}),
    "RandomNormalLike": ([[2]], {}),
    "RandomUniformLike": ([[2]], {}),
    "FeatureVectorizer": ([[1, 3]], {"inputdimensions": [3]}),
    "Imputer": ([[1, 2]], {"imputed_value_floats": [0.0], "replaced_value_float": -1.0}),
    "LinearClassifier": (
        [[1, 2]],
        {"coefficients": [1.0] * 4, "intercepts": [0.0] * 2, "classlabels_ints": [0, 1]},
    ),
    "LinearRegressor": ([[1, 2]], {"coefficients": [1.0] * 2}),
    "Normalizer": ([[1, 2]], {"norm": "L2"}),
    "OneHotEncoder": ([[3]], {"cats_int64s": [0, 1]}),
    "Scaler": ([[1, 2]], {"offset": [0.0], "scale": [1.0]}),
}


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tinygrad", type=Path, metavar="FILE", required=True)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version, *names = options.tinygrad.read_text(encoding="utf-8").split()
        table = rows(set(names), version)
        TABLE.write_text("".join(map("\t".join, table)), encoding="utf-8")
    return 0


def rows(tinygrad: Set[str], version: str) -> Iterator[tuple[str, ...]]:
    """Versions first; then a line for every operator of the standard's newest version."""
    import onnx
    import onnxruntime
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_opkernel_def

    theirs = {
        (plain_domain(kernel.domain), kernel.op_name)
        for kernel in get_all_opkernel_def()
        if kernel.provider == "CPUExecutionProvider"
    }
    read, refused = types_of_all()
    yield "", f"onnx {onnx.__version__}", "", "", onnxruntime.__version__, f"{version}\n"
    for schema in sorted(onnx.defs.get_all_schemas(), key=lambda s: (s.domain, s.name)):
        if schema.domain not in _DOMAINS or schema.deprecated:
            continue
        key = schema.domain, schema.name
        # Constants are none when a model is run.
        known = (
            key in theirs
            or schema.name == "Constant"
            or schema.has_function
            or schema.has_context_dependent_function
        )
        yield (
            *key,
            " ".join(sorted(read[key])),
            " ".join(sorted(refused[key] - read[key])),
            "onnxruntime" if known else "",
            ("tinygrad" if schema.name in tinygrad else "") + "\n",
        )


def types_of_all() -> tuple[dict[Any, set[str]], dict[Any, set[str]]]:
    """By domain and operator the types with which a test of it is read, and those with which it is
    not.
    """
    from onnx.backend.test.case.node import collect_testcases

    read, refused = defaultdict[Any, set[str]](set), defaultdict[Any, set[str]](set)
    for tested in (*(case.model for case in collect_testcases(None)), *_others()):
        if len(tested.graph.node) != 1:
            continue
        node = tested.graph.node[0]
        for name, model in retyped(tested):
            if name in read[node.domain, node.op_type]:
                continue
            try:
                uncork.read_model(model.SerializeToString())
            except UncorkError:
                refused[node.domain, node.op_type].add(name)
            else:
                read[node.domain, node.op_type].add(name)
    return read, refused


def _others() -> Iterator[Any]:
    import onnx
    from onnx import helper

    for name, (shapes, attributes) in _OTHERS.items():
        domain = "" if onnx.defs.has(name) else "ai.onnx.ml"
        names = [f"x{i}" for i in range(len(shapes))]
        node = helper.make_node(name, names, ["y"], domain=domain, **attributes)
        inputs = [
            helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, shape)
            for n, shape in zip(names, shapes, strict=True)
        ]
        output = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        graph = helper.make_graph([node], name, inputs, [output])
        imports = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 3)]
        yield helper.make_model(graph, opset_imports=imports)


def retyped(model: Any) -> Iterator[tuple[str, Any]]:
    """The model of one node with its first input, and all that has the same type by the standard,
    in each type that the IR has, too.
    """
    import onnx

    node = model.graph.node[0]
    version = next(i.version for i in model.opset_import if i.domain == node.domain)
    schema = onnx.defs.get_schema(node.op_type, version, node.domain)
    if not schema.inputs or not node.input:
        return
    kind = schema.inputs[0].type_str
    allowed = {c.type_param_str: c.allowed_type_strs for c in schema.type_constraints}
    same = {
        name
        for formals, actual in ((schema.inputs, node.input), (schema.outputs, node.output))
        for i, name in enumerate(actual)
        if name and formals and formals[min(i, len(formals) - 1)].type_str == kind
    }
    for text in allowed.get(kind, [kind]):
        name = text.removeprefix("tensor(").removesuffix(")")
        number = getattr(onnx.TensorProto, name.upper(), None)
        if number in ELEMENT_TYPES:
            other = copy.deepcopy(model)
            for imported in other.opset_import:
                if not imported.domain:
                    imported.version = max(imported.version, OLDEST)
            for given in (*other.graph.input, *other.graph.output):
                if given.name in same and given.type.HasField("tensor_type"):
                    given.type.tensor_type.elem_type = number
            yield ELEMENT_TYPES[number].name, other


if __name__ == "__main__":
    sys.exit(main())

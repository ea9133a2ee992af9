"""A kernel that takes its operands apart calls each as its spec does."""

from __future__ import annotations

import ast
import importlib.util
import pkgutil
from collections.abc import Iterator

from uncork import kernels
from uncork.kernels.kernel_spec import KernelSpec


def specs(kind: type[KernelSpec] = KernelSpec) -> Iterator[type[KernelSpec]]:
    """The specs whose operands have the same names whatever they are made for."""
    for each in kind.__subclasses__():
        yield from specs(each)
        if isinstance(getattr(each, "arguments", None), tuple) and hasattr(each, "emitter"):
            yield each


def taken_apart(module: str) -> Iterator[tuple[str, list[str]]]:
    """The functions of a module that take `k.arguments` apart, and what they call them."""
    found = importlib.util.find_spec(module)
    assert found is not None and found.origin is not None
    with open(found.origin, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for step in function.body:
            match step:
                case ast.Assign([ast.Tuple(elts=names)], ast.Attribute(attr="arguments")):
                    yield function.name, [ast.unparse(name) for name in names]


def test_operands_have_the_names_of_the_spec() -> None:
    for module in pkgutil.walk_packages(kernels.__path__, "uncork.kernels."):
        if "spec" in module.name.rpartition(".")[2]:
            importlib.import_module(module.name)
    for name in ("dispatch", "read_size", "whole_file"):
        importlib.import_module(f"uncork.kernels.runtime.{name}")
    looked_at = 0
    for spec in specs():
        module, _, emitter = spec.emitter.partition(":")
        for function, names in taken_apart(module):
            if function == emitter:
                assert names == list(spec.arguments), spec
                looked_at += 1
    assert looked_at > 20

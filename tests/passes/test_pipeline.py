"""The list of passes: it has every pass, each entry can be called, and the record says what they
did.
"""

from __future__ import annotations

import ast
import importlib
import inspect
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace

import uncork
from uncork.ir.model import Model
from uncork.kernels.runtime.target import Target
from uncork.passes import pipeline

TARGET = Target.of("x86_64", "x86-64-v3", "+sse2,+avx,+avx2,+fma,+f16c")
ALL = (*pipeline.AS_READ, *pipeline.ON_LOAD, *pipeline.WITH_SIZES)
FOLDER = Path(pipeline.__file__).parent
#: Modules that are not rewrites of the list: what rewrites share, and their parts; and variables,
#: which only a stateful call makes inputs and outputs of, and sessions rows of tables.
OTHERS = {
    "stored_values",
    "__init__",
    "pipeline",
    "rewrite",
    "known_values",
    "match_selection",
    "straight_ids",
    "quantized_values",
}
OTHERS |= {
    "between_blocks",
    "held_codes",
    "layers_of_codes",
    "match_moves",
    "match_norms",
    "match_parts",
    "match_masks",
    "match_scores",
    "block_candidates",
    "block_choice",
    "blocked_layers",
    "channel_layouts",
    "finite_zeros",
    "zero_channels",
    "functionalize_variables",
    "match_appends",
    "state_rows",
}


def test_every_module_with_a_rewrite_is_in_the_list() -> None:
    modules = {path.stem for path in FOLDER.glob("*.py")} - OTHERS
    assert {entry.module or entry.name for entry in ALL} == modules


@pytest.mark.parametrize("entry", ALL, ids=lambda entry: entry.name)
def test_an_entry_is_a_function_with_its_option(entry: pipeline.Pass) -> None:
    function = entry.function()
    assert function.__name__ == entry.name
    parameters = inspect.signature(function).parameters.values()
    needed = [p.name for p in parameters if p.default is inspect.Parameter.empty]
    assert needed == ["model", entry.option] if entry.option else needed == ["model"]
    assert not entry.does.endswith(".")


def test_nobody_else_calls_a_pass() -> None:
    """But for the tables, which take ids as bags do."""
    names = {entry.name for entry in ALL}
    root = FOLDER.parent
    for path in (*root.glob("compiler/*.py"), *root.glob("passes/*.py"), *root.glob("cli/*.py")):
        imported = {
            alias.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        found = imported & names
        assert not found or (path.stem, found) == ("quantized_tables", {"absorb_index_converts"})


def bags(narrowed: bool) -> Model:
    builder = uncork.Builder()
    ids, offsets = (builder.parameter(name, "i64", [None]) for name in ("ids", "offsets"))
    if narrowed:
        (ids,) = builder.add("Convert", 1, ids, destination_type="i32", name="cut")
        (offsets,) = builder.add("Convert", 1, offsets, destination_type="i32")
    table = builder.constant(np.ones((4, 2), np.float32))
    out = builder.add("EmbeddingBagOffsetsSum", 3, table, ids, offsets, name="bag")[0]
    builder.result(builder.add("ReLU", 1, out, name="relu")[0])
    return builder.model()


def test_the_record_names_what_was_made() -> None:
    record: list[pipeline.Applied] = []
    options = pipeline.Options(TARGET, ids="as-written")
    model = bags(narrowed=True)
    after = pipeline.apply_passes(pipeline.ON_LOAD, model, options, record)
    assert [(applied.name, applied.made) for applied in record] == [
        ("absorb_index_converts", ("bag",))
    ]
    assert record[0].before == len(model.nodes) and record[0].after == len(after.nodes) < len(
        model.nodes
    )


def test_a_model_that_no_pass_changes_is_the_same_object() -> None:
    record: list[pipeline.Applied] = []
    model = bags(narrowed=False)
    assert pipeline.apply_passes(pipeline.ON_LOAD, model, pipeline.Options(TARGET), record) is model
    assert record == []


def test_a_pass_that_the_model_has_no_layer_for_is_not_imported(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []
    real = importlib.import_module
    monkeypatch.setattr(
        pipeline.importlib, "import_module", lambda name: asked.append(name) or real(name)
    )
    pipeline.apply_passes(pipeline.ON_LOAD, bags(narrowed=False), pipeline.Options(TARGET))
    assert asked == ["uncork.passes.absorb_index_converts", "uncork.passes.fold_constants"]


def test_precision_is_a_pass_with_an_option() -> None:
    (entry,) = [entry for entry in pipeline.AS_READ if entry.name == "set_precision"]
    options = pipeline.Options(TARGET)
    assert not entry.when(options)
    assert entry.when(replace(options, precision="bf16"))

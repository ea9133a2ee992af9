"""`uncork bench`, `compiled.profile` and `uncork doctor`: what they measure and say. Never how fast
anything is.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command
from uncork.cli import doctor
from uncork.cli._latency import Contender, measure
from uncork.compiler.profile import Limits, Profile, ProfiledStep, microseconds
from uncork.compiler.work import operations, traffic
from uncork.kernels import select
from uncork.kernels.runtime.target import host_target, level_of
from uncork.kernels.stored_types import multiplies_pairs
from uncork.types import ElementType, PartialShape, TensorSpec

Same = Callable[..., str]
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "word_language"


def test_latency(command: Command, rows: Path) -> None:
    answer = command(
        "bench",
        "rows.xml",
        "--shape",
        "ids=3,2",
        "--random-range",
        "ids=0:4",
        "--seconds",
        "0.05",
        "--threads",
        "1",
    )
    assert (answer.status, answer.err) == (0, "")
    assert re.search(r"(?m)^ +min +median +p90 +p99 +calls +calls/s\nuncork +[\d.]+ us", answer.out)
    pairs = multiplies_pairs(host_target()) and not select.unavailable()
    fast = " ('fast' would multiply bf16)" if pairs else ""
    assert answer.out.endswith(f"1 thread, f32{fast}\n")


def test_json(command: Command, rows: Path) -> None:
    words = [
        "bench",
        "rows.xml",
        "-i",
        "ids=[[0,1],[2,3]]",
        "--seconds",
        "0.05",
        "--threads",
        "2",
        "--profile",
        "--json",
    ]
    told = command(*words).json
    assert told["schema"] == "uncork-bench-1"
    assert (told["threads"], told["precision"], told["random_inputs"]) == (2, "f32", [])
    (latency,) = told["latency"]
    assert 0 < latency["min"] <= latency["median"] <= latency["p90"] <= latency["p99"]
    assert latency["calls"] >= 1
    assert {step["layer"] for step in told["profile"]["steps"]} == {"pick", "pick_words"}
    assert told["profile"]["limits"]["bytes_per_second"] > 0


def test_profile_as_text(command: Command, rows: Path) -> None:
    answer = command("bench", "rows.xml", "-i", "ids=[[0,1]]", "--seconds", "0.05", "--profile")
    assert answer.status == 0
    assert re.search(
        r"(?m)^layer +operation +kernel +outputs +time +share +GFLOP/s +GB/s +why no faster$",
        answer.out,
    )
    assert re.search(r"(?m)^pick_words +Gather-8 +reference +string\[1,2\] ", answer.out)
    assert ("no kernel for strings" in answer.out) == (not select.unavailable())
    assert re.search(
        r"\n2 steps by themselves .*, a whole call .*\none thread of this machine: .* GFLOP/s "
        r"\(products of f32\)",
        answer.out,
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "0"], "expected seconds, above 0 and at most 3600, got '0'"),
        (["--seconds", "long"], "expected seconds"),
        (["--threads", "0"], "expected a whole number of at least 1, got '0'"),
        (["--precision", "f16"], "expected f32 or bf16 or bf16x3 or fast, got 'f16'"),
        (["--against", "onnxruntime"], "or torch:FILE.pt2, got 'onnxruntime'"),
        (["--against", "tensorflow"], "expected openvino, onnxruntime:FILE.onnx or torch"),
    ],
)
def test_command_lines(command: Command, rows: Path, words: list[str], message: str) -> None:
    answer = command("bench", "rows.xml", *words)
    assert answer.status == 2
    assert message in answer.err


def test_open_sizes_are_chosen_and_told(command: Command, rows: Path) -> None:
    told = command("bench", "rows.xml", "--seconds", "0.05", "--json").json
    assert [one["size"] for one in told["sizes"]] == [1, 128] and told["declined"] == []
    shapes = [one["random_inputs"][0]["shape"] for one in told["sizes"]]
    assert shapes == [[1, 2], [128, 2]] and told["latency"] == told["sizes"][0]["latency"]
    text = command("bench", "rows.xml", "--seconds", "0.05").out
    for size in (1, 128):
        assert f"sizes that the model leaves open: {size} (--shape gives others)\n" in text
    told = command("bench", "rows.xml", "--seconds", "0.05", "--shape", "ids=3,2", "--json").json
    assert "sizes" not in told and told["random_inputs"][0]["shape"] == [3, 2]


def test_sizes_that_do_not_fit_are_told(command: Command, same: Same) -> None:
    """Between 2 and 5: the nearest. Of 4 axes of 128 there is too much."""
    told = command("bench", same(x="f32[2..5]"), "--seconds", "0.05", "--json").json
    assert [one["random_inputs"][0]["shape"] for one in told["sizes"]] == [[2], [5]]
    told = command("bench", same(x="f32[?,?,?,?]"), "--seconds", "0.05", "--json").json
    assert [one["size"] for one in told["sizes"]] == [1]
    assert told["declined"][0]["why"].endswith("'x' would be of [128, 128, 128, 128]")
    text = command("bench", same(x="f32[?,?,?,?]"), "--seconds", "0.05").out
    assert "sizes of 128 cannot be called: input 'x' would be of" in text


def test_no_size_fits(command: Command, tmp_path: Path) -> None:
    builder = uncork.Builder("seven")
    x = builder.parameter("x", "f32", [None])
    shape = builder.constant(np.array([7, 3]))
    builder.result(builder.add("Reshape", 1, x, shape, special_zero=False)[0])
    uncork.write_model(builder.model(), tmp_path / "seven.xml")
    message = command("bench", "seven.xml", "--seconds", "0.05").message
    assert "--shape 'x=N'" in message
    assert "sizes of 1: " in message and "sizes of 128: " in message


@pytest.mark.oracle
@pytest.mark.parametrize("system", ["onnxruntime", "torch"])
def test_against_other_files(command: Command, same: Same, tmp_path: Path, system: str) -> None:
    pytest.importorskip(system)
    model = uncork.read_model(tmp_path / same(x="f32[4,3]"))
    words = ["bench", "same.xml", "--seconds", "0.05", "--threads", "1", "--against"]
    if system == "torch":
        torch = pytest.importorskip("torch")
        program = torch.export.export(uncork.to_torch(model), (torch.zeros(4, 3),))
        torch.export.save(program, tmp_path / "same.pt2")
        assert "give --trust" in command(*words, "torch:same.pt2").message
        words += ["torch:same.pt2", "--trust"]
    else:
        pytest.importorskip("onnx")
        uncork.write_onnx(model, tmp_path / "same.onnx")
        words.append("onnxruntime:same.onnx")
    told = command(*words, "--json").json
    assert [one["name"] for one in told["latency"]] == ["uncork", system]
    words[words.index(next(w for w in words if ":" in w))] = f"{system}:none.file"
    assert "cannot run it" in command(*words).err


@pytest.mark.oracle
def test_against_openvino(command: Command, same: Same) -> None:
    pytest.importorskip("openvino")
    told = command(
        "bench",
        same(x="f32[4,3]"),
        "--seconds",
        "0.05",
        "--threads",
        "1",
        "--against",
        "openvino",
        "--json",
    ).json
    assert [one["name"] for one in told["latency"]] == ["uncork", "openvino"]
    text = command(
        "bench", "same.xml", "--seconds", "0.05", "--threads", "1", "--against", "openvino"
    ).out
    assert re.search(r"uncork is [\d.]+ times as fast as openvino, by the medians\n", text)


def test_contenders_take_turns() -> None:
    calls: list[str] = []
    contenders = [
        Contender(name, lambda name=name: calls.append(name), lambda: calls.append("before"))
        for name in "ab"
    ]
    told: list[tuple[int, int]] = []
    measure(contenders, 0.15, lambda done, of: told.append((done, of)))
    assert told == [(1, 3), (2, 3), (3, 3)]
    order = [name for name in calls if name != "before"]
    changes = sum(a != b for a, b in itertools.pairwise(order[6:]))
    assert changes == 5, "three turns each, one after the other"
    assert calls.count("before") == len(order)
    assert [len(one.seconds) for one in contenders] == [order[6:].count("a"), order[6:].count("b")]


# ---- the profile


def network() -> uncork.CompiledModel:
    builder = uncork.Builder("network")
    x = builder.parameter("x", "f32", [None, 16])
    weights = builder.constant(np.ones((16, 8), np.float32))
    (product,) = builder.add(
        "MatMul", 1, x, weights, name="product", transpose_a=False, transpose_b=False
    )
    (flat,) = builder.add(
        "Reshape", 1, product, builder.constant(np.array([-1])), name="flat", special_zero=False
    )
    (soft,) = builder.add("SoftMax", 8, flat, name="soft", axis=0)
    builder.result(soft, "y")
    return uncork.compile_model(builder.model(), threads=1)


def test_profile() -> None:
    told: list[tuple[int, int]] = []
    found = network().profile(
        np.ones((4, 16), np.float32), progress=lambda done, of: told.append((done, of))
    )
    assert isinstance(found, Profile)
    assert [step.layer for step in found.steps] == ["product", "flat", "soft"]
    product, flat, soft = found.steps
    assert product.outputs == "f32[4,8]" and soft.outputs == "f32[32]"
    assert product.operations == 2 * 4 * 16 * 8
    assert product.bytes == 4 * (4 * 16 + 16 * 8 + 4 * 8)
    assert product.seconds > 0 and soft.seconds > 0 and found.call_seconds > 0
    assert told[-1][0] == told[-1][1]
    if not select.unavailable():
        assert flat.kernel == "view" and flat.seconds == 0
        assert "reference" not in (product.kernel, soft.kernel)
    text = str(found)
    assert text.splitlines()[0].split()[:3] == ["layer", "operation", "kernel"]
    assert "3 steps by themselves" in text


def test_profile_counts_the_products_of_groups() -> None:
    """A group's outputs see the group's channels only; between others it may lie in blocks."""
    rng = np.random.default_rng(3)
    builder = uncork.Builder("groups")
    value = builder.parameter("x", "f32", [1, 32, 12, 12])
    sizes = {"one": (32, 32, 1, 1), "groups": (4, 8, 8, 3, 3), "each": (32, 1, 1, 3, 3)}
    for name, shape in sizes.items():
        filters = builder.constant(rng.normal(size=shape).astype(np.float32))
        lead, pad = ("Group", 1) if len(shape) > 4 else ("", 0)
        (value,) = builder.add(
            f"{lead}Convolution", 1, value, filters, name=name, strides=[1, 1], dilations=[1, 1],
            pads_begin=[pad, pad], pads_end=[pad, pad],
        )  # fmt: skip
        (value,) = builder.add("ReLU", 1, value, name=f"{name} ends")
    builder.result(value, "y")
    found = uncork.compile_model(builder.model(), threads=1).profile(
        np.ones((1, 32, 12, 12), np.float32)
    )
    by_layer = {
        name: sum(step.operations for step in found.steps if step.layer.startswith(name))
        for name in sizes
    }
    pixels = 12 * 12
    products = {"one": 32 * 32, "groups": 4 * 8 * 8 * 9, "each": 32 * 9}
    for name, each in products.items():
        # The activation is a step of its own where no kernel joins it: one operation a number.
        assert by_layer[name] in (2 * pixels * each, 2 * pixels * each + 32 * pixels), name


def test_profile_takes_what_a_call_takes() -> None:
    compiled = network()
    x = np.ones((4, 16), np.float32)
    for inputs in ([x], {"x": x}, {0: x}):
        assert len(compiled.profile(inputs).steps) == 3
    with pytest.raises(
        uncork.InputError, match=r"input 'x': expected shape \[\?,16\], got \[4, 15\]"
    ):
        compiled.profile(x[:, :15])


def test_variables_stay_as_they_are() -> None:
    builder = uncork.Builder("counter")
    x = builder.parameter("x", "f32", [1])
    start = builder.constant(np.zeros(1, np.float32))
    (before,) = builder.add(
        "ReadValue",
        6,
        start,
        name="read",
        variable_id="v",
        variable_type="f32",
        variable_shape=uncork.PartialShape([1]),
    )
    (total,) = builder.add("Add", 1, before, x, name="add")
    builder.add("Assign", 6, total, name="assign", variable_id="v")
    builder.result(total, "total")
    compiled = uncork.compile_model(builder.model())
    one = np.ones(1, np.float32)
    assert compiled(one)[0].item() == 1
    # Plans take variables as inputs and give them as results: reading and assigning are no steps.
    assert [step.layer for step in compiled.profile(one).steps if step.layer == "add"] == ["add"]
    assert compiled(one)[0].item() == 2


def test_profile_by_the_references() -> None:
    compiled = uncork.compile_model(network().model, backend="reference")
    steps = compiled.profile(np.ones((4, 16), np.float32)).steps
    assert {step.kernel for step in steps} <= {"reference", "view"}


def spec(element_type: str, *shape: int) -> TensorSpec:
    return TensorSpec(ElementType.parse(element_type), PartialShape(shape))


@pytest.mark.parametrize(
    ("type_name", "inputs", "output", "expected"),
    [
        ("MatMul", [spec("f32", 4, 16), spec("f32", 16, 8)], spec("f32", 4, 8), 2 * 4 * 16 * 8),
        (
            "Convolution",
            [spec("f32", 1, 3, 8, 8), spec("f32", 5, 3, 3, 3)],
            spec("f32", 1, 5, 6, 6),
            2 * 5 * 36 * 27,
        ),
        (
            "GroupConvolution",
            [spec("f32", 1, 4, 8, 8), spec("f32", 4, 1, 1, 3, 3)],
            spec("f32", 1, 4, 6, 6),
            2 * 4 * 36 * 9,
        ),
        (
            "ConvolutionBackpropData",
            [spec("f32", 1, 3, 4, 4), spec("f32", 3, 2, 2, 2)],
            spec("f32", 1, 2, 8, 8),
            2 * 3 * 16 * 2 * 4,
        ),
        (
            "GRUSequence",
            [spec("f32", 2, 5, 4), spec("f32", 2, 1, 6)],
            spec("f32", 2, 1, 5, 6),
            2 * 3 * 2 * 5 * 6 * (4 + 6),
        ),
        (
            "EmbeddingBagOffsetsSum",
            [spec("f32", 100, 8), spec("i64", 7), spec("i64", 2)],
            spec("f32", 2, 8),
            7 * 8,
        ),
        ("Gather", [spec("f32", 100, 8), spec("i64", 7)], spec("f32", 7, 8), 0),
        ("Add", [spec("f32", 4, 8), spec("f32", 8)], spec("f32", 4, 8), 32),
    ],
)
def test_operations(
    type_name: str, inputs: list[TensorSpec], output: TensorSpec, expected: int
) -> None:
    """By hand: two for each term of a product."""
    assert operations(type_name, inputs, [output]) == pytest.approx(expected)


def test_the_work_of_layers_that_run_as_one() -> None:
    """By hand, from the lengths of the example's words: 2 directions of 80 units with 3 gates,
    which read 80 states; the products of its letters are made before.
    """
    compiled = uncork.load(EXAMPLE / "model.xml", threads=1)
    with np.load(EXAMPLE / "words.npz") as file:
        words = dict(file)
    steps = {step.layer: step for step in compiled.profile(words).steps}
    if not select.unavailable():
        gru = 2 * int(words["lengths"].sum()) * 2 * 80 * 3 * 80
        assert steps["gru"].operations == pytest.approx(gru)
        weights = 2 * 3 * 80 * (32 + 80) + 2 * 4 * 80
        rows = words["chars"].size * 32  # at most: the table has fewer
        others = 8 * words["chars"].size + 4 * (weights + 40 * 2 * 80)
        assert others < steps["gru"].bytes <= others + 4 * rows + 8 * 40
    for moved in ("seen", "zero_state"):
        assert steps[moved].operations == 0 and steps[moved].bytes > 0
    shown = compiled.profile(words).rows()
    assert all(not row[6] for row in shown if row[0] == "seen"), "what only moves has no GFLOP/s"


@pytest.mark.parametrize(
    ("operations", "bytes_", "expected"),
    [
        (50.0, 1.0, "50% of the arithmetic"),
        (1.0, 50.0, "50% of the memory"),
        (300.0, 1.0, "3.0 times one thread's arithmetic"),
        (40.0, 200.0, "40% of the arithmetic, in the cache"),
        (0.0, 200.0, "in the cache"),
        (0.1, 0.1, ""),
    ],
)
def test_what_bounds_a_step(operations: float, bytes_: float, expected: str) -> None:
    step = ProfiledStep("layer", "Add-1", "add", "", "f32[1]", 1.0, bytes_, operations)
    profile = Profile((step,), 1.0, Limits(bandwidth=100.0, operations=100.0))
    assert profile.rows()[1][-1] == expected


def test_traffic() -> None:
    assert traffic("Add", [spec("f32", 4, 8), spec("f32", 8)], [spec("f32", 4, 8)]) == 4 * (
        32 + 8 + 32
    )
    assert (
        traffic("Gather", [spec("f32", 100, 8), spec("i64", 7)], [spec("f32", 7, 8)])
        == 4 * 56 + 8 * 7 + 4 * 56
    )


def test_times_as_people_read_them() -> None:
    assert [microseconds(seconds) for seconds in (2.5, 0.0025, 2.5e-6)] == [
        "2.50 s",
        "2.50 ms",
        "2.50 us",
    ]


# ---- uncork run


def test_repeat(command: Command, same: Same) -> None:
    answer = command("run", same(x="f32[2]"), "-i", "x=[1,2]", "--repeat", "3", "--threads", "1")
    assert re.search(r"\n3 calls: min .* us, median .*, p90 .*, p99 .*\n$", answer.out)
    assert (
        command("run", "same.xml", "-i", "x=[1,2]", "--repeat", "3", "--json").json["latency"][
            "calls"
        ]
        == 3
    )
    assert command("run", "same.xml", "-i", "x=[1,2]", "--repeat", "0").status == 2
    bf16 = command("run", "same.xml", "-i", "x=[1,2]", "--precision", "bf16")
    assert bf16.status == 0 or "precision 'bf16' needs" in bf16.message


@pytest.mark.parametrize(
    ("expected", "words", "status", "verdict"),
    [
        ([1, 2], [], 0, "as expected"),
        ([1, 2.0001], [], 0, "as expected"),
        ([1, 2.01], [], 1, r"differs: 1 of 2 values"),
        ([1, 2.01], ["--tolerance", "1%"], 0, "as expected"),
        ([1, 2.01], ["--tolerance", "0.02"], 0, "as expected"),
        ([1, 2.01], ["--tolerance", "0.005"], 1, "differs: 1 of 2 values"),
        (
            [1, np.nan],
            ["--tolerance", "100"],
            1,
            "differs: 1 of 2 values are NaN or infinite on one side only",
        ),
        ([1, 2, 3], ["--tolerance", "100"], 1, r"differs: shape \[2\] here, \[3\] there"),
    ],
)
def test_expect(
    command: Command,
    same: Same,
    tmp_path: Path,
    expected: list[Any],
    words: list[str],
    status: int,
    verdict: str,
) -> None:
    np.savez(tmp_path / "out.npz", x_out=np.array(expected, np.float32))
    answer = command("run", same(x="f32[2]"), "-i", "x=[1,2]", "--expect", "out.npz", *words)
    assert answer.status == status
    assert re.search(rf"(?m)^x_out .*{verdict}$", answer.out)
    told = command(
        "run", "same.xml", "-i", "x=[1,2]", "--expect", "out.npz", *words, "--json"
    ).json["expected"]
    assert [one["differs"] for one in told] == [status == 1]


def test_expect_errors(command: Command, same: Same, tmp_path: Path) -> None:
    np.savez(tmp_path / "other.npz", y=np.zeros(2, np.float32))
    assert (
        "no output is called 'y'"
        in command("run", same(x="f32[2]"), "-i", "x=[1,2]", "--expect", "other.npz").message
    )
    assert (
        "cannot be read"
        in command("run", "same.xml", "-i", "x=[1,2]", "--expect", "none.npz").message
    )
    assert command("run", "same.xml", "-i", "x=[1,2]", "--tolerance", "1").status == 2
    assert (
        command(
            "run", "same.xml", "-i", "x=[1,2]", "--expect", "other.npz", "--tolerance", "much"
        ).status
        == 2
    )
    np.save(tmp_path / "x.npy", np.array([1, 2], np.float32))
    assert command("run", "same.xml", "-i", "x=[1,2]", "--expect", "x.npy").status == 0


# ---- uncork doctor


def test_doctor(command: Command) -> None:
    answer = command("doctor")
    assert answer.status == (1 if select.unavailable() else 0)
    assert re.search(rf"(?m)^uncork +{re.escape(uncork.__version__)}, in ", answer.out)
    assert re.search(rf"(?m)^packages +numpy {re.escape(np.__version__)}", answer.out)
    told = command("doctor", "--json").json
    assert told["schema"] == "uncork-doctor-1"
    assert told["kernels"] == "work" or select.unavailable()
    assert told["memory"] > 2**20 and told["threads"] >= 1


def test_doctor_without_kernels(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(select, "unavailable", lambda: "llvmlite is not installed")
    answer = command("doctor")
    assert answer.status == 1
    told = r"(?m)^kernels +llvmlite is not installed; everything runs by the references$"
    assert re.search(told, answer.out)
    monkeypatch.setattr(doctor, "kernel_target", lambda: None)
    told = command("doctor", "--json").json
    assert told["cpu"] == (level_of(host_target()) or host_target().cpu), "it says so itself"

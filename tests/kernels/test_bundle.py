"""Kernels that come with the package: bundles, the list of what is in them, and processes without
llvmlite that run by them.
"""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from tools import kernel_bundle, kernel_list, kernel_plans

import uncork
from tests.processes._children import ROOT, run_child
from uncork.kernels.codegen.emit import Kernel
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.runtime import bundle
from uncork.kernels.runtime.bundle import Bundle, key_of, path_of, write
from uncork.kernels.runtime.target import LEVELS, host_target, level_of

LEVEL = level_of(host_target())
here = pytest.mark.skipif(LEVEL is None, reason="there is no level for this processor")


def answer(number: int) -> tuple[bytes, int]:
    pytest.importorskip("llvmlite")
    from uncork.kernels.runtime import llvm
    from uncork.kernels.runtime.elf_link import link

    kernel = Kernel("answer", [])
    kernel.finish(kernel.integer(number))
    return link(llvm.compiled(kernel.text(), host_target()), "answer")


def call(address: int | None) -> int:
    assert address is not None
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p)(address)(None)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    kernels = {key_of("answer", str(n)): answer(n) for n in (*range(40), 7)}
    kernels[key_of("another", "7")] = kernels[key_of("answer", "7")]
    write(tmp_path / "some.kernels", host_target(), kernels)
    return tmp_path / "some.kernels"


@here
@pytest.mark.parametrize("copied", [False, True])
def test_kernels_are_found_by_name_and_description(
    file: Path, copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where they lie in the file, or in a copy where files of this disk may not be executed."""
    if copied:

        def refuse(*_: object) -> None:
            raise PermissionError("not here")

        monkeypatch.setattr(bundle, "mapped_file", refuse)
    found = Bundle(file)
    assert len(found) == 41
    assert [call(found.address("answer", str(n))) for n in range(40)] == [*range(40)]
    assert found.address("another", "7") == found.address("answer", "7"), "the same code, once"
    for name, description in (("answer", "40"), ("answe", "1"), ("", ""), ("another", "1")):
        assert found.address(name, description) is None


@here
@pytest.mark.parametrize("at", [0, 15, 48, 56, 64])
def test_a_file_of_another_kind_is_refused(file: Path, at: int) -> None:
    """Each number of its head is held against the file."""
    content = bytearray(file.read_bytes())
    for value in (0, 1, 0xFF):
        changed = content[:]
        changed[at + (5 if at >= 48 else 0)] ^= value or 0x80
        file.write_bytes(changed)
        with pytest.raises(OSError, match=r"has no kernels|is cut or changed"):
            Bundle(file)


@here
def test_a_cut_file_is_refused(file: Path) -> None:
    content = file.read_bytes()
    for size in (0, 1, 71, 72, 500, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:size])
        with pytest.raises(OSError, match=r"has no kernels|is cut or changed"):
            Bundle(file)


@here
def test_no_place_outside_of_the_code_is_called(file: Path) -> None:
    content, count = bytearray(file.read_bytes()), 41
    first = bundle._HEAD.size + 16 * count
    content[first : first + 4 * count] = b"\xff" * (4 * count)
    file.write_bytes(content)
    assert {Bundle(file).address("answer", str(n)) for n in range(40)} == {None}


@here
def test_what_other_sources_made_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    kernels = {key_of("answer", "1"): answer(1)}
    for digest, used in ((b"x" * 32, False), (bundle.digest_of_kernels(), True)):
        monkeypatch.setattr(bundle, "_opened", {})
        with monkeypatch.context() as patch:
            patch.setattr(bundle, "digest_of_kernels", lambda digest=digest: digest)
            write(path_of(LEVEL or ""), host_target(), kernels)
        assert (bundle.bundle_of(host_target()) is not None) is used


def test_the_list_can_be_read() -> None:
    """Every line is a spec as it is now; `python -m tools.kernel_list` makes the list anew."""
    lines = kernel_bundle.LIST.read_text().splitlines()
    for line in lines:
        levels, text = line.split("\t")
        assert set(levels.split(",")) <= set(kernel_bundle.BUNDLED)
        assert isinstance(kernel_bundle.spec_of(text), KernelSpec)
    assert set(kernel_bundle.BUNDLED) == {
        level for line in lines for level in line.split("\t")[0].split(",")
    }


@pytest.mark.parametrize(
    "text",
    ["", "1", "Bag()", "Bag(", "open('x')", "Nothing(a=1)", "WholeFile(a=1)", "ElementType.f32"],
)
def test_a_line_that_is_no_spec_is_refused(text: str) -> None:
    with pytest.raises(kernel_bundle.Unreadable):
        kernel_bundle.spec_of(text)


@pytest.mark.parametrize("level", ["x86-64-v3", "x86-64-v4", "aarch64"])
def test_the_list_has_what_the_readme_and_the_four_operations_ask_for(level: str) -> None:
    listed = {*kernel_bundle.listed(level), *kernel_bundle.FIXED}
    functions = {one.name for one in kernel_bundle.FUNCTIONS}
    with kernel_plans.planning_for(LEVELS[level]) as asked:
        examples = [ROOT / "examples" / name for name in ("word_language", "session_recommender")]
        assert kernel_plans.plan_folders(examples, LEVELS[level]) == []
        kernel_plans.plan_functions(
            case for n, case in enumerate(kernel_list.lookups()) if n % 17 == 0
        )
        kernel_plans.plan_functions(
            case for n, case in enumerate(kernel_list.sequences()) if n % 5 == 0
        )
    assert len(asked.specs) > 40
    assert {*asked.specs} <= listed, [s.name for s in {*asked.specs} - listed]
    assert {*asked.functions} <= functions


#: A model of bags, whose kernel the bundle has, and of a product, whose kernel it has not.
MODEL = """
import sys, warnings
from pathlib import Path
sys.modules["llvmlite"] = None
import numpy as np
import uncork
from uncork.kernels.runtime import bundle
bundle.FOLDER = Path(sys.argv[1])
builder = uncork.Builder("bags")
ids, bags = builder.parameter("ids", "i64", [None]), builder.parameter("bags", "i64", [None])
table = np.arange(48, dtype=np.float32).reshape(6, 8)
(rows,) = builder.add("EmbeddingBagOffsetsSum", 3, builder.constant(table), ids, bags, name="rows")
(y,) = builder.add("MatMul", 1, rows, builder.constant(np.eye(8, dtype=np.float32)), name="product")
builder.result(y)
model = builder.model()
"""
RUN = """
warnings.simplefilter("always")
with warnings.catch_warnings(record=True) as told:
    compiled = uncork.compile_model(model)
    for _ in range(2):
        got = compiled(np.array([0, 2, 5]), np.array([0, 2]))[0]
        assert (got == [table[0] + table[2], table[5]]).all()
print(*(f"{step.layer} {step.kernel}" for step in compiled.plan.steps), sep="; ")
print(len(told), *(w.message for w in told))
try:
    uncork.compile_model(model, kernels="required")
except uncork.CompileError as error:
    print(error)
print(Path.home() / ".cache", (Path.home() / ".cache").exists())
"""


@pytest.fixture(scope="module")
def few_kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle of this machine's level with all functions and the kernel of one bag."""
    pytest.importorskip("llvmlite")
    folder = tmp_path_factory.mktemp("bundled")
    lanes = host_target().lanes
    some = folder / "list.txt"
    lines = kernel_bundle.LIST.read_text().splitlines()
    bag = f"DenseRows(stored='f32', columns=8, lanes={lanes})"
    assert LEVEL is not None
    chosen = {line.split("\t")[1] for line in lines if "\tBag(" in line and bag in line}
    some.write_text("".join(f"{LEVEL}\t{text}\n" for text in sorted(chosen)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_bundle, "listed", lambda level: _listed(level, some))
        kernel_bundle.make([LEVEL], folder)
    return folder


_listed = kernel_bundle.listed


@here
def test_without_llvmlite_a_missing_kernel_costs_its_layer(
    few_kernels: Path, tmp_path: Path
) -> None:
    """The bag runs by its kernel, the product by its reference; who requires kernels is refused."""
    done = run_child(MODEL + RUN, str(few_kernels), home=tmp_path)
    assert done.returncode == 0, done.stderr
    steps, told, refused, cache = done.stdout.splitlines()
    assert steps.startswith("rows bag_offsets_f32x8_i64") and steps.endswith("reference"), steps
    why = (
        f"is not among those that come with uncork for {LEVEL}, and llvmlite is not installed: "
        "pip install 'uncork[compile]', or compile the model elsewhere"
    )
    assert told.startswith("1 kernel '") and f"{why}; meanwhile references run its layer" in told
    assert refused.startswith("kernel '") and refused.endswith(why)
    assert cache.endswith("False"), "nothing is written where nothing is compiled"


@here
def test_without_kernels_at_all_they_cannot_be_required(tmp_path: Path) -> None:
    code = MODEL + "uncork.compile_model(model, kernels='required')"
    done = run_child(code, str(tmp_path), home=tmp_path)
    assert (
        "CompileError: kernels are required, and llvmlite is not installed: pip install "
        "'uncork[compile]'" in done.stderr
    )


@here
def test_where_kernels_are_compiled_all_are_had(tmp_path: Path) -> None:
    pytest.importorskip("llvmlite")
    builder = uncork.Builder("sum")
    x = builder.parameter("x", "f32", [None])
    builder.result(builder.add("Add", 1, x, x)[0])
    compiled = uncork.compile_model(builder.model(), kernels="required")
    assert compiled(np.ones(3, np.float32))[0].tolist() == [2, 2, 2]
    with pytest.raises(uncork.ValidationError, match="kernels: expected 'if-available'"):
        uncork.compile_model(builder.model(), kernels="all")  # type: ignore[arg-type]
    with pytest.raises(uncork.CompileError, match="are required, and kernels, which the reference"):
        uncork.compile_model(builder.model(), kernels="required", backend="reference")


@here
@pytest.mark.parametrize("level", ["x86-64-v3-windows", "aarch64"])
def test_kernels_are_made_for_other_machines(level: str, tmp_path: Path) -> None:
    """With the functions of all systems and processors; `test_elf_link.py` runs such code."""
    pytest.importorskip("llvmlite")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kernel_bundle, "listed", lambda level: ())
        kernels, problems = kernel_bundle.compiled(level, 1)
    assert problems == [] and len(kernels) == len(kernel_bundle.FIXED) + len(
        kernel_bundle.FUNCTIONS
    )


def test_the_tool_says_what_it_takes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.kernel_bundle", "--level", "i386"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 2 and "invalid choice: 'i386'" in done.stderr

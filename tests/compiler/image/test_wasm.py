"""`write_wasm`: a compiled model as a module of WebAssembly, run by Node and in a browser."""

from __future__ import annotations

import functools
import http.server
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import uncork
from tests.compiler.image.test_c import WANTED, A, B, decoder, product
from tests.compiler.test_grown_outputs import counting
from tests.compiler.test_state import running_sum
from uncork.compiler.image.c.wasm import write_wasm
from uncork.compiler.image.compile import compile_to
from uncork.errors import UnsupportedError

_RUN = """
import { readFileSync } from "node:fs";
import { load } from "./model.js";
const ARRAYS = { f4: Float32Array, i4: Int32Array, i8: BigInt64Array };
const calls = JSON.parse(readFileSync("calls.json"));
const model = await load(readFileSync("model.wasm"), readFileSync("model.constants"));
const said = [];
for (const call of calls) {
  if (call === "reset") { model.reset(); continue; }
  const given = call.map(({ kind, sizes, values }) => (
    { sizes, data: ARRAYS[kind].from(kind === "i8" ? values.map(BigInt) : values) }));
  try {
    said.push(model.run(given).map(({ sizes, data }) => ({ sizes, values: Array.from(data) })));
  } catch (error) { said.push(error.message); }
}
model.close();
console.log(JSON.stringify(said));
"""


def linked() -> bool:
    """Whether modules can be linked and run here."""
    tools = all(map(shutil.which, ("clang", "wasm-ld", "node")))
    return tools and Path("/usr/lib/wasm32-wasi").is_dir()


#: Chromium, by the names that systems give it.
BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
_PAGE = """<!doctype html><title>model</title><pre id="said">nothing</pre>
<script type="module">
import { load } from "./model.js";
const said = document.getElementById("said");
try {
  const files = ["model.wasm", "model.constants"].map((name) => fetch(name));
  const [wasm, constants] = await Promise.all(
    files.map(async (file) => new Uint8Array(await (await file).arrayBuffer())));
  const model = await load(wasm, constants);
  const [sum] = model.run([
    { data: Float32Array.of(1, 2), sizes: [2] }, { data: BigInt64Array.of(0n), sizes: [1] }]);
  const [more] = model.run([
    { data: Float32Array.of(1, 2), sizes: [2] }, { data: BigInt64Array.of(0n), sizes: [1] }]);
  said.textContent = `first ${sum.data} then ${more.data}`;
} catch (error) { said.textContent = `failed: ${error}`; }
</script>
"""

needs_tools = pytest.mark.skipif(
    not linked(), reason="there are no clang, wasm-ld, C library of WebAssembly and Node"
)


def run(model: uncork.Model, folder: Path, *calls: Any) -> list[Any]:
    """What calls give in Node, by their arrays: results, or the message of an error."""
    compile_to(model, folder / "model.uncork", targets=["wasm32"], threads=1)
    write_wasm(folder / "model.uncork", folder)
    rows = [
        call
        if isinstance(call, str)
        else [
            {"kind": a.dtype.str[1:], "sizes": a.shape, "values": a.reshape(-1).tolist()}
            for a in map(np.asarray, call)
        ]
        for call in calls
    ]
    (folder / "calls.json").write_text(json.dumps(rows))
    (folder / "run.mjs").write_text(_RUN)
    (folder / "package.json").write_text('{"type": "module"}')
    done = subprocess.run(
        ["node", "run.mjs"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: list[Any] = json.loads(done.stdout)
    return found


@needs_tools
def test_results_and_errors(tmp_path: Path) -> None:
    wide = np.ones((300, 3), np.float32)
    first, wrong, rank, many = run(product(), tmp_path, [A, B], [A, B[:2]], [A[0], B], [wide, B])
    assert first[0] == {"sizes": [2, 2], "values": [v for row in WANTED for v in row]}
    assert first[1] == {"sizes": [2, 3], "values": A.reshape(-1).tolist()}
    assert wrong.startswith("sizes contradict each other: expected a_1 == b_0")
    assert rank == "no plan takes these arguments"
    assert many[0]["values"] == [2, 0] * 300


@needs_tools
def test_constants_and_variables(tmp_path: Path) -> None:
    x, good, bad = np.array([1, 2], np.float32), np.array([0]), np.array([7])
    calls = [x, good], [x, bad], [x, good], "reset", [x, good]
    one, refused, two, again = run(running_sum(), tmp_path, *calls)
    assert (one[0]["values"], two[0]["values"], again[0]["values"]) == (
        [1.5, 2.5],
        [2.5, 4.5],
        [1.5, 2.5],
    )
    assert refused.startswith("a layer met a value that it does not compute with")


@needs_tools
def test_loops_find_how_large_results_are(tmp_path: Path) -> None:
    start = np.zeros((1, 4), np.float32)
    for turns, found in zip(
        (3, 200),
        run(counting(4), tmp_path, *([start, np.float32(n)] for n in (3, 200))),
        strict=True,
    ):
        assert found[0]["sizes"] == [turns, 4]
        assert found[0]["values"] == [-n for n in range(1, turns + 1) for _ in range(4)]


@needs_tools
@pytest.mark.skipif(BROWSER is None, reason="there is no Chromium")
def test_in_a_browser(tmp_path: Path) -> None:
    """A page that loads the module and makes calls of a model with variables and a constant."""
    compile_to(running_sum(), tmp_path / "model.uncork", targets=["wasm32"], threads=1)
    write_wasm(tmp_path / "model.uncork", tmp_path)
    (tmp_path / "page.html").write_text(_PAGE)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        done = subprocess.run(
            [
                str(BROWSER),
                "--headless",
                "--no-sandbox",
                "--disable-gpu",
                f"--user-data-dir={tmp_path / 'profile'}",
                "--virtual-time-budget=60000",
                "--dump-dom",
                f"http://127.0.0.1:{server.server_port}/page.html",
            ],
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        server.shutdown()
    assert ">first 1.5,2.5 then 2.5,4.5<" in done.stdout, (done.stdout, done.stderr[-2000:])


@needs_tools
def test_the_command(tmp_path: Path) -> None:
    uncork.write_model(product(), tmp_path / "product.xml")
    out = tmp_path / "web"

    def command(*options: str) -> str:
        given = ["compile", os.fspath(tmp_path / "product.xml"), "-o", os.fspath(out)]
        done = subprocess.run(
            [sys.executable, "-m", "uncork", *given, *options],
            capture_output=True,
            text=True,
            check=False,
        )
        return done.stdout if done.returncode == 0 else done.stderr

    assert "1 plan for wasm32" in command("--wasm")
    assert {path.name for path in out.iterdir()} == {"model.wasm", "model.js", "model.constants"}
    assert "is there already" in command("--wasm")
    assert "saved" in command("--wasm", "--overwrite")
    assert "leave --target and" in command("--wasm", "--target", "aarch64")
    assert "expected --c or --wasm" in command("--wasm", "--c")


def test_without_a_linker_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_to(product(), tmp_path / "model.uncork", targets=["wasm32"], threads=1)
    monkeypatch.setenv("PATH", os.fspath(tmp_path))
    with pytest.raises(UnsupportedError, match="linked by clang and wasm-ld, which are not"):
        write_wasm(tmp_path / "model.uncork", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_other_targets_are_refused(tmp_path: Path) -> None:
    compile_to(product(), tmp_path / "model.uncork", targets=["aarch64"])
    with pytest.raises(UnsupportedError, match="not compiled for wasm32"):
        write_wasm(tmp_path / "model.uncork", tmp_path / "out")


@needs_tools
def test_variables_grow_in_place(tmp_path: Path) -> None:
    numbers = np.random.default_rng(4)
    kept, wanted, calls = np.zeros((2, 0, 4), np.float32), [], []
    for count, picks in ((3, [0, 1]), (1, [1, 0]), (300, [1, 1]), (2, [0])):
        new = numbers.standard_normal((len(picks), count, 4)).astype(np.float32)
        kept = np.concatenate([kept[picks], new], axis=1)
        wanted.append(-kept)
        calls.append([new, np.array(picks, np.int32)])
    wrong = [kept[:, :1], np.array([1], np.int32)]
    *found, refused, again = run(decoder(), tmp_path, *calls, wrong, "reset", calls[0])
    for results, value in zip([*found, again], [*wanted, wanted[0]], strict=True):
        assert results[1]["sizes"] == list(value.shape)
        np.testing.assert_array_equal(results[1]["values"], value.reshape(-1))
    assert "picks rows that variable 'k' has not" in refused

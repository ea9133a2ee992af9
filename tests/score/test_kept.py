"""Scoring loses nothing: what is at OUTPUT, rejected rows, runs that were interrupted, their
journals.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import uncork
from tests.score.conftest import random_rows, summed
from tests.score.steps import Here
from tests.score.test_score import check, hidden
from tests.score.test_units import BAGS, write
from uncork.cli import main
from uncork.errors import InputError, UncorkError
from uncork.score.durable import replace_file
from uncork.score.journal import line_of, record_of
from uncork.score.target import JOURNAL, is_one_file

ROWS = random_rows(500, 3)
OLD = ROWS[:100]


@pytest.fixture(autouse=True)
def here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("uncork.score._engine", Here)


@pytest.fixture
def source(bags: Path, tmp_path: Path) -> Path:
    """rows.parquet (500 rows) and old.parquet (the first 100) beside bags.xml."""
    write(tmp_path / "old.parquet", OLD)
    return write(tmp_path / "rows.parquet", ROWS, 50)


def score(source: Path, output: str, **options: Any) -> Any:
    folder = source.parent
    common: dict[str, Any] = {
        "inputs": BAGS,
        "rows_per_part": 50,
        "batch_size": 50,
        "backend": "reference",
        **options,
    }
    return uncork.score(folder / "bags.xml", source, os.path.join(folder, output), **common)


def interrupt(
    source: Path, output: str, units: int, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> Path:
    """A run that ends after some units; the folder with what it has done."""
    with monkeypatch.context() as patch:
        patch.setattr("uncork.score._engine", lambda *_: Here(units=units))
        with pytest.raises(
            UncorkError,
            match=rf"{units} of 10 parts .* are kept in .*: the same with --resume goes on",
        ):
            score(source, output, **options)
    return source.with_name(f".{output}.partial")


# ---- what is at OUTPUT


def test_only_outputs_are_replaced(source: Path, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "diary.txt").write_text("dear diary")
    with pytest.raises(
        InputError,
        match=r"data: is not overwritten: it holds 'diary.txt', which uncork score did not write",
    ):
        score(source, "data", overwrite=True)
    score(source.with_name("old.parquet"), "out")
    (tmp_path / "out" / "diary.txt").write_text("dear diary")
    with pytest.raises(
        InputError,
        match=r"out: is not overwritten: it holds 'diary.txt', which uncork score did not write; "
        r"move it away",
    ):
        score(source, "out", overwrite=True)
    (tmp_path / "out" / "diary.txt").unlink()
    (tmp_path / "out" / "_SUCCESS").write_text("")  # as Spark writes it
    with pytest.raises(
        InputError, match="out: is not overwritten: it has no _SUCCESS of uncork score"
    ):
        score(source, "out", overwrite=True)
    (tmp_path / "letter.parquet").write_text("PAR1 is how this letter begins")
    with pytest.raises(
        InputError, match=r"letter.parquet: is not overwritten: what is there is no Parquet file"
    ):
        score(source, "letter.parquet", overwrite=True)
    assert (tmp_path / "data" / "diary.txt").read_text() == "dear diary"
    check(tmp_path / "out", OLD)
    for name in ("empty.parquet", "empty"):
        (tmp_path / "empty.parquet").touch()
        (tmp_path / "empty").mkdir()
        score(source, name, overwrite=True)
        check(tmp_path / name)
        shutil.rmtree(tmp_path / "empty")
    assert hidden(tmp_path) == []


def test_what_is_read_is_never_replaced(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(tmp_path / "table.npy", np.zeros((20, 3), np.float32))
    (tmp_path / "map.toml").write_text("")
    (tmp_path / "in").mkdir()
    inner = Path(shutil.copy(source, tmp_path / "in"))
    (tmp_path / "link").symlink_to(tmp_path / "in")
    options: dict[str, Any] = {
        "overwrite": True,
        "mapping": tmp_path / "map.toml",
        "tables": {"bag": tmp_path / "table.npy"},
    }
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for name, message in (
        ("rows.parquet", "rows.parquet: would be written over the source"),
        (
            "link/rows.parquet",
            "rows.parquet: would be written over .*, the source|would be written over the source",
        ),
        ("in", "in: would be written over .*rows.parquet, the source"),
        ("link", "in: would be written over .*rows.parquet, the source"),
        (str(tmp_path), "would be written over .*, (the model|the source)"),
        ("/", "/: cannot be written: it is the root of a file system"),
    ):
        with pytest.raises(InputError, match=message):
            uncork.score(
                tmp_path / "bags.xml",
                inner if name.startswith(("in", "link")) else source,
                os.path.join(tmp_path, name),
                inputs=BAGS,
                **options,
            )
    with pytest.raises(InputError, match=r"bags.xml: '.xml' is no kind of file that is written"):
        score(source, "bags.xml", **options)
    with pytest.raises(InputError, match="would be written over the source"):
        score(source, "out", on_error="reject", rejects=source, **options)
    monkeypatch.chdir(tmp_path / "in")
    for name in (".", "../in"):
        with pytest.raises(InputError, match="would be written over the current folder"):
            score(source, str(tmp_path / "in" / name), **options)
    assert before == {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize("output", ["out", "out.parquet"])
def test_rejects_are_apart_from_the_output(source: Path, tmp_path: Path, output: str) -> None:
    score(source.with_name("old.parquet"), "out")
    inside = {"out": ["out/bad.parquet"], "out.parquet": ["out.parquet", "./out.parquet"]}[output]
    for name in inside:
        with pytest.raises(
            InputError, match=r"rejected rows cannot lie in the output, .*: give another name"
        ):
            score(
                source,
                output,
                on_error="reject",
                rejects=os.path.join(tmp_path, name),
                overwrite=True,
            )
    with pytest.raises(
        InputError, match=r"bad.csv: rejected rows are a Parquet file: expected a name in .parquet"
    ):
        score(source, output, on_error="reject", rejects=tmp_path / "bad.csv")
    check(tmp_path / "out", OLD)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *((name, True) for name in ("a.parquet", "A.PARQUET", "a.b.pq")),
        *(
            (name, False)
            for name in ("a", "a/", "a.2026.05", ".a", "a.csv/", "a.", "day=2026-01.05")
        ),
    ],
)
def test_kinds_of_outputs(name: str, kind: bool) -> None:
    assert is_one_file(name) is kind


@pytest.mark.parametrize(
    "name", ["scores.csv", "scores.arrow", "scores.csv.gz", "scores.json", "scores.v2", "scores.db"]
)
def test_an_output_of_an_unknown_kind_is_refused(source: Path, name: str) -> None:
    with pytest.raises(
        InputError, match=rf"'\.\w+' is no kind of file that is written: .* write '.*{name}/'"
    ):
        score(source, name)
    assert not source.with_name(name).exists()
    score(source, f"{name}/")
    check(source.with_name(name))


def test_an_output_by_a_link_and_on_another_file_system(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that a link names is written, the link stays; rejects are copied where they cannot
    be renamed.
    """
    (tmp_path / "deep").mkdir()
    (tmp_path / "latest.parquet").symlink_to(tmp_path / "deep" / "out.parquet")
    (tmp_path / "latest").symlink_to(tmp_path / "deep" / "out")
    monkeypatch.chdir(tmp_path / "deep")
    real = os.replace

    def apart(old: Any, new: Any) -> None:
        """As if every folder were a file system."""
        if (
            os.path.dirname(old) != os.path.dirname(new)
            and "joined" not in str(old)
            and ".partial/part" not in str(old)
        ):
            raise OSError(18, os.strerror(18))
        real(old, new)

    monkeypatch.setattr(os, "replace", apart)
    for overwrite in (False, True):
        for name in ("latest", "latest.parquet"):
            bad = f"../bad-{name}.parquet"
            uncork.score(
                "../bags.xml",
                "../rows.parquet",
                f"../{name}",
                inputs=BAGS,
                on_error="reject",
                rejects=bad,
                overwrite=overwrite,
            )
            check(tmp_path / name)
            assert pq.read_table(bad).num_rows == 0
    assert (tmp_path / "latest").is_symlink() and (tmp_path / "latest.parquet").is_symlink()
    assert sorted(os.listdir()) == ["out", "out.parquet"]
    assert hidden(tmp_path) == []


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "new").write_text("new")
    (tmp_path / "old").write_text("old")

    def failing(number: int) -> Any:
        def fail(*_: Any) -> None:
            raise OSError(number, os.strerror(number))

        return fail

    monkeypatch.setattr(os, "replace", failing(18))
    monkeypatch.setattr(os, "fsync", failing(28))
    with pytest.raises(OSError, match="No space left"):
        replace_file(tmp_path / "new", tmp_path / "old")
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {
        "new": "new",
        "old": "old",
    }


# ---- runs that were interrupted


@pytest.mark.parametrize("output", ["out", "out.parquet"])
def test_a_finished_run_is_known_again(
    source: Path, tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    first = score(source, output)
    again = score(source, output, resume=True)
    assert again.already_finished and not first.already_finished
    assert again.counts == first.counts and again.to_json()["already_finished"] is True
    assert "finished by an earlier run: there was nothing to do" in str(again)
    words = [
        "score",
        str(tmp_path / "bags.xml"),
        str(source),
        str(tmp_path / output),
        "--resume",
        "--backend-is-default",
    ]
    words[-1:] = [word for name, text in BAGS.items() for word in ("--input", f"{name}={text}")]
    # Other options make another run; the same file at another time is another source.
    assert main(words) == 1
    assert "is there already" in capsys.readouterr().err
    assert main([*words, "--overwrite"]) == 0
    capsys.readouterr()
    assert main(words) == 0
    assert (
        "500 rows in = 500 scored + 0 rejected\nfinished by an earlier run"
        in capsys.readouterr().err
    )
    os.utime(source, ns=(1, 1))
    assert main(words) == 1
    check(tmp_path / output)


def test_a_finished_run_without_its_rejects_or_parts_is_not_finished(
    source: Path, tmp_path: Path
) -> None:
    rows = [random_rows(1)[0], *ROWS[1:]]
    rows[0].items.append(99)
    write(source, rows, 50)
    options: dict[str, Any] = {"on_error": "reject", "rejects": tmp_path / "bad.parquet"}
    score(source, "out", **options)
    assert score(source, "out", resume=True, **options).counts.rejected == 1
    (tmp_path / "bad.parquet").rename(tmp_path / "taken.parquet")
    with pytest.raises(
        InputError,
        match=r"bad.parquet: the output is finished, but its 1 rejected rows are not here any more",
    ):
        score(source, "out", resume=True, **options)
    (tmp_path / "taken.parquet").rename(tmp_path / "bad.parquet")
    (tmp_path / "out" / "part-00003.parquet").unlink()
    with pytest.raises(InputError, match="out: is there already"):
        score(source, "out", resume=True, **options)


def test_an_old_output_that_was_moved_away_comes_back(source: Path, tmp_path: Path) -> None:
    """What a kill between the two renames leaves, after its parts were deleted by hand."""
    score(source.with_name("old.parquet"), "out")
    os.rename(tmp_path / "out", tmp_path / ".out.old")
    with pytest.raises(InputError, match="out: is there already"):
        score(source, "out")
    check(tmp_path / "out", OLD)
    os.rename(tmp_path / "out", tmp_path / ".out.old")
    score(source, "out", overwrite=True)
    check(tmp_path / "out")
    assert hidden(tmp_path) == []


def test_folders_of_others_in_the_way(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / ".out.old").mkdir()
    (tmp_path / ".out.old" / "diary.txt").write_text("dear diary")
    for resume in (False, True):
        with pytest.raises(
            InputError,
            match=r"\.out\.old is in the way, and no whole output of uncork score: move it away",
        ):
            score(source, "out", overwrite=True, resume=resume)
    shutil.rmtree(tmp_path / ".out.old")
    partial = interrupt(source, "out", 3, monkeypatch)
    (partial / "diary.txt").write_text("dear diary")
    for resume in (False, True):
        with pytest.raises(
            InputError,
            match=r"there is 'diary.txt', which uncork score did not write: move it away",
        ):
            score(source, "out", resume=resume)
    (partial / "diary.txt").unlink()
    assert score(source, "out", resume=True).resumed_rows == 150
    check(tmp_path / "out")
    (tmp_path / ".file.partial").write_text("a file")
    with pytest.raises(
        InputError, match=r"there is '.file.partial', which uncork score did not write"
    ):
        score(source, "file")
    (tmp_path / ".dir.partial" / JOURNAL).mkdir(parents=True)
    with pytest.raises(
        InputError, match=r"there is '_journal.jsonl', which uncork score did not write"
    ):
        score(source, "dir", resume=True)


def test_parts_that_were_damaged_are_scored_again(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partial = interrupt(source, "out", 6, monkeypatch)
    data = (partial / "part-00002.parquet").read_bytes()
    (partial / "part-00002.parquet").write_bytes(bytes(len(data)))
    (partial / "part-00004.parquet").unlink()
    assert score(source, "out", resume=True).resumed_rows == 200
    check(tmp_path / "out")


def test_an_output_that_comes_meanwhile_stays(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Meanwhile(Here):
        def score_units(self, *arguments: Any) -> Any:
            found = super().score_units(*arguments)
            (tmp_path / "out").mkdir()
            (tmp_path / "out" / "diary.txt").write_text("dear diary")
            return found

    monkeypatch.setattr("uncork.score._engine", Meanwhile)
    with pytest.raises(InputError, match=r"out: is there already(.|\n)*10 of 10 parts"):
        score(source, "out")
    assert (tmp_path / "out" / "diary.txt").read_text() == "dear diary"
    monkeypatch.setattr("uncork.score._engine", Here)
    shutil.rmtree(tmp_path / "out")
    assert score(source, "out", resume=True).resumed_rows == 500
    check(tmp_path / "out")


@pytest.mark.parametrize("changed", ["bags.xml", "bags.bin", "table.npy"])
def test_a_model_that_changes_meanwhile_makes_no_output(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: str
) -> None:
    np.save(tmp_path / "table.npy", np.zeros((20, 3), np.float32))

    class Meanwhile(Here):
        def score_units(self, *arguments: Any) -> Any:
            found = super().score_units(*arguments)
            path = tmp_path / changed
            new = path.with_name("new")
            new.write_bytes(path.read_bytes() + b"\n")
            os.replace(new, path)
            return found

    monkeypatch.setattr("uncork.score._engine", Meanwhile)
    what = {"bags.xml": "model", "bags.bin": "weights", "table.npy": "tables"}[changed]
    with pytest.raises(
        UncorkError, match=rf"bags.xml: changed while rows were scored: {what}; rows by the old"
    ):
        score(source, "out", tables={"bag": tmp_path / "table.npy"})
    assert not (tmp_path / "out").exists()


# ---- the first rows


@pytest.mark.parametrize("rows", [1, 50, 77, 500, 9999])
@pytest.mark.parametrize("form", ["parquet", "arrow", "csv"])
def test_the_first_rows(source: Path, tmp_path: Path, rows: int, form: str) -> None:
    many = tmp_path / "many"
    many.mkdir()
    table = pq.read_table(source)
    for number, start in enumerate((0, 60, 200)):
        part = table.slice(start, (60, 140, 300)[number])
        path = many / f"{number}.{form}"
        if form == "parquet":
            pq.write_table(part, path, row_group_size=25)
        elif form == "arrow":
            with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, part.schema) as writer:
                writer.write_table(part, 25)
        else:
            path.write_text("user\n" + "".join(f"{user}\n" for user in part["user"].to_pylist()))
    wanted = ROWS[:rows]
    options: dict[str, Any] = {"keep": ["row", "user"], "limit": rows}
    if form == "csv":
        options["inputs"] = {"ids": "values(user, round=false)", "offsets": "offsets(user)"}
        options["on_error"], options["rejects"] = (
            "reject",
            tmp_path / "bad.parquet",
        )  # no user is an id
        options["inputs"] = {"ids": "user", "offsets": "offsets(user)"}
    summary = score(many, "out", **options)
    assert summary.counts.rows == len(wanted)
    if form == "csv":
        assert pq.read_table(tmp_path / "bad.parquet")["user"].to_pylist() == [
            row.user for row in wanted
        ]
        return
    found = check(tmp_path / "out", wanted)
    assert found["user"].to_pylist() == [row.user for row in wanted]


# ---- journals


def test_lines_of_a_journal() -> None:
    records: list[dict[str, Any]] = [{"a": [1, {"b": None}], "é": '"}'}, {}, {"check": "00000000"}]
    for record in records[:1] + records[2:]:
        line = line_of(record)
        assert record_of(line) == record
        assert json.loads(line).items() >= {**record, "check": line[-11:-3].decode()}.items()
        for place in range(len(line)):
            changed = bytes([*line[:place], line[place] ^ 1, *line[place + 1 :]])
            assert record_of(changed) is None
            assert record_of(line[:place]) is None
    for line in (b"", b"\n", b"[]\n", b"{}\n", b"\0" * 64 + b"\n", b"\xff\xfe\n"):
        assert record_of(line) is None


def spoil(text: bytes, chance: random.Random) -> bytes:
    """A journal after an accident."""
    data = bytearray(text)
    lines = text.splitlines(keepends=True)
    kind = chance.randrange(8)
    start = chance.randrange(len(data))
    end = min(len(data), start + chance.choice([1, 8, 64, 512, 4096]))
    if kind == 0:
        data[start:end] = bytes(end - start)
    elif kind == 1:
        data[start:end] = chance.randbytes(end - start)
    elif kind == 2:
        del data[start:]
    elif kind == 3:
        del data[start:end]
    elif kind == 4:
        data[start:start] = chance.choice(
            [b"\n", b"[]\n", b"{}\n", b'{"unit": 3}\n', b"\xff\n", b"null\n", b"\0" * 512 + b"\n"]
        )
    elif kind == 5:
        chance.shuffle(lines)
        data = bytearray(b"".join(lines))
    elif kind == 6:
        data += chance.choice(lines)
    else:
        data = bytearray(b"".join(chance.choices(lines, k=len(lines))))
    return bytes(data)


def test_damaged_journals(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Resumed with the right rows, or refused with what to do; and never anything else."""
    whole = tmp_path / "whole"
    interrupt(source, "out", 7, monkeypatch).rename(whole)
    text = (whole / JOURNAL).read_bytes()
    chance = random.Random(5)
    resumed: list[int] = []
    refused: list[str] = []
    partial = tmp_path / ".out.partial"
    why = f"so that it is not known what its parts are; delete {partial} and score again"
    for _ in range(60):
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(whole, partial)
        (partial / JOURNAL).write_bytes(spoil(text, chance))
        try:
            resumed.append(score(source, "out", resume=True).resumed_rows)
        except InputError as error:
            refused.append(str(error))
            assert (partial / "part-00003.parquet").exists()
            continue
        check(tmp_path / "out")
        shutil.rmtree(tmp_path / "out")
        assert hidden(tmp_path) == []
    assert all(
        "out: cannot be resumed: " in text and f"delete {partial}" in text for text in refused
    )
    assert any(f"the journal of the interrupted run is damaged, {why}" in text for text in refused)
    assert len(resumed) > 20 and len(refused) > 5
    assert len(set(resumed)) > 3


def test_journals_of_other_times(source: Path, tmp_path: Path) -> None:
    """A first line that is no description, or empty."""
    partial = tmp_path / ".out.partial"
    for text, message in (
        (b"\0" * 512 + b"\n", "is damaged"),
        (b"[]\n", "is damaged"),
        (line_of({"schema": 1}), "not as before"),
    ):
        partial.mkdir(exist_ok=True)
        (partial / JOURNAL).write_bytes(text)
        with pytest.raises(InputError, match=f"out: cannot be resumed: .*{message}.*delete "):
            score(source, "out", resume=True)
    (partial / JOURNAL).write_bytes(b"half a li")
    score(source, "out")
    check(tmp_path / "out")


@pytest.mark.skipif(sys.platform == "win32", reason="locks")
def test_an_ending_run_has_its_journal_to_the_end(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody may resume a run whose parts are just being joined."""
    code = (
        "import sys, uncork; maps = {'ids': 'values(items)', 'offsets': 'offsets(items)'}; "
        "uncork.score(sys.argv[1], sys.argv[2], sys.argv[3], resume=True, inputs=maps)"
    )
    said: list[str] = []
    real = os.replace

    def replace(old: Any, new: Any) -> None:
        if str(new) == str(tmp_path / "out.parquet"):
            command = [
                sys.executable,
                "-c",
                code,
                str(tmp_path / "bags.xml"),
                str(source),
                str(tmp_path / "out.parquet"),
            ]
            said.append(subprocess.run(command, capture_output=True, text=True, check=False).stderr)
        real(old, new)

    monkeypatch.setattr(os, "replace", replace)
    score(source, "out.parquet")
    assert "out.parquet: is being written by another run" in said[0]
    check(tmp_path / "out.parquet")


def test_without_pyarrow(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        UncorkError,
        match=r"uncork score: needs pyarrow, which is not installed: pip install 'uncork\[score\]'",
    ):
        score(source, "out")


def test_what_the_output_says_of_its_run(source: Path, tmp_path: Path) -> None:
    score(source, "out.parquet")
    score(source, "out")
    footer = json.loads(pq.read_metadata(tmp_path / "out.parquet").metadata[b"uncork.score"])
    success = json.loads((tmp_path / "out" / "_SUCCESS").read_text())
    assert footer["run"] == success["run"]
    assert footer["counts"] == success["counts"]
    assert success["counts"].items() >= {"rows": 500, "scored": 500, "rejected": 0}.items()
    assert summed(ROWS[0].items) == pq.read_table(tmp_path / "out")["sums"][0].as_py()

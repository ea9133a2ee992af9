"""The memory of a container: what is more than it is refused before the system ends the process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.processes._children import ROOT
from uncork import memory
from uncork.compiler import placement, working_memory
from uncork.ops import _memory


def process(folder: Path, groups: str, mounts: list[str]) -> Path:
    """What the system says of a process; mount points are made below `folder`."""
    (folder / "cgroup").write_text(groups)
    lines = [
        f"{30 + n} 23 0:{n} {mount.replace('@', str(folder))}" for n, mount in enumerate(mounts)
    ]
    (folder / "mountinfo").write_text("\n".join(lines) + "\n")
    return folder


def limit(folder: Path, path: str, text: str) -> None:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text + "\n")


V2 = ["/ / rw - ext4 /dev/root rw", "/ @/fs rw,relatime - cgroup2 cgroup2 rw"]


def test_the_lowest_limit_of_the_group_and_those_around_it(tmp_path: Path) -> None:
    here = process(tmp_path, "0::/a/b/c\n", V2)
    assert memory.group_limit(here) is None
    limit(tmp_path, "fs/a/b/c/memory.max", "max")
    assert memory.group_limit(here) is None
    limit(tmp_path, "fs/a/b/memory.max", "2000")
    limit(tmp_path, "fs/a/b/c/memory.max", "3000")
    limit(tmp_path, "fs/a/other/memory.max", "1")
    limit(tmp_path, "memory.max", "1")  # outside of the mount
    assert memory.group_limit(here) == 2000
    limit(tmp_path, "fs/a/memory.max", "1000")
    assert memory.group_limit(here) == 1000


def test_the_first_version_beside_the_second(tmp_path: Path) -> None:
    groups = "9:name=systemd:/x\n4:cpu,memory:/job\n1:cpu:/y\n0::/\n"
    mounts = [
        "/ @/fs/cpu rw - cgroup cgroup rw,cpu",
        "/ @/fs/memory rw - cgroup cgroup rw,memory",
        "/ @/fs/unified rw - cgroup2 cgroup2 rw",
    ]
    limit(tmp_path, "fs/memory/job/memory.limit_in_bytes", "5000")
    limit(tmp_path, "fs/memory/memory.limit_in_bytes", "9223372036854771712")
    limit(tmp_path, "fs/cpu/job/memory.limit_in_bytes", "1")
    assert memory.group_limit(process(tmp_path, groups, mounts)) == 5000


@pytest.mark.parametrize(
    ("path", "root"),
    [("/docker/1f2e", "/docker/1f2e"), ("/../../outside", "/"), ("/docker/1f2e", "/other")],
)
def test_a_container_sees_its_own_group_as_the_outermost(
    tmp_path: Path, path: str, root: str
) -> None:
    limit(tmp_path, "fs/memory.max", "7000")
    assert (
        memory.group_limit(
            process(tmp_path, f"0::{path}\n", [f"{root} @/fs rw - cgroup2 cgroup2 rw"])
        )
        == 7000
    )


def test_a_system_without_groups(tmp_path: Path) -> None:
    assert memory.group_limit(tmp_path / "nothing") is None
    assert memory.group_limit(process(tmp_path, "", [])) is None


def broadcast() -> uncork.CompiledModel:
    builder = uncork.Builder("m")
    shape = builder.parameter("shape", "i64", [1])
    builder.result(builder.add("Broadcast", 3, builder.constant(np.float32(1)), shape)[0])
    return uncork.compile_model(builder.model())


def test_the_message_says_whose_memory_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (_memory, placement, working_memory):
        monkeypatch.setattr(
            module, "available", lambda: (1000, "the memory that this container may use")
        )
    assert broadcast()([250])[0].size == 250
    with pytest.raises(
        uncork.InputError,
        match=r"needs 1,004 bytes, more than the memory that this container may use \(1,000 "
        r"bytes\)",
    ):
        broadcast()([251])


def test_this_process_may_use_what_it_has() -> None:
    most, _ = memory.available()
    assert 10**6 < most < 2**60


@pytest.fixture
def group() -> Iterator[Path]:
    """A control group of 600 MB, where this process may make one."""
    first = Path("/sys/fs/cgroup")
    version_2 = (first / "cgroup.controllers").exists()
    folder = (first if version_2 else first / "memory") / f"uncork_test_{os.getpid()}"
    try:
        folder.mkdir()
    except OSError:
        pytest.skip("control groups cannot be made here")
    try:
        try:
            (folder / ("memory.max" if version_2 else "memory.limit_in_bytes")).write_text("600M")
        except OSError:
            pytest.skip("control groups have no limit of memory here")
        yield folder
    finally:
        folder.rmdir()


CALL = """
import os, sys
with open(sys.argv[1] + "/cgroup.procs", "w") as file: file.write(str(os.getpid()))
import uncork
from tests.processes.test_container import broadcast
for count in (1000, 300_000_000):
    try: print(broadcast()([count])[0].size)
    except uncork.InputError as error: print(error)
"""


def test_a_call_that_a_container_has_no_memory_for(group: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CALL, str(group)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stderr
    small, large = done.stdout.splitlines()
    assert small == "1000"
    assert (
        "needs 1,200,000,000 bytes, more than the memory that this container may use "
        "(629,145,600 bytes)" in large
    )

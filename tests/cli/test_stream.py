"""`uncork stream`, `run --frame` and `bench --stream`: what they write and what they say."""

from __future__ import annotations

import re
import tracemalloc
import wave
from pathlib import Path

import numpy as np
import pytest

import uncork
from tests.cli.conftest import Command
from tests.surgery.test_streams import Made, causal, gru, model
from uncork.cli._sound import read_sound
from uncork.surgery import stream_info


def write_sound(path: Path, data: bytes, channels: int = 1, width: int = 2) -> None:
    """Write frames as a .wav file of 8,000 frames a second."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(width)
        file.setframerate(8000)
        file.writeframes(data)


@pytest.fixture
def tagger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recurrent model as model.xml, in the folder where the command runs."""
    monkeypatch.chdir(tmp_path)
    uncork.write_model(model(lambda b, x: gru(b, causal(b, x, 1, 1))), "model.xml")
    return tmp_path


@pytest.fixture
def energy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stream of sums of sound, 16 samples a frame, as streaming.xml, and sound.wav."""
    monkeypatch.chdir(tmp_path)
    b = Made("energy")
    sound = b.parameter("audio", "f32", [1, None])
    row = b.layer("Unsqueeze", 1, b.layer("Abs", 1, sound), b.c([1]))
    options = {"strides": [16], "dilations": [1], "pads_begin": [0], "pads_end": [0]}
    sums = b.layer("Convolution", 1, row, b.c(np.ones((1, 1, 16), "f4")), **options)
    b.result(b.layer("Squeeze", 1, sums, b.c([1])), "energy")
    uncork.write_model(uncork.surgery.streaming(b.model(), "audio", 1), "streaming.xml")
    with wave.open("sound.wav", "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(1600)
        file.writeframes(np.full(330, 1 << 14, "<i2").tobytes())
    return tmp_path


def test_a_stream_is_written_and_proved(command: Command, tagger: Path) -> None:
    words = ["stream", "model.xml", "--input", "x", "--frames", "1..16", "-o", "s.xml"]
    answer = command(*words)
    assert (answer.status, answer.err) == (0, "")
    assert re.search(r"(?m)^input +x +1 +1\.\.16$", answer.out)
    assert re.search(r"(?m)^output +y +1 +1 frame late$", answer.out)
    assert "a delay of 1 frame\n" in answer.out
    assert re.search(r"largest difference (none|\de-\d+|\d\.\de-\d+)", answer.out)
    assert answer.out.endswith("saved s.xml\n")
    assert stream_info(uncork.read_model("s.xml")).delay == 1
    assert "replace" in command(*words).err or "there" in command(*words).err
    again = command("stream", "model.xml", "-o", "s.xml", "--check")
    assert again.status == 0
    assert "saved" not in again.out


def test_json(command: Command, tagger: Path) -> None:
    told = command("stream", "model.xml", "--input", "x", "-o", "s.xml", "--json").json
    assert told["schema"] == "uncork-stream-1"
    assert (told["delay"], told["inputs"], told["frames"]) == (1, {"x": 1}, [1, None])
    assert told["outputs"] == [
        {"name": "y", "kind": "time", "axis": 1, "shift": -1, "every": 1, "delay": 1}
    ]
    assert 0 <= told["difference"] < 1e-5
    np.savez("x.npz", x=np.random.default_rng(1).standard_normal((1, 80, 4)).astype("f4"))
    words = ["stream", "model.xml", "-o", "s.xml", "--check", "--sample", "x.npz", "--json"]
    checked = command(*words).json
    assert checked["saved"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-o", "s.xml"], "expected --input NAME"),
        (["--input", "x", "--axis", "1", "--axis", "2", "-o", "s.xml"], "expected one --axis"),
        (["--input", "x", "--input", "x", "-o", "s.xml"], "an --input is given twice"),
        (["--input", "x", "--frames", "0", "-o", "s.xml"], "expected frames such as 1, 1..16"),
        (["--input", "x", "--frames", "9..2", "-o", "s.xml"], "the least number of frames first"),
        (["--axis", "1", "-o", "s.xml", "--check"], "--axis is what OUT says of itself"),
    ],
)
def test_wrong_words(command: Command, tagger: Path, words: list[str], message: str) -> None:
    answer = command("stream", "model.xml", *words)
    assert answer.status == 2
    assert message in answer.err


def test_what_does_not_stream_writes_nothing(command: Command, tagger: Path) -> None:
    of = model(lambda b, x: b.layer("ReduceMean", 1, x, b.c([1]), keep_dims=True))
    uncork.write_model(of, "mean.xml")
    answer = command("stream", "mean.xml", "--input", "x", "-o", "s.xml")
    assert answer.status == 1
    assert "takes the mean of all frames" in answer.err
    assert not (tagger / "s.xml").exists()
    assert command("stream", "model.xml", "--input", "x", "-o", "s.onnx").status == 1


def test_a_recording_is_played_frame_by_frame(command: Command, energy: Path) -> None:
    answer = command(
        "run", "streaming.xml", "-i", "audio=sound.wav", "--frame", "20ms", "-o", "out.npy"
    )
    assert (answer.status, answer.err) == (0, "")
    assert re.search(r"(?m)^ +0\.\.31 .* 8 8$", answer.out)
    assert re.search(r"(?m)^10 calls of 32 frames: median .*, p99 ", answer.out)
    assert "10 frames at the end make no call" in answer.out
    np.testing.assert_array_equal(np.load("out.npy"), np.full((1, 20), 8, "f4"))
    words = ["run", "streaming.xml", "-i", "audio=sound.wav", "--frame", "16", "--json"]
    told = command(*words).json
    assert told["schema"] == "uncork-run-frames-1"
    assert (told["calls"], told["frames"], told["frames_left"]) == (20, 16, 10)


def test_frames_that_are_not_right(command: Command, energy: Path) -> None:
    np.save("a.npy", np.zeros((1, 64), "f4"))
    given = ["run", "streaming.xml", "-i", "audio=a.npy", "--frame"]
    assert "a time needs a .wav file" in command(*given, "10ms").err
    assert "a multiple of 16, got 5" in command(*given, "5").err
    assert "expected at least 80 frames, got 64" in command(*given, "80").err
    assert "expected frames such as 16, or 10ms" in command(*given, "1.5").err
    assert "--summary is for one call" in command(*given, "16", "--summary").err
    np.save("a.npy", np.zeros((1, 1, 64), "f4"))
    assert command(*given, "16").status == 1


def test_frames_are_for_streams(command: Command, tagger: Path) -> None:
    words = ["run", "model.xml", "--random", "--shape", "x=1,4,4", "--frame", "1"]
    assert "the model is no stream" in command(*words).err
    assert "the model is no stream" in command("bench", "model.xml", "--stream", "10ms").err


def test_bench_says_how_far_from_real_time(command: Command, energy: Path) -> None:
    words = ["bench", "streaming.xml", "--stream", "10ms", "--seconds", "0.05", "--threads", "1"]
    answer = command(*words)
    assert (answer.status, answer.err) == (0, "")
    assert re.search(
        r"(?m)^uncork: real-time factor \S+, p50 .*, p99 .*, [\d,]+ sessions? a core", answer.out
    )
    (told,) = command(*words, "--json").json["stream"]
    assert told["sessions_per_core"] == int(1 / told["real_time_factor"])
    assert "expected a time such as 10ms" in command("bench", "streaming.xml", "--stream", "1").err


@pytest.mark.parametrize(("width", "least"), [(1, 0), (2, -(2**15)), (3, -(2**23)), (4, -(2**31))])
def test_samples_of_every_width(tmp_path: Path, width: int, least: int) -> None:
    """The least number is -1, the middle 0."""
    middle = 128 if width == 1 else 0
    data = b"".join(
        value.to_bytes(width, "little", signed=width > 1) for value in (least, middle, least)
    )
    write_sound(tmp_path / "a.wav", data, width=width)
    sound, rate = read_sound(str(tmp_path / "a.wav"))
    assert (sound.tolist(), rate, sound.dtype) == ([-1, 0, -1], 8000, np.float32)


def test_channels_and_damaged_sound(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_sound(path, np.array([[0, -(2**15)], [2**14, 0]], "<i2").tobytes(), channels=2)
    assert read_sound(str(path))[0].tolist() == [[0, 0.5], [-1, 0]]
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(uncork.InputError, match=r"cannot be read as a .wav file of PCM"):
        read_sound(str(path))


def test_a_chunk_that_ends_behind_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_sound(path, bytes(8))
    data = path.read_bytes()
    path.write_bytes(data[:12] + b"LIST" + (1 << 30).to_bytes(4, "little") + data[12:])
    with pytest.raises(uncork.InputError, match=r"a\.wav: .* it ends within a chunk"):
        read_sound(str(path))


def test_a_length_that_is_a_lie_takes_no_memory(tmp_path: Path) -> None:
    """What is written while it is recorded says that it is as long as may be."""
    path = tmp_path / "a.wav"
    write_sound(path, bytes(8))
    data = bytearray(path.read_bytes())
    for place in (4, 40):  # of the file, of its samples
        data[place : place + 4] = (0xFFFFFFFE).to_bytes(4, "little")
    path.write_bytes(data)
    tracemalloc.start()
    assert read_sound(str(path))[0].tolist() == [0, 0, 0, 0]
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 1 << 20


def test_frames_that_attention_keeps(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    b = Made("attention")
    x = b.parameter("x", "f32", [1, None, 4])
    b.result(b.layer("ScaledDotProductAttention", 13, x, x, x, causal=True), "y")
    uncork.write_model(b.model(), "model.xml")
    words = ["stream", "model.xml", "--input", "x", "-o", "s.xml"]
    answer = command(*words)
    assert answer.status != 0
    assert "say how many by keep=N (--keep N)" in answer.err
    assert not Path("s.xml").exists()
    answer = command(*words, "--keep", "12")
    assert (answer.status, answer.err) == (0, "")
    assert "the first 13 frames are those of the whole sequence" in answer.out
    assert stream_info(uncork.read_model("s.xml")).limit == 13
    assert command("stream", "model.xml", "-o", "s.xml", "--check").status == 0
    assert (
        "keep: expected a number of frames, 1 or more"
        in command(*words[:-1], "t.xml", "--keep", "0").err
    )

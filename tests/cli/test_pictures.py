"""Pictures as inputs of `uncork run`: single ones, folders, labels, and files that are none."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork import Builder, InputError
from uncork.cli._pictures import read_picture
from uncork.ir.ports import ModelPort
from uncork.preprocessing.pictures import Pictures
from uncork.types import ElementType, PartialShape

from .conftest import Command

Image = pytest.importorskip("PIL.Image")


def port(shape: list[int | None], element_type: str = "f32") -> ModelPort:
    return ModelPort(("image",), ElementType.parse(element_type), PartialShape(shape))


def red_over_blue(path: Path, height: int = 2, width: int = 3) -> Path:
    """A picture whose upper half is red and whose lower one is blue."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: height // 2, :, 0] = 200
    pixels[height // 2 :, :, 2] = 100
    Image.fromarray(pixels).save(path)
    return path


RED, BLUE = [200, 0, 0], [0, 0, 100]
#: The picture as [H, W, C].
PIXELS = np.array([[RED] * 3, [BLUE] * 3])


@pytest.mark.parametrize(
    ("shape", "layout", "order"),
    [
        ([1, 3, 2, 3], "NCHW", (2, 0, 1)),
        ([None, 2, 3, 3], "NHWC", (0, 1, 2)),
        ([3, None, None], "", (2, 0, 1)),
        ([1, None, None, 3], "", (0, 1, 2)),
        ([2, 3, 3], "HWC", (0, 1, 2)),
        ([1, 3, 3, 2], "NCWH", (2, 1, 0)),
    ],
)
def test_axes(tmp_path: Path, shape: list[int | None], layout: str, order: Any) -> None:
    path = red_over_blue(tmp_path / "a.png")
    got = read_picture(str(path), port(shape), Pictures(layout))
    want = PIXELS.transpose(order)
    np.testing.assert_array_equal(got, want[None] if len(shape) == 4 else want)
    assert got.dtype == np.float32 and got.flags.c_contiguous


def test_mean_scale_and_the_order_of_channels(tmp_path: Path) -> None:
    path = str(red_over_blue(tmp_path / "a.png"))
    how = Pictures("HWC", mean=(100, 50, 25), scale=(2, 5, 25), bgr=True)
    got = read_picture(path, port([2, 3, 3]), how)
    # Of BGR: red is (0, 0, 200), blue (100, 0, 0).
    np.testing.assert_array_equal(got[0, 0], [(0 - 100) / 2, (0 - 50) / 5, (200 - 25) / 25])
    np.testing.assert_array_equal(got[1, 0], [0, -10, -1])
    half = read_picture(path, port([2, 3, 3], "f16"), Pictures("HWC", scale=(255,)))
    np.testing.assert_allclose(half[0, 0], [200 / 255, 0, 0], rtol=1e-3)


def test_pixels_as_they_are_and_grey_ones(tmp_path: Path) -> None:
    path = str(red_over_blue(tmp_path / "a.png"))
    got = read_picture(path, port([1, 2, 3, 3], "u8"), Pictures("NHWC"))
    assert got.dtype == np.uint8 and got[0, 0, 0].tolist() == RED
    # Brightness is 0.299 R + 0.587 G + 0.114 B (ITU-R 601).
    for shape, layout in (([1, 1, 2, 3], "NCHW"), ([1, 2, 3], "NHW"), ([2, 3], "HW")):
        grey = read_picture(path, port(shape), Pictures(layout)).reshape(2, 3)
        assert grey[:, 0].tolist() == [round(0.299 * 200), round(0.114 * 100)]


@pytest.mark.parametrize(
    ("fit", "column"),
    [
        ("stretch", [RED, RED, BLUE, BLUE]),  # 4 x 8 -> 4 x 4
        ("crop", [RED, RED, BLUE, BLUE]),
    ],
)
def test_sizes(tmp_path: Path, fit: str, column: Any) -> None:
    path = str(red_over_blue(tmp_path / "a.png", 4, 8))
    how = Pictures("HWC", fit=fit)
    got = read_picture(path, port([4, 4, 3]), how)
    assert got[:, 1].tolist() == column


def test_what_is_padded_is_black(tmp_path: Path) -> None:
    path = str(tmp_path / "a.png")
    Image.new("RGB", (8, 4), (9, 8, 7)).save(path)
    got = read_picture(path, port([4, 4, 3]), Pictures("HWC", fit="pad"))
    assert got[:, 2].tolist() == [[0, 0, 0], [9, 8, 7], [9, 8, 7], [0, 0, 0]]


def test_a_camera_that_was_held_upright(tmp_path: Path) -> None:
    """EXIF 6: what is stored has to be turned clockwise."""
    picture = Image.open(red_over_blue(tmp_path / "a.png", 16, 8))
    exif = picture.getexif()
    exif[0x0112] = 6
    picture.save(tmp_path / "a.jpg", exif=exif, quality=100)
    got = read_picture(str(tmp_path / "a.jpg"), port([None, None, 3]), Pictures("HWC"))
    assert got.shape == (8, 16, 3)
    assert got[4, 1, 2] > 80 and got[4, -2, 0] > 180  # blue, from below, is at the left now


def bomb(path: Path) -> None:
    """A header that promises 60,000 x 60,000 pixels."""
    header = struct.pack("<2sIHHI", b"BM", 60, 0, 0, 54)
    header += struct.pack("<IiiHHIIiiII", 40, 60_000, 60_000, 1, 24, 0, 0, 0, 0, 0, 0)
    path.write_bytes(header + bytes(6))


def cut(path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3)).astype(np.uint8)
    Image.fromarray(noise).save(path)
    path.write_bytes(path.read_bytes()[:2000])


@pytest.mark.parametrize(
    ("name", "make", "message"),
    [
        ("none.png", lambda path: None, "none.png: cannot be read: No such file"),
        ("text.jpg", lambda path: path.write_text("hello"), "text.jpg: is no picture: expected JP"),
        ("program.png", lambda path: path.write_text("%!PS-Adobe-3.0 EPSF-3.0\n"), "is no picture"),
        ("cut.png", cut, "cut.png: cannot be read"),
        ("bomb.bmp", bomb, "bomb.bmp: cannot be read as a picture: Image size"),
        ("folder.png", lambda path: path.mkdir(), "folder.png: cannot be read"),
        (
            "deep.png",
            lambda path: Image.fromarray(np.zeros((2, 2), np.uint16)).save(path),
            "has pixels of more than 8 bits",
        ),
    ],
)
def test_wrong_files(tmp_path: Path, name: str, make: Any, message: str) -> None:
    make(tmp_path / name)
    with pytest.raises(InputError, match=message):
        read_picture(str(tmp_path / name), port([1, 3, 2, 2]), Pictures("NCHW"))


@pytest.mark.parametrize(
    ("given", "how", "message"),
    [
        (port([1, 3, 3, 3]), Pictures(), "which does not tell its layout: give --layout"),
        (port([1, 7, 3, 9]), Pictures(), "which does not tell its layout"),
        (port([1, 3]), Pictures("NCHW"), r"has shape \[1,3\], got the layout NCHW"),
        (port([8, 3, 2, 2]), Pictures("NCHW"), "takes 8 pictures at a time, got one"),
        (port([1, 2, 2, 2]), Pictures("NCHW"), "expected 1, 3 or 4 channels .*, got 2"),
        (port([1, 3, 2, 2], "u8"), Pictures("NCHW", mean=(1,)), "leave out --mean and --scale"),
        (port([1, 3, 2, 2], "i8"), Pictures("NCHW"), "is of i8, which holds no pixels"),
        (port([1, 3, 2, 2]), Pictures("NCHW", scale=(1, 2)), "--scale: expected 1 number or 3"),
    ],
)
def test_inputs_that_take_no_such_picture(
    tmp_path: Path, given: ModelPort, how: Pictures, message: str
) -> None:
    with pytest.raises(InputError, match=f"input 'image': .*{message}"):
        read_picture(str(red_over_blue(tmp_path / "a.png")), given, how)


# ---- the command


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The share of each channel in a picture of 2 x 4, as model.xml, and some pictures."""
    builder = Builder("colours")
    image = builder.parameter("image", "f32", [None, 3, 2, 4])
    (sums,) = builder.add("ReduceSum", 1, image, builder.constant([2, 3]), keep_dims=False)
    (total,) = builder.add("ReduceSum", 1, sums, builder.constant([1]), keep_dims=True)
    builder.result(builder.add("Divide", 1, sums, total)[0], "shares")
    uncork.write_model(builder.model(), tmp_path / "model.xml")
    (tmp_path / "photos").mkdir()
    red_over_blue(tmp_path / "photos" / "b.png")
    Image.new("RGB", (5, 7), (0, 90, 10)).save(tmp_path / "photos" / "a.bmp")
    (tmp_path / "photos" / "notes.txt").write_text("no picture")
    (tmp_path / "names.txt").write_text("red\ngreen\nblue\n")
    monkeypatch.chdir(tmp_path)


def test_one_picture_with_labels(command: Command, model: None) -> None:
    answer = command("run", "model.xml", "-i", "image=photos/b.png", "--labels", "names.txt")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == "shares f32[1,3]\n  red 66.7%  blue 33.3%  green 0.0%\n"
    answer = command("run", "model.xml", "-i", "photos/b.png", "--labels", "names.txt", "--json")
    best = answer.json["classes"]["shares"][0]
    assert [one["label"] for one in best] == ["red", "blue", "green"]
    assert best[0]["value"] == pytest.approx(2 / 3)


def test_a_folder(command: Command, model: None, tmp_path: Path) -> None:
    words = ["run", "model.xml", "-i", "image=photos", "--labels", "names.txt"]
    answer = command(*words, "-o", "out.npy")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out == (
        "picture  shares\n"
        "a.bmp    green 90.0%, blue 10.0%, red 0.0%\n"
        "b.png    red 66.7%, blue 33.3%, green 0.0%\n"
        "\nsaved 1 output in out.npy\n"
    )
    got = np.load(tmp_path / "out.npy")
    np.testing.assert_allclose(got, [[0, 0.9, 0.1], [2 / 3, 0, 1 / 3]], atol=1e-6)
    told = command("run", "model.xml", "-i", "photos", "--json").json
    assert [one["file"] for one in told["pictures"]] == ["photos/a.bmp", "photos/b.png"]
    assert told["pictures"][0]["outputs"][0]["name"] == "shares"


def test_a_folder_with_a_broken_picture(command: Command, model: None, tmp_path: Path) -> None:
    (tmp_path / "photos" / "aa.jpg").write_bytes(b"\xff\xd8\xff broken")
    answer = command("run", "model.xml", "-i", "image=photos")
    assert answer.status == 1
    assert "a.bmp" in answer.out and "b.png" in answer.out and "aa.jpg" not in answer.out
    assert answer.err.startswith("uncork: error: photos/aa.jpg: is no picture")
    told = command("run", "model.xml", "-i", "image=photos", "--json").json
    assert len(told["pictures"]) == 2 and told["failed"][0]["file"] == "photos/aa.jpg"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-i", "image=photos", "--summary"], "--summary is for one call: leave it out"),
        (["-i", "other=photos"], "no input is called 'other'"),
        (["-i", "image=."], ".: is a folder without pictures: .jpg, .jpeg"),
        (["-i", "image=photos", "-i", "0=photos"], "expected one folder of pictures, got 2"),
        (["-i", "image=photos", "--scale", "1,2"], "--scale: expected 1 number or 3"),
        (["-i", "image=photos/b.png", "--scale", "0"], "expected numbers other than 0, got '0'"),
        (["-i", "image=photos/b.png", "--mean", "a"], "expected a number, or one for each channel"),
        (["-i", "image=photos/b.png", "--layout", "NCXY"], "expected H and W, with N and C"),
        (["-i", "image=photos/b.png", "--fit", "squeeze"], "expected stretch or crop or pad"),
        (["-i", "image=photos/b.png", "--labels", "model.xml"], "model.xml: has "),
        (["-i", "image=photos/b.png", "--labels", "none.txt"], "none.txt: cannot be read: No such"),
        (["-i", "image=photos/none.png"], "photos/none.png: cannot be read: No such file"),
    ],
)
def test_mistakes(command: Command, model: None, words: list[str], message: str) -> None:
    answer = command("run", "model.xml", *words)
    assert answer.status and message in answer.err and not answer.out


def test_a_model_saved_with_what_is_made_of_pictures(
    command: Command, model: None, tmp_path: Path
) -> None:
    how = ["--mean", "10,20,30", "--scale", "2,4,5", "--bgr", "--fit", "crop"]
    answer = command("preprocess", "model.xml", *how, "-o", "pictures.xml")
    assert (answer.status, answer.err) == (0, "")
    assert answer.out.endswith("saved pictures.xml\n") and "image" in answer.out
    for name in ("a.bmp", "b.png"):
        plain = command("run", "model.xml", "-i", f"photos/{name}", *how, "-o", "plain.npy")
        saved = command("run", "pictures.xml", "-i", f"photos/{name}", "-o", "saved.npy")
        assert (plain.status, saved.status) == (0, 0)
        np.testing.assert_array_equal(np.load("plain.npy"), np.load("saved.npy"))
        Path("plain.npy").unlink()
        Path("saved.npy").unlink()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--input", "imgae"], "the model has no input 'imgae'; did you mean 'image'"),
        (["--scale", "1,2"], "input 'image': --scale: expected 1 number or 3, one a channel"),
        (["--layout", "HWC"], "has shape [?,3,2,4], got the layout HWC"),
        (["--fit", "both"], "expected stretch or crop or pad"),
    ],
)
def test_mistakes_of_preprocess(
    command: Command, model: None, words: list[str], message: str
) -> None:
    answer = command("preprocess", "model.xml", *words, "-o", "pictures.xml")
    assert answer.status and message in answer.err and not Path("pictures.xml").exists()


def test_labels_are_as_many_as_classes(command: Command, model: None, tmp_path: Path) -> None:
    (tmp_path / "two.txt").write_text("red\ngreen\n")
    answer = command("run", "model.xml", "-i", "photos/b.png", "--labels", "two.txt")
    assert "two.txt: has 2 lines, and no output as many numbers in a row: shares" in answer.err
    (tmp_path / "one.txt").write_text("red\n")
    answer = command("run", "model.xml", "-i", "photos/b.png", "--labels", "one.txt")
    assert "one.txt: expected a line for each class, got 1 line" in answer.err


def test_labels_do_not_steer_the_terminal(command: Command, model: None, tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("\x1b[31mred\ngreen\nblue\n")
    answer = command("run", "model.xml", "-i", "photos/b.png", "--labels", "names.txt")
    assert answer.status == 0 and "\x1b" not in answer.out


def test_without_pillow(command: Command, model: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "PIL", None)
    answer = command("run", "model.xml", "-i", "photos/b.png")
    assert (
        "pictures need Pillow, which is not installed: pip install 'uncork[images]'" in answer.err
    )

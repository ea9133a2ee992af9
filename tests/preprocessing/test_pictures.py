"""Pictures made into what a model takes, as layers: beside Pillow and NumPy, in the model's file,
and in OpenVINO.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from uncork import Builder, InputError
from uncork.surgery import Pictures, preprocess

RANDOM = np.random.default_rng(3)
MEAN, SCALE = (123.7, 116.3, 103.5), (58.4, 57.1, 57.4)


def picture(height: int, width: int) -> Any:
    """A smooth picture with something of its own at every place."""
    rough = RANDOM.uniform(0, 255, (5, 6, 3))
    rows, columns = (np.linspace(0, n - 1, m) for n, m in ((5, height), (6, width)))
    smooth = rough[rows.round().astype(int)][:, columns.round().astype(int)]
    return np.clip(smooth + RANDOM.normal(0, 9, smooth.shape), 0, 255).astype(np.uint8)


def model(shape: Any, element_type: str = "f32") -> uncork.Model:
    """A model that gives what it takes, and the sum of that."""
    builder = Builder("given")
    image = builder.parameter("image", element_type, shape)
    other = builder.parameter("other", element_type, [])
    builder.result(builder.add("Add", 1, image, other)[0], "values")
    axes = builder.constant(np.arange(len(shape)))
    builder.result(builder.add("ReduceSum", 1, image, axes, keep_dims=False)[0], "sum")
    return builder.model()


def taken(shape: Any, how: Pictures, pixels: Any, element_type: str = "f32") -> Any:
    """What a model is given of a picture."""
    made = preprocess(model(shape, element_type), {"image": how})
    return uncork.compile_model(made)({"image": pixels, "other": 0})["values"]


@pytest.mark.parametrize("sides", [(40, 60), (7, 9), (224, 31), (16, 12)])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_what_pillow_makes_of_a_picture(fit: str, sides: tuple[int, int]) -> None:
    image = pytest.importorskip("PIL.Image")
    pixels = picture(*sides)
    got = taken([1, 3, 16, 12], Pictures("NCHW", fit=fit), pixels[None])[0].transpose(1, 2, 0)
    source = image.fromarray(pixels)
    if fit == "stretch":
        want = np.asarray(source.resize((12, 16), image.Resampling.BILINEAR))
        assert abs(got - want).max() <= 1.01  # Pillow rounds twice on its way
        return
    # The side that fits is whole, and what is left of the other is the same on both ends.
    height, width = sides
    tall = round(height * 12 / width), round(width * 16 / height)
    pick = max if fit == "crop" else min
    new = (pick(16, tall[0]), pick(12, tall[1]))
    whole = np.asarray(source.resize(new[::-1], image.Resampling.BILINEAR)).astype(np.float32)
    want = np.zeros((16, 12, 3), np.float32)
    y, x = abs(new[0] - 16) // 2, abs(new[1] - 12) // 2
    if fit == "crop":
        want = whole[y : y + 16, x : x + 12]
    else:
        want[y : y + new[0], x : x + new[1]] = whole
    assert abs(got - want).max() <= 1.01


def test_order_of_the_steps() -> None:
    """Of channels as the model has them the mean is taken off; then they are divided."""
    pixels = picture(4, 5)
    got = taken([None, 4, 5, 3], Pictures("NHWC", MEAN, SCALE, bgr=True), pixels[None])
    want = (pixels[None, ..., ::-1] - np.float32(MEAN)) / np.float32(SCALE)
    np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)


def test_types_and_axes() -> None:
    pixels = picture(4, 5)
    whole = taken([4, 5, 3], Pictures("HWC"), pixels, "u8")
    assert whole.dtype == np.uint8
    np.testing.assert_array_equal(whole, pixels)
    small = taken([3, 2, 2], Pictures("CHW"), pixels, "i32")
    assert small.dtype == np.int32 and small.shape == (3, 2, 2)
    half = taken([4, 5], Pictures("HW", scale=(255.0,)), pixels[..., 0], "f16")
    np.testing.assert_allclose(half, pixels[..., 0] / 255, atol=1e-3)
    many = taken([2, 3, 2, 2], Pictures("NCHW"), np.stack([pixels, pixels]))
    assert many.shape == (2, 3, 2, 2) and (many[0] == many[1]).all()


def test_the_input_keeps_its_name_and_place(tmp_path: Path) -> None:
    made = preprocess(model([1, 3, 8, 8]), {"image": Pictures()})
    assert [(p.name, str(p.element_type), str(p.shape)) for p in made.inputs] == [
        ("image", "u8", "[1,?,?,3]"),
        ("other", "f32", "[]"),
    ]
    uncork.write_model(made, tmp_path / "pictures.xml")
    again = uncork.load(tmp_path / "pictures.xml")
    pixels = picture(20, 30)[None]
    first = uncork.compile_model(made)([pixels, 1])["values"]
    np.testing.assert_array_equal(again([pixels, 1])["values"], first)
    slow = uncork.load(tmp_path / "pictures.xml", backend="reference")
    np.testing.assert_allclose(slow([pixels, 1])["values"], first, rtol=1e-5, atol=1e-3)
    # As another input, of a picture with a name that layers have already:
    twice = preprocess(model([1, 3, 8, 8]), {"0": Pictures()})
    with pytest.raises(InputError, match=r"is of u8, which takes pixels as they are"):
        preprocess(twice, {"image": Pictures(mean=(1.0,))})


@pytest.mark.parametrize("sides", [(0, 5), (5, 0)])
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_a_picture_without_pixels_is_refused(fit: str, sides: tuple[int, int]) -> None:
    with pytest.raises(uncork.UncorkError):
        taken([1, 3, 4, 4], Pictures("NCHW", fit=fit), np.zeros((1, *sides, 3), np.uint8))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["imgae"], "the model has no input 'imgae'; did you mean 'image'"),
        (["image", "0"], "an input is named twice: image, 0"),
        (["other"], "which does not tell its layout"),
    ],
)
def test_wrong_inputs(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        preprocess(model([1, 3, 4, 4]), {name: Pictures() for name in names})


@pytest.mark.oracle
@pytest.mark.parametrize("fit", ["stretch", "crop", "pad"])
def test_openvino_gives_the_same(tmp_path: Path, fit: str) -> None:
    openvino = pytest.importorskip("openvino")
    how = Pictures("NCHW", MEAN, SCALE, True, fit)
    uncork.write_model(preprocess(model([1, 3, 16, 12]), {"image": how}), tmp_path / "m.xml")
    exact = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}
    theirs = openvino.compile_model(tmp_path / "m.xml", "CPU", exact)
    ours = uncork.load(tmp_path / "m.xml")
    for sides in ((40, 60), (9, 7)):
        given = [picture(*sides)[None], np.float32(0)]
        np.testing.assert_allclose(
            ours(given)["values"], theirs(given)["values"], rtol=1e-4, atol=1e-4
        )

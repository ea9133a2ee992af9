"""A user's program with types: `mypy`, which is strict in this project, reads it as it stands."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

import uncork
import uncork.openvino as ov
from uncork import functional as F
from uncork.openvino import opset13 as ops
from uncork.openvino.preprocess import ColorFormat, PrePostProcessor, ResizeAlgorithm

Floats = npt.NDArray[np.float32]


def small(path: Path) -> ov.Model:
    """A model of one convolution, saved."""
    image = ops.parameter([-1, 3, 8, 8], np.float32, name="image")
    weights = ops.constant(np.ones((4, 3, 3, 3), np.float32))
    conv = ops.convolution(image, weights, [1, 1], [1, 1], [1, 1], [1, 1], name="conv")
    mean = ops.reduce_mean(ops.relu(conv), ops.constant(np.array([2, 3])), keep_dims=False)
    mean.output(0).set_names({"out"})
    model = ov.Model([mean], [image], "small")
    ov.save_model(model, path, compress_to_fp16=False)
    return model


def with_one_line_changed(path: Path, x: Floats) -> list[Floats]:
    """What programs for OpenVINO do."""
    core = ov.Core()
    model: ov.Model = core.read_model(path)
    processor = PrePostProcessor(model)
    tensor = processor.input().tensor()
    tensor.set_element_type(ov.Type.u8).set_layout(ov.Layout("NHWC"))
    tensor.set_color_format(ColorFormat.BGR).set_spatial_dynamic_shape()
    processor.input().preprocess().convert_element_type(ov.Type.f32).resize(
        ResizeAlgorithm.RESIZE_LINEAR
    ).mean([1.0, 2.0, 3.0])
    processor.input().model().set_layout(ov.Layout("NCHW"))
    pictures = core.compile_model(processor.build(), "CPU", {"INFERENCE_NUM_THREADS": 1})
    picture: npt.NDArray[np.uint8] = np.full((1, 20, 30, 3), 7, np.uint8)
    found: list[Floats] = [pictures(picture)[0]]
    compiled = core.compile_model(path, "CPU")
    request: ov.InferRequest = compiled.create_infer_request()
    request.infer({"image": x})
    found.append(request.get_output_tensor().data)
    queue = ov.AsyncInferQueue(compiled, 2)

    def done(request: ov.InferRequest, number: int) -> None:
        found.append(request.get_output_tensor().data * number)

    queue.set_callback(done)
    queue.start_async({0: x}, 3)
    queue.wait_all()
    found.append(compiled([x])[compiled.output("out")])
    names: list[str] = [node.get_friendly_name() for node in model.get_ordered_ops()]
    assert "conv" in names
    return found


async def by_itself(path: Path, x: Floats) -> Floats:
    """The same in uncork's own words."""
    with uncork.load(path, threads=1) as compiled:
        results: uncork.Results = await compiled.infer_async(x)
        again: Floats = compiled({"image": x})["out"]
    how = uncork.surgery.Pictures(mean=(1.0, 2.0, 3.0), bgr=True)
    made: uncork.Model = uncork.surgery.preprocess(uncork.read_model(path), {"image": how})
    assert str(made.inputs[0].element_type) == "u8"
    weights: Floats = np.ones((4, 3, 3, 3), np.float32)
    plain: Floats = F.relu(F.conv2d(x, weights, padding=1)).mean((2, 3))
    np.testing.assert_allclose(plain, again, rtol=1e-5)
    total: Floats = results[0] + again
    return total


def main(folder: Path) -> list[Floats]:
    """Everything, on a model in a folder."""
    x = np.random.default_rng(0).standard_normal((1, 3, 8, 8)).astype(np.float32)
    path = folder / "small.xml"
    small(path)
    return [*with_one_line_changed(path, x), asyncio.run(by_itself(path, x))]


if TYPE_CHECKING:
    # What functions take that are made when they are asked for is known: each has a wrong word.
    F.gru_sequence(1, 2, 3, 4, 5, 6, directions="forward")  # type: ignore[call-arg]
    F.reduce_sum([1], 0, keepdim=True)  # type: ignore[call-arg]
    F.softmax([1], axes=0)  # type: ignore[call-overload]

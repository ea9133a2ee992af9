"""The other steps, one by one."""

import numpy as np
import openvino as ov
from openvino import opset13 as ops
from openvino.preprocess import ColorFormat, PaddingMode, PrePostProcessor, ResizeAlgorithm

rng = np.random.default_rng(1)
result = []


def run(steps, shape=(1, 3, 8, 6)):
    """What the identity gives behind these steps."""
    x = ops.parameter(list(shape), np.float32, name="x")
    ppp = PrePostProcessor(ov.Model([ops.convert(x, "f32")], [x], "same"))
    steps(ppp.input())
    model = ppp.build()
    sizes = [d.get_length() if d.is_static else 9 for d in model.input().partial_shape]
    numbers = rng.integers(0, 256, sizes).astype(model.input().element_type.to_dtype())
    compiled = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    result.append(compiled(numbers)[0])
    return numbers, result[-1]


def nhwc(info, color=None):
    """The tensor is NHWC, the model NCHW."""
    info.tensor().set_layout(ov.Layout("NHWC"))
    info.model().set_layout("NCHW")
    if color is not None:
        info.tensor().set_color_format(color)
    return info.preprocess()


given, got = run(lambda i: i.preprocess().mean(5.0).scale(2.0))
assert (got == (given - 5) / 2).all()
given, got = run(lambda i: nhwc(i).reverse_channels())
assert (got == given.transpose(0, 3, 1, 2)[:, ::-1]).all()
given, got = run(lambda i: i.preprocess().convert_layout([0, 3, 1, 2]))
assert (got == given.transpose(0, 3, 1, 2)).all()
run(lambda i: i.tensor().set_layout("NHWC") and i.preprocess().convert_layout("NCHW"))


def crop(info):
    """A part of a larger one."""
    info.tensor().set_shape([1, 3, 10, 9])
    info.preprocess().crop([0, 0, 1, 2], [1, 3, 9, 8])


given, got = run(crop)
assert (got == given[:, :, 1:9, 2:8]).all()


def pad(info):
    """More around a smaller one."""
    info.tensor().set_shape([1, 3, 6, 6])
    info.preprocess().pad([0, 0, 1, 0], [0, 0, 1, 0], 0.5, PaddingMode.CONSTANT)


given, got = run(pad)
assert (got[:, :, 1:-1] == given).all() and (got[:, :, 0] == 0.5).all()
run(lambda i: nhwc(i, ColorFormat.RGBX).convert_color(ColorFormat.BGR))
run(lambda i: nhwc(i, ColorFormat.RGB).convert_color(ColorFormat.GRAY), (1, 1, 8, 6))
for algorithm in (
    ResizeAlgorithm.RESIZE_NEAREST,
    ResizeAlgorithm.RESIZE_CUBIC,
    ResizeAlgorithm.RESIZE_BILINEAR_PILLOW,
    ResizeAlgorithm.RESIZE_BICUBIC_PILLOW,
):

    def resize(info, algorithm=algorithm):
        """Any height and width."""
        info.tensor().set_spatial_dynamic_shape()
        nhwc(info).resize(algorithm)

    run(resize)


def planes(info):
    """A frame of a video."""
    info.tensor().set_element_type(ov.Type.u8)
    nhwc(info, ColorFormat.NV12_SINGLE_PLANE).convert_color(ColorFormat.RGB)


run(planes)
for wrong in (
    lambda i: i.preprocess().resize(ResizeAlgorithm.RESIZE_LINEAR),
    lambda i: i.tensor().set_element_type(ov.Type.u8) and i.preprocess().mean(1.0),
    lambda i: i.tensor().set_layout("NCHW") and i.preprocess().mean([1.0, 2.0]),
    lambda i: i.preprocess().crop([0, 0, 1, 2], [1, 3, 9, 8]),
):
    try:
        run(wrong)
    except RuntimeError:
        result.append("refused")
assert result[-4:] == ["refused"] * 4

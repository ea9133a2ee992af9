"""The functions with the names of torch.nn.functional give what torch's give for the same
arguments: as they are described at a first call, and by their native entries after that.
"""

from __future__ import annotations

import inspect
import re
from typing import Any, NamedTuple

import numpy as np
import pytest

import uncork
from uncork import functional as F
from uncork.functional._names import ABSENT
from uncork.functional._torch.layered import LAYERS

RANDOM = np.random.default_rng(7)


def some(*shape: int) -> Any:
    return RANDOM.standard_normal(shape).astype(np.float32)


def probable(*shape: int) -> Any:
    return RANDOM.uniform(0.05, 0.95, shape).astype(np.float32)


def whole(high: int, *shape: int) -> Any:
    return RANDOM.integers(0, high, shape)


def signs(*shape: int) -> Any:
    return RANDOM.choice(np.float32([-1, 1]), shape)


class Case(NamedTuple):
    name: str
    args: tuple[Any, ...]
    options: dict[str, Any]


CASES: list[Case] = []


def add(name: str, *args: Any, **options: Any) -> None:
    CASES.append(Case(name, args, options))


X = np.float32([[-3, -1, -0.5, -0.25, 0], [0.25, 0.5, 1, 3, 30]])
for _name in (
    *("celu", "elu", "gelu", "hardshrink", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu"),
    *("logsigmoid", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "softplus", "softshrink"),
    *("softsign", "tanh", "tanhshrink", "rrelu"),
):
    add(_name, X)
add("celu", X, 0.5)
add("elu", X, alpha=0.3)
add("gelu", X, approximate="tanh")
add("hardshrink", X, 0.75)
add("softshrink", X, lambd=0.25)
add("hardtanh", X, -0.5, 2)
add("leaky_relu", X, 0.2)
add("softplus", X, 2, 5)
add("softplus", X, beta=0.5)
add("threshold", X, 0.3, -7)
add("glu", some(2, 6, 4), 1)
add("glu", some(3, 4))
add("prelu", some(2, 3, 4), np.float32([0.1, 0.2, 0.3]))
add("prelu", some(2, 3), np.float32([0.25]))
add("prelu", some(5), np.float32([0.25]))
for _name in ("softmax", "log_softmax", "softmin"):
    add(_name, some(2, 3, 4), 1)
    add(_name, some(2, 3, 4), dim=-1)
    add(_name, some(3, 4), -2, dtype="float64")
for _name in ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout"):
    add(_name, some(2, 3, 4, 5, 2) if _name == "dropout3d" else some(2, 3, 4), 0.5, False)
add("feature_alpha_dropout", some(2, 3, 4), training=False)
add("dropout", some(2, 3), p=0.0)

add("linear", some(2, 5, 4), some(3, 4))
add("linear", some(2, 4), some(3, 4), some(3))
add("linear", some(4), some(3, 4), bias=some(3))
add("linear", some(2, 4), some(4))
add("bilinear", some(5, 3), some(5, 4), some(6, 3, 4), some(6))
add("bilinear", some(2, 5, 3), some(2, 5, 4), some(6, 3, 4))
for _axes in (1, 2, 3):
    _side, _name = (7, 6, 5)[:_axes], f"conv{_axes}d"
    add(_name, some(2, 4, *_side), some(6, 4, *(3,) * _axes))
    add(_name, some(2, 4, *_side), some(6, 4, *(3,) * _axes), some(6), 2, 1)
    add(_name, some(4, *_side), some(6, 2, *(2,) * _axes), None, 1, "same", 2, 2)
    add(_name, some(2, 4, *_side), some(8, 1, *(2,) * _axes), groups=4, padding="valid")
    _name = f"conv_transpose{_axes}d"
    add(_name, some(2, 4, *_side), some(4, 6, *(3,) * _axes), some(6))
    add(_name, some(2, 4, *_side), some(4, 3, *(3,) * _axes), None, 2, 1, 1, 2, 1)
    add(_name, some(4, *_side), some(4, 3, *(2,) * _axes), stride=3, dilation=2)
add("conv2d", some(2, 4, 7, 6), some(6, 4, 3, 2), stride=[2, 1], padding=[1, 0], dilation=(1, 2))
add("conv_tbc", some(9, 2, 4), some(3, 4, 5), some(5), 1)
add("unfold", some(2, 3, 6, 5), (3, 2), 1, (1, 0), 2)
add("unfold", some(3, 6, 5), 2, dilation=2)
add("fold", some(2, 12, 20), (6, 5), kernel_size=2)
add("fold", some(2, 12, 9), (6, 5), (2, 2), 1, 1, (3, 2))

_Q, _K, _V = some(2, 4, 5, 8), some(2, 4, 6, 8), some(2, 4, 6, 3)
add("scaled_dot_product_attention", _Q, _K, _V)
add("scaled_dot_product_attention", _Q, _K, _V, is_causal=True)
add("scaled_dot_product_attention", _Q, _K, _V, some(5, 6), 0.0, False, scale=0.3)
add("scaled_dot_product_attention", _Q, _K, _V, RANDOM.random((2, 1, 5, 6)) < 0.5)
_mask = RANDOM.random((5, 6)) < 0.5
_mask[2] = False  # a query that sees nothing
add("scaled_dot_product_attention", _Q, _K, _V, _mask)
add("scaled_dot_product_attention", _Q, _K, _V, np.where(_mask, np.float32(0), -np.inf))
add("scaled_dot_product_attention", some(5, 8), some(6, 8), some(6, 3))
add("scaled_dot_product_attention", _Q, _K[:, :2], _V[:, :2], enable_gqa=True)

for _axes in (1, 2, 3):
    _side = (9, 8, 7)[:_axes]
    for _name in ("avg_pool", "max_pool"):
        add(f"{_name}{_axes}d", some(2, 3, *_side), 3)
        add(f"{_name}{_axes}d", some(2, 3, *_side), 3, 2, 1)
        add(f"{_name}{_axes}d", some(3, *_side), [2] * _axes, stride=2, ceil_mode=True)
        add(f"{_name}{_axes}d", some(2, 3, *_side), 3, 2, 1, ceil_mode=True)
    add(f"avg_pool{_axes}d", some(2, 3, *_side), 3, 2, 1, True, False)
    add(f"max_pool{_axes}d", some(2, 3, *_side), 2, 2, return_indices=True)
    add(f"max_pool{_axes}d", some(3, *_side), 3, 1, 1, 2, return_indices=True)
    add(f"lp_pool{_axes}d", probable(2, 3, *_side), 2, 3)
    add(f"lp_pool{_axes}d", probable(2, 3, *_side), 3.0, 2, 1, ceil_mode=True)
    add(f"adaptive_avg_pool{_axes}d", some(2, 3, *_side), 4)
    add(f"adaptive_avg_pool{_axes}d", some(3, *_side), [1] * _axes)
    add(f"adaptive_max_pool{_axes}d", some(2, 3, *_side), 4)
    add(f"adaptive_max_pool{_axes}d", some(2, 3, *_side), 3, return_indices=True)
    _places = np.stack([RANDOM.permutation(4**_axes)[: 2**_axes] for _ in range(6)])
    add(
        f"max_unpool{_axes}d",
        some(2, 3, *(2,) * _axes),
        _places.reshape(2, 3, *(2,) * _axes),
        2,
    )
add(
    "max_unpool2d",
    some(1, 3, 2, 2),
    whole(1, 1, 3, 2, 2) + np.arange(4).reshape(2, 2),
    2,
    2,
    0,
    (5, 4),
)
add("avg_pool2d", some(2, 3, 8, 7), 3, 2, 1, False, True, 5)
add("adaptive_avg_pool2d", some(2, 3, 8, 7), (None, 3))

add("batch_norm", some(2, 3, 4), some(3), probable(3))
add("batch_norm", some(2, 3, 4, 5), some(3), probable(3), some(3), some(3), eps=0.01)
add("batch_norm", some(4, 3), None, None, some(3), training=True)
add("instance_norm", some(2, 3, 4, 5))
add("instance_norm", some(2, 3, 4), weight=some(3), bias=some(3), eps=0.1)
add("instance_norm", some(2, 3, 4), some(3), probable(3), use_input_stats=False)
add("group_norm", some(2, 6, 4), 3)
add("group_norm", some(2, 6, 4, 3), 2, some(6), some(6), 0.1)
add("layer_norm", some(2, 3, 8), (8,))
add("layer_norm", some(2, 3, 8), [3, 8], some(3, 8), some(3, 8), 0.1)
add("rms_norm", some(2, 3, 8), (8,), some(8))
add("rms_norm", some(2, 3, 8), [3, 8], eps=0.1)
add("local_response_norm", some(2, 6, 4, 3), 3)
add("local_response_norm", some(2, 6, 4), 4, 0.1, 0.5, 2.0)
for _p in (2, 1, 3, 0.5, float("inf")):
    add("normalize", some(2, 3, 4), float(_p), 1)
    add("pairwise_distance", some(3, 4), some(3, 4), float(_p))
    add("pdist", some(5, 4), float(_p))
add("normalize", some(2, 3), dim=-1, eps=2.0)
add("pairwise_distance", some(4), some(3, 4), keepdim=True)
add("cosine_similarity", some(2, 3, 4), some(2, 3, 4))
add("cosine_similarity", some(3, 4), some(1, 4), -1, 0.5)

add("pad", some(2, 3), (1, 2))
add("pad", some(2, 3, 4), [1, 2, 0, 1], "constant", 2.5)
add("pad", some(2, 3, 4), (-1, 2, 0, -1))
for _mode in ("reflect", "replicate", "circular"):
    add("pad", some(2, 3, 4), (1, 2), _mode)
    add("pad", some(2, 3, 4, 5), (1, 2, 0, 1), mode=_mode)
add("pad", whole(9, 2, 3), (1, 0), value=4)
_picture = some(2, 3, 5, 6)
for _size in (9, (4, 3), [1, 1], (10, 12)):
    add("interpolate", _picture, _size)
    add("interpolate", _picture, _size, mode="nearest-exact")
    for _mode in ("bilinear", "bicubic"):
        for _corners in (False, True):
            add("interpolate", _picture, _size, mode=_mode, align_corners=_corners)
        add("interpolate", _picture, _size, mode=_mode, antialias=True)
    add("interpolate", _picture, _size, mode="area")
for _factor in (2, 0.5, (1.5, 0.7), 2.3):
    add("interpolate", _picture, scale_factor=_factor)
    add("interpolate", _picture, scale_factor=_factor, mode="bilinear")
    add("interpolate", _picture, None, _factor, "bicubic", False, True)
    add("interpolate", _picture, None, _factor, "bilinear", False, True, True)
add("interpolate", _picture, scale_factor=2, mode="bicubic", antialias=True)
add("interpolate", some(2, 3, 7), 4, mode="linear", align_corners=True)
add("interpolate", some(2, 3, 4, 5, 6), (3, 7, 6), mode="trilinear", align_corners=False)
add("upsample", _picture, (8, 8), None, "bilinear", True)
add("upsample_nearest", _picture, scale_factor=2)
add("upsample_bilinear", _picture, (8, 9))
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        add("grid_sample", _picture, 1.2 * some(2, 4, 3, 2), _mode, _padding, False)
add("grid_sample", _picture, some(2, 4, 3, 2), align_corners=True)
add("affine_grid", some(2, 2, 3), (2, 3, 4, 5), True)
add("affine_grid", some(2, 2, 3), [2, 3, 4, 1], align_corners=False)
add("affine_grid", some(1, 3, 4), (1, 3, 2, 4, 5), False)
add("pixel_shuffle", some(2, 8, 3, 4), 2)
add("pixel_shuffle", some(9, 3, 4), 3)
add("pixel_unshuffle", some(2, 3, 4, 6), 2)
add("channel_shuffle", some(2, 6, 3, 4), 3)
add("native_channel_shuffle", some(2, 6, 3, 4), 2)
add("one_hot", whole(4, 2, 3), 5)
add("one_hot", np.array([0, 2, 1]))

for _reduction in ("mean", "sum", "none"):
    _how = {"reduction": _reduction}
    add("l1_loss", some(3, 4), some(3, 4), **_how)
    add("mse_loss", some(3, 4), some(3, 4), **_how)
    add("smooth_l1_loss", 2 * some(3, 4), some(3, 4), beta=0.5, **_how)
    add("huber_loss", 2 * some(3, 4), some(3, 4), delta=0.5, **_how)
    add("binary_cross_entropy", probable(3, 4), probable(3, 4), some(3, 4), **_how)
    add("binary_cross_entropy", np.float32([0, 1, 0.5]), np.float32([1, 1, 0]), **_how)
    add(
        "binary_cross_entropy_with_logits",
        9 * some(3, 4),
        probable(3, 4),
        pos_weight=probable(4),
        **_how,
    )
    add("kl_div", some(3, 4), np.abs(some(3, 4)), **_how)
    add("kl_div", some(3, 4), some(3, 4), log_target=True, **_how)
    add("nll_loss", some(5, 4), whole(4, 5), probable(4), ignore_index=2, **_how)
    add("nll_loss", some(2, 4, 3, 5), whole(4, 2, 3, 5), **_how)
    add("cross_entropy", some(5, 4), whole(4, 5), **_how)
    add("cross_entropy", some(2, 4, 3), whole(4, 2, 3), probable(4), ignore_index=1, **_how)
    add("cross_entropy", some(5, 4), whole(4, 5), probable(4), label_smoothing=0.1, **_how)
    add("cross_entropy", some(5, 4), probable(5, 4), probable(4), label_smoothing=0.1, **_how)
    add("cross_entropy", some(2, 4, 3), probable(2, 4, 3), **_how)
    add("gaussian_nll_loss", some(3, 4), some(3, 4), probable(3, 4), full=True, **_how)
    add("poisson_nll_loss", some(3, 4), 3 * probable(3, 4), full=True, **_how)
    add("poisson_nll_loss", probable(3, 4), probable(3, 4), log_input=False, **_how)
    add("soft_margin_loss", 9 * some(3, 4), signs(3, 4), **_how)
    add("multilabel_soft_margin_loss", some(3, 4), probable(3, 4), probable(4), **_how)
    add("multi_margin_loss", some(5, 4), whole(4, 5), **_how)
    add("multi_margin_loss", some(5, 4), whole(4, 5), 2, 0.5, np.float32([0, 1, 2, 0.5]), **_how)
    add("margin_ranking_loss", some(5), some(5), signs(5), 0.25, **_how)
    add("hinge_embedding_loss", some(3, 4), signs(3, 4), **_how)
    add("cosine_embedding_loss", some(3, 4), some(3, 4), signs(3), 0.1, **_how)
    add("triplet_margin_loss", some(3, 4), some(3, 4), some(3, 4), swap=True, **_how)
add("kl_div", some(3, 4), probable(3, 4), reduction="batchmean")
add("cross_entropy", some(4), np.array(2))


def of_torch(torch: Any, value: Any) -> Any:
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES, ids=[f"{i}: {c.name}" for i, c in enumerate(CASES)])
@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_results_are_those_of_torch(case: Case) -> None:
    torch = pytest.importorskip("torch")
    options = dict(case.options)
    if "dtype" in options:
        options["dtype"] = getattr(torch, options["dtype"])
    given = [of_torch(torch, value) for value in case.args]
    named = {name: of_torch(torch, value) for name, value in options.items()}
    expected = getattr(torch.nn.functional, case.name)(*given, **named)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for arrays in (True, True, True, False):  # described, native, settled; then as tensors
        results = getattr(F, case.name)(
            *(case.args if arrays else given), **(case.options if arrays else named)
        )
        results = results if isinstance(results, tuple) else (results,)
        for got, want in zip(results, expected, strict=True):
            wanted = want.numpy()
            assert got.dtype == wanted.dtype and got.shape == wanted.shape
            np.testing.assert_allclose(got, wanted, rtol=2e-5, atol=2e-5)


def test_every_name_has_a_case() -> None:
    assert set(LAYERS) | {"one_hot"} == {case.name for case in CASES}


@pytest.mark.oracle
def test_names_and_signatures_are_those_of_torch() -> None:
    torch = pytest.importorskip("torch")
    for name in LAYERS:
        # of two functions behind one name the one that takes all arguments
        full = name.startswith(("max_pool", "adaptive_max_pool"))
        theirs = getattr(torch.nn.functional, name + ("_with_indices" if full else ""))
        try:
            known = inspect.signature(theirs)
        except ValueError:  # of a builtin, which names its arguments in its documentation
            told = re.search(rf"{name}\((.*?)\)\s*->", theirs.__doc__ or "", re.DOTALL)
            if told is not None:
                wanted = [part.partition("=")[0].strip() for part in told[1].split(",")]
                assert list(inspect.signature(getattr(F, name)).parameters) == [
                    part for part in wanted if part != "*"
                ], name
            continue
        ours = inspect.signature(getattr(F, name))
        assert [(p.name, p.default) for p in ours.parameters.values()] == [
            (p.name, p.default) for p in known.parameters.values()
        ], name
    assert all(hasattr(torch.nn.functional, name) and not hasattr(F, name) for name in ABSENT)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: F.conv2d(some(1, 3, 5, 5), some(4, 2, 3, 3)),
            "conv2d: input: expected 2 channels, which the weights take, got 3",
        ),
        (
            lambda: F.conv2d(some(3, 5), some(4, 3, 3, 3)),
            r"conv2d: input: expected 4 dimensions, or 3 without batches, got shape \[3,5\]",
        ),
        (
            lambda: F.conv2d(some(1, 3, 5, 5), some(4, 3, 3)),
            r"conv2d: weight: expected 4 dimensions, got shape \[4,3,3\]",
        ),
        (
            lambda: F.conv2d(some(1, 3, 5, 5), some(4, 3, 3, 3), stride=0),
            "conv2d: stride: expected a number or 2 of them, at least 1, got 0",
        ),
        (
            lambda: F.conv2d(some(1, 3, 5, 5), some(4, 3, 3, 3), padding="sme"),
            "padding: expected numbers, 'same' or 'valid', got 'sme'",
        ),
        (
            lambda: F.conv2d(some(1, 3, 5, 5), some(4, 3, 3, 3), None, 2, "same"),
            "padding='same' is for strides of 1",
        ),
        (
            lambda: F.conv2d(some(1, 4, 5, 5), some(3, 2, 3, 3), groups=2),
            r"groups: 2 do not divide weights of shape \[3,2,3,3\]",
        ),
        (
            lambda: F.conv_transpose1d(some(1, 3, 5), some(3, 4, 3), output_padding=1),
            "output_padding: expected less than the stride or the dilation",
        ),
        (
            lambda: F.linear(some(2, 5), some(3, 4)),
            r"linear: input: expected a last size of 4, which the weight \[3,4\] takes, got 5",
        ),
        (
            lambda: F.relu(X, inplace=True),
            "relu: inplace=True is not supported: .* take the result",
        ),
        (lambda: F.dropout(X), "dropout: training=True draws random numbers: give training=False"),
        (lambda: F.rrelu(X, training=True), "draws random slopes"),
        (lambda: F.softmax(X, 2), "softmax: dim: expected an axis from -2 to 1, got 2"),
        (lambda: F.softmax(X, 1, dtype="f9"), "dtype: expected an element type such as float32"),
        (lambda: F.gelu(X, "erf"), "gelu: approximate: expected 'none', 'tanh', got 'erf'"),
        (
            lambda: F.batch_norm(some(2, 3), some(3), probable(3), training=True),
            "training=True changes running_mean and running_var, and arrays are not changed",
        ),
        (
            lambda: F.layer_norm(some(2, 3), 4),
            r"normalized_shape: expected the last sizes of the input, \[3\], got \[4\]",
        ),
        (lambda: F.group_norm(some(2, 5), 2), "num_groups: 2 do not divide 5 channels"),
        (
            lambda: F.max_pool2d(some(1, 1, 4, 4), 2, padding=2),
            r"padding: expected at most half of kernel_size, \[2, 2\], got \[2, 2\]",
        ),
        (
            lambda: F.interpolate(some(1, 1, 4), 2, mode="bilinear"),
            "input: expected 2 axes behind .N, C. for mode='bilinear', got shape",
        ),
        (lambda: F.interpolate(some(1, 1, 4)), "size and scale_factor: expected one of them"),
        (
            lambda: F.interpolate(some(1, 1, 100), scale_factor=0.29),
            "scale_factor: 0.29 of .100. is just below a size: give size",
        ),
        (lambda: F.pad(some(2, 3), (1,)), "pad: expected two whole numbers for each of up to 2"),
        (
            lambda: F.scaled_dot_product_attention(_Q, _K, _V, dropout_p=0.1),
            "dropout_p draws random numbers: give 0.0",
        ),
        (
            lambda: F.scaled_dot_product_attention(_Q, _K, _V, some(5, 6), is_causal=True),
            "attn_mask and is_causal: give one of them",
        ),
        (
            lambda: F.cross_entropy(some(5, 4), whole(4, 4)),
            "cross_entropy: ",
        ),
        (
            lambda: F.cross_entropy(some(2, 4), np.array([1, 4])),
            r"cross_entropy: target\[1\] is 4, expected 0 to 3, or ignore_index",
        ),
        (lambda: F.nll_loss(some(2, 4), np.array([-1, 0])), r"target\[0\] is -1, expected 0 to 3"),
        (lambda: F.linear(None, some(2, 4)), "linear: input 'input' is missing"),
        (
            lambda: F.linear(some(2, 4), some(3, 4), some(4)),
            r"bias: expected 3 numbers, one for each row of the weight, got shape \[4\]",
        ),
        (
            lambda: F.conv1d(some(1, 3, 5), some(4, 3, 3), some(3)),
            "bias: expected 4 numbers, one for each channel of the result",
        ),
        (
            lambda: F.batch_norm(some(2, 3), some(4), probable(4)),
            r"running_mean: expected 3 numbers, one for each channel, got shape \[4\]",
        ),
        (lambda: F.cross_entropy(some(2, 4), [1.0, 0.5]), "target: expected whole numbers"),
        (lambda: F.l1_loss(X, X, reduction="men"), "reduction: expected 'none', 'mean', 'sum'"),
        (lambda: F.l1_loss(X, X, reduce=True), "reduce=True is not supported: give reduction="),
        (lambda: F.l1_loss(X, X, False), "size_average=False is not supported: give reduction="),
        (lambda: F.one_hot(np.array([0, 5]), 3), r"tensor\[1\] is 5, expected 0 to 2, a class"),
        (lambda: F.nll_loss(some(2, 4), [0.5, 1.5]), "nll_loss: input 'target': expected integers"),
        (lambda: F.conv2d(np.array(["a"]), X), "conv2d: "),
    ],
)
def test_refusals(call: Any, message: str) -> None:
    for _ in range(2):
        with pytest.raises(uncork.UncorkError, match=message):
            call()


def test_what_is_no_argument() -> None:
    with pytest.raises(TypeError, match=r"conv2d\(\) .*'strides'"):
        F.conv2d(some(1, 3, 5, 5), some(4, 3, 3, 3), strides=2)
    with pytest.raises(TypeError, match=r"linear\(\) missing .*'weight'"):
        F.linear(X)


@pytest.mark.parametrize(
    "name",
    [
        *("gumbel_softmax", "multi_head_attention_forward", "conv2", "relu_", "_x"),
        "max_pool2d_with_indices",
    ],
)
def test_names_that_are_not_there(name: str) -> None:
    told = {
        "gumbel_softmax": "it draws random numbers",
        "conv2": "did you mean 'conv2d'",
        "relu_": r"arrays are not changed: take the result of F\.relu",
        "max_pool2d_with_indices": r"F\.max_pool2d\(..., return_indices=True\)",
    }
    with pytest.raises(AttributeError, match=told.get(name, name)):
        getattr(F, name)


def test_arguments_that_only_the_operation_has_call_the_operation() -> None:
    x = some(2, 3, 4)
    np.testing.assert_allclose(F.softmax(x, axis=2).sum(2), np.ones((2, 3)), rtol=1e-6)
    assert F.pad([1, 2], [1], [0], pad_mode="constant").tolist() == [0, 1, 2]
    assert F.one_hot([1, 5], 3, 1.0, 0.0, axis=-1).tolist() == [[0, 1, 0], [0, 0, 0]]
    np.testing.assert_allclose(F.gelu(x, approximation_mode="tanh"), F.gelu(x, "tanh"))
    assert "SoftMax-8" in (F.softmax.__doc__ or "") and "torch" in (F.softmax.__doc__ or "")


def test_classes_are_looked_at_by_every_call() -> None:
    """Also by the native call that served the one before."""
    losses = np.float32([[1, 2, 3], [4, 5, 6]])
    for _ in range(3):
        assert F.nll_loss(losses, np.array([0, 2]), reduction="none").tolist() == [-1, -6]
        for wrong in (-1, 3):
            with pytest.raises(uncork.InputError, match=rf"target\[1\] is {wrong}"):
                F.nll_loss(losses, np.array([0, wrong]), reduction="none")


@pytest.mark.parametrize(
    "name", ["cross_entropy", "binary_cross_entropy", "binary_cross_entropy_with_logits"]
)
def test_targets_are_not_stretched(name: str) -> None:
    function = getattr(F, name)
    for _ in range(3):
        assert function(probable(4, 3), probable(4, 3)).shape == ()
        with pytest.raises(uncork.InputError, match=r"\[4,3\].*\[1,3\]|\[1,3\].*\[4,3\]"):
            function(probable(4, 3), probable(1, 3))


def test_sizes_of_weights_belong_to_a_plan() -> None:
    """A plan of one call is none for weights or normalised axes of other sizes."""
    for _ in range(3):
        assert F.layer_norm(np.float32([[1, 3]]), (2,)).shape == (1, 2)
        with pytest.raises(uncork.InputError, match="normalized_shape"):
            F.layer_norm(np.float32([[1, 2, 3]]), (2,))
        assert F.prelu(np.float32([[-1, -1]]), np.float32([2, 3])).tolist() == [[-2, -3]]
        with pytest.raises(uncork.InputError, match="expected 1 number or 2"):
            F.prelu(np.float32([[-1, -1]]), np.float32([2, 3, 4]))
        with pytest.raises(uncork.InputError, match="expected 1 number or 1"):
            F.prelu(np.float32([[-1]]), np.float32([2, 3, 4]))


def test_numbers_without_a_type_have_that_of_what_they_go_with() -> None:
    assert F.linear(np.float64([[1, 2]]), [[3, 4]], [1]).dtype == np.float64
    assert F.linear([[1.0, 2.0]], [[3, 4]]).tolist() == [[11]]
    assert F.cross_entropy(np.float32([[0, 0]]), [1]) == pytest.approx(np.log(2))
    with pytest.raises(uncork.InputError, match="linear: "):
        F.linear(np.float32([[1, 2]]), np.float64([[3, 4]]))
    half = F.linear(np.float16([[1, 2]]), np.float16([[3, 4]]))
    assert half.dtype == np.float16 and half.tolist() == [[11]]

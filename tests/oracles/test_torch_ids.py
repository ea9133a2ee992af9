"""Models of torch as OpenVINO converts and saves them: their ids reach the tables uncut, or as
OpenVINO cuts them when asked to.

Rows are those that torch looks up; what OpenVINO answers for an id beyond 32 bits is asked of
OpenVINO.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import uncork
from tests._openvino import OpenVino
from uncork.errors import InputError

torch = pytest.importorskip("torch")
openvino_package = pytest.importorskip("openvino")
pytestmark = pytest.mark.oracle

from torch import nn  # noqa: E402 - only where torch is

ROWS = 10
FAR = [2**32 + 1, 10**12, -(2**33) + 1]


class Recurrent(nn.Module):
    """A GRU over embeddings."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(ROWS, 4)
        self.gru = nn.GRU(4, 3, batch_first=True)

    def forward(self, ids: Any) -> Any:
        return self.gru(self.embedding(ids))[0]


class Flat(nn.Module):
    """Bags over some columns of a matrix of ids, as models with several features write them."""

    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(ROWS, 4, mode="sum")

    def forward(self, ids: Any) -> Any:
        return self.bag(ids[:, 1:].reshape(-1, 1)).reshape(ids.shape[0], -1)


#: The module, and the arguments of a call whose second id is the one given.
MODULES: dict[str, tuple[Callable[[], Any], Callable[[int], tuple[list[Any], ...]]]] = {
    "sum": (lambda: nn.EmbeddingBag(ROWS, 4, mode="sum"), lambda far: ([2, far, 3], [0, 2])),
    "mean": (lambda: nn.EmbeddingBag(ROWS, 4, mode="mean"), lambda far: ([2, far, 3], [0, 2])),
    "bags of one size": (
        lambda: nn.EmbeddingBag(ROWS, 4, mode="sum"),
        lambda far: ([[2, far], [3, 4]],),
    ),
    "columns": (Flat, lambda far: ([[2, far], [3, 4]],)),
    "embedding": (lambda: nn.Embedding(ROWS, 4, padding_idx=0), lambda far: ([[2, far], [3, 4]],)),
    "GRU over embedding": (Recurrent, lambda far: ([[2, far], [3, 4]],)),
}
BAGS = ("sum", "mean", "bags of one size", "columns")


@pytest.fixture(scope="module", params=MODULES)
def case(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Any, Any, Path]:
    """The name, the module, its calls, and the file that OpenVINO saved."""
    make, call = MODULES[request.param]
    torch.manual_seed(0)
    module = make().eval()
    example = tuple(torch.tensor(a) for a in call(1))
    path = tmp_path_factory.mktemp("converted") / "model.xml"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of tracing
        converted = openvino_package.convert_model(module, example_input=example)
    openvino_package.save_model(converted, path, compress_to_fp16=False)
    return request.param, module, call, path


@pytest.fixture(params=("cpu", "reference"))
def backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_the_converter_cuts_ids(case: Any) -> None:
    """Else these tests would say nothing."""
    assert 'destination_type="i32"' in case[3].read_text()


@pytest.mark.parametrize(
    "options", [{}, {"strict": True}, {"ids": "as-written"}, {"ids": "as-written", "strict": True}]
)
def test_ids_that_there_are(case: Any, backend: Any, options: dict[str, Any]) -> None:
    _, module, call, path = case
    expected = module(*(torch.tensor(a) for a in call(5))).detach().numpy()
    found = uncork.load(path, backend=backend, **options)(*call(5))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("far", FAR)
def test_ids_that_there_are_not(case: Any, backend: Any, far: int) -> None:
    name, module, call, path = case
    compiled = uncork.load(path, backend=backend)
    if name in BAGS:
        with pytest.raises(
            InputError,
            match=rf"layer '.*' \(EmbeddingBag.*\): input 'indices': indices\[.*\] is {far}, "
            r"expected 0 to 9",
        ):
            compiled(*call(far))
        return
    found = compiled(*call(far))[0]
    if name == "embedding":
        expected = module(torch.tensor(call(0)[0])).detach().numpy()
        expected[0, 1] = 0  # Gather-8: an index that is outside gives zeros
    else:
        given = module.embedding(torch.tensor(call(0)[0])).detach()
        given[0, 1] = 0
        expected = module.gru(given)[0].detach().numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("ids", ["64-bit", "as-written"])
@pytest.mark.parametrize("far", FAR)
def test_strict_names_the_id_that_was_given(case: Any, backend: Any, far: int, ids: Any) -> None:
    with pytest.raises(
        InputError,
        match=rf"layer '.*' \(.*, id \d+\): input '.*': \w+\[[\d, ]+\] is {far}, expected -?\d+ "
        r"to \d+",
    ):
        uncork.load(case[3], backend=backend, strict=True, ids=ids)(*case[2](far))


@pytest.mark.parametrize("far", [2**32 + 1, -(2**33) + 1])
def test_as_written_is_what_openvino_answers(
    case: Any, backend: Any, far: int, openvino: OpenVino
) -> None:
    _, _, call, path = case
    (expected,) = openvino.run(path, [np.array(a) for a in call(far)])
    found = uncork.load(path, backend=backend, ids="as-written")(*call(far))[0]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)

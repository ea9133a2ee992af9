"""examples/fine_tune: the session recommender goes to torch, learns, and comes back better."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import uncork

torch = pytest.importorskip("torch")
pytestmark = [pytest.mark.oracle, pytest.mark.filterwarnings("default")]


def test_what_it_learns_makes_it_better_on_later_sessions(tmp_path: Path) -> None:
    from examples.fine_tune.fine_tune import MODEL, learned, quality, split

    new, held_out = split()
    assert not {(m.session, m.event) for m in new} & {(m.session, m.event) for m in held_out}
    before = uncork.read_model(MODEL)
    after = learned(before, new)
    earlier, later = quality(before, held_out), quality(after, held_out)
    assert later.loss < earlier.loss
    assert later.recall > earlier.recall
    uncork.write_model(after, tmp_path / "tuned.xml")
    # Rows of full length: OpenVINO ignores lengths of open shapes.
    items, lengths = np.array([[5, 9, 7]]), np.array([3])
    again = np.asarray(uncork.load(tmp_path / "tuned.xml")(items, lengths)["scores"])
    np.testing.assert_array_equal(again, np.asarray(uncork.compile_model(after)(items, lengths)[0]))
    openvino = pytest.importorskip("openvino")
    compiled = openvino.Core().compile_model(
        tmp_path / "tuned.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"}
    )
    np.testing.assert_allclose(compiled([items, lengths])[0], again, 1e-3, 1e-3)

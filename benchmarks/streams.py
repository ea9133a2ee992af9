"""`python -m benchmarks streams`: one frame of a stream at a time, and many sessions side by side.

Frames: uncork and OpenVINO run the same streaming IR, by turns, each with its own state; OpenVINO's
input is bound once and its frame is copied into it. Sessions: `sessions.step` on some of 10,000
sessions against one call for each session, for which OpenVINO's request has the one state that it
holds: taking states in and out is not counted. Before anything is timed, all play one sequence and
are held against the whole sequence, by uncork's references.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import arrays
from benchmarks.options import Options
from benchmarks.report import Report, markdown_table
from benchmarks.streams_models import STREAMS, Stream, of_files, recommender
from benchmarks.timing import Contender, Sample, measure
from uncork import Model, compile_model, write_model
from uncork.surgery import reshape, stream_info, streaming, with_state
from uncork.types import Array

#: One frame should take OpenVINO this many times as long, and a session in a batch should be this
#: many times as fast as a call with OpenVINO's tensors bound, and as its `infer` of a dict.
GOAL, SESSIONS_GOAL, DICT_GOAL = 1.5, 12.0, 28.0
#: A frame may take so many times what its cells alone take.
CELLS_GOAL, _CELLS = 1.2, "uncork, cells alone"
#: What the largest difference may be, of the largest value.
_TOLERANCE = 1e-4
_FRAMES, _SETS, _CAPACITY = 24, 64, 10_000
#: The goals are for no fewer sessions in a step.
_MANY = 64
_TOGETHER = (1, 8, 64, 256, 1024, 10_000)


@dataclass(frozen=True)
class Result:
    """Microseconds for a frame of one stream, or of one session."""

    work: str
    contender: str
    min_us: float
    median_us: float
    error: float


def main(options: Options) -> int:
    """All streams and numbers of sessions that were asked for."""
    report, results = Report("streams", options), list[Result]()
    openvino = options.peers.get("openvino")
    with tempfile.TemporaryDirectory() as folder:
        for made in works(options):
            results += made(openvino, Path(folder), options)
            report.write({"cases": [asdict(result) for result in results]}, page(results))
    if not results:
        print("no case has such a name")
        return 2
    report.say()
    wrong = [f"{r.work}, {r.contender}" for r in results if not r.error <= _TOLERANCE]
    if wrong:
        print("wrong: " + "; ".join(wrong))
    return 1 if wrong else 0


_Work = Callable[[Any, Path, Options], "list[Result]"]


def works(options: Options) -> Iterator[_Work]:
    """What there is to do, in order."""
    streams = STREAMS[:2] if options.quick else (*STREAMS, *of_files(options.models))
    for stream in streams:
        if options.wants(stream.name):
            yield lambda openvino, folder, given, stream=stream: _frames(  # type: ignore[misc]
                stream, openvino, folder, given
            )
    for best in (False, True):
        name = "recommender, best 10" if best else "recommender, all scores"
        if options.wants(name):
            yield lambda openvino, folder, given, name=name, best=best: _sessions(  # type: ignore[misc]
                name, best, openvino, folder, given
            )


# ---- one stream


def _frames(stream: Stream, openvino: Any, folder: Path, options: Options) -> list[Result]:
    whole = stream.model()
    if stream.states is None:
        made = streaming(whole, stream.axes, frames=stream.frames)
    else:
        made = with_state(whole, stream.states)
    frames = _random_frames(made, _SETS)
    ours = _ours(made, frames, options)
    contenders = [ours, *_openvinos(openvino, made, frames, folder / "stream.xml", options)]
    if stream.cells is not None:
        contenders.append(_cells(stream.cells, frames, options))
    if stream.states is None:
        errors = _errors(whole, made, frames, contenders)
    else:
        errors = _errors_of_states(whole, stream.states, frames, contenders)
    times = measure(contenders, _SETS, options.seconds * 2)
    return [_result(stream.name, c.name, times[c.name], 1, errors[c.name]) for c in contenders]


def _result(work: str, name: str, sample: Sample, count: int, error: float) -> Result:
    return Result(work, name, sample.minimum * 1e6 / count, sample.median * 1e6 / count, error)


def _random_frames(stream: Model, count: int) -> list[list[Array]]:
    """Frames for so many calls, one array for each input."""
    generator = np.random.default_rng(0)
    found = []
    for _ in range(count):
        own = []
        for port in stream.inputs:
            shape = tuple(dim.static_size or 1 for dim in port.shape)
            if port.element_type.is_integer:
                own.append(generator.integers(1, 100, shape).astype(port.element_type.dtype))
            else:
                own.append(arrays.normal(generator, shape))
        found.append(own)
    return found


def _ours(stream: Model, frames: Sequence[Sequence[Array]], options: Options) -> Contender:
    compiled = compile_model(stream, threads=options.threads)
    return Contender("uncork", "uncork", "direct", lambda i: compiled(*frames[i]), list)


def _cells(
    make: Callable[[], tuple[Model, list[tuple[int, ...]]]],
    frames: Sequence[Sequence[Array]],
    options: Options,
) -> Contender:
    """Cells that are given their states and give the next ones."""
    model, shapes = make()
    compiled = compile_model(model, threads=options.threads)
    states: list[Array] = [np.zeros(shape, np.float32) for shape in shapes]

    def call(i: int) -> Any:
        result, *states[:] = compiled(*frames[i], *states)
        return [result]

    return Contender(_CELLS, "uncork", "direct", call, list)


def _openvinos(
    openvino: Any,
    stream: Model,
    frames: Sequence[Sequence[Array]],
    path: Path,
    options: Options,
) -> list[Contender]:
    """A request whose tensors are bound, and `infer` of a dict."""
    if openvino is None:
        return []
    write_model(stream, path)
    settings = {
        "INFERENCE_NUM_THREADS": options.threads,
        "INFERENCE_PRECISION_HINT": "f32",
        "NUM_STREAMS": 1,
        "PERFORMANCE_HINT": "LATENCY",
    }
    compiled = openvino.Core().compile_model(openvino.Core().read_model(path), "CPU", settings)
    bound, plain = compiled.create_infer_request(), compiled.create_infer_request()
    inputs = [arrays.aligned(array.shape, array.dtype) for array in frames[0]]
    for position, array in enumerate(inputs):
        bound.set_input_tensor(position, openvino.Tensor(array, shared_memory=True))
    infer: Callable[..., Any] = openvino._pyopenvino.InferRequest.infer
    count = len(compiled.outputs)

    def with_bound(i: int) -> Any:
        for own, frame in zip(inputs, frames[i], strict=True):
            own[...] = frame
        infer(bound, {}, share_outputs=True, decode_strings=False)
        return bound

    def read(request: Any) -> list[Array]:
        return [np.array(request.get_output_tensor(n).data) for n in range(count)]

    return [
        Contender("openvino bound", "openvino", "preset", with_bound, read),
        Contender(
            "openvino infer(dict)",
            "openvino",
            "call",
            lambda i: plain.infer(dict(enumerate(frames[i]))),
            lambda results: [np.array(results[n]) for n in range(count)],
        ),
    ]


def _errors(
    whole: Model, stream: Model, frames: Sequence[Sequence[Array]], contenders: Sequence[Contender]
) -> dict[str, float]:
    """The largest difference of each from the whole sequence, of its largest value: of the first
    output that has time, or is as of the last frame.
    """
    info = stream_info(stream)
    axes = list(info.inputs.values())
    calls = min(_FRAMES, len(frames))
    joined = [
        np.concatenate([frames[call][n] for call in range(calls)], axis)
        for n, axis in enumerate(axes)
    ]
    names = [port.name for port in whole.inputs]
    rows = joined[0].shape[0]
    given: dict[str, Array] = dict(zip(info.inputs, joined, strict=True))
    for port in whole.inputs:
        if port.name not in given:  # lengths go, initial states are zeros
            shape = tuple(dim.static_size or rows for dim in port.shape)
            fill = joined[0].shape[axes[0]] if port.element_type.is_integer else 0
            given[port.name] = np.full(shape, fill, port.element_type.dtype)
    reference = compile_model(whole, backend="reference")
    expected = np.asarray(reference({name: given[name] for name in names})[0])
    output = info.outputs[0]
    found = {}
    for contender in contenders:
        got = [np.array(contender.results(contender.call(call))[0]) for call in range(calls)]
        if output.kind == "time":
            late, early = max(0, -output.shift), max(0, output.shift)
            whole_output = np.concatenate(got, output.axis)
            streamed = np.take(
                whole_output, range(late, whole_output.shape[output.axis]), output.axis
            )
            most = streamed.shape[output.axis]
            wanted = np.take(expected, range(early, early + most), output.axis)
        else:
            streamed, wanted = got[-1], expected
        scale = float(np.abs(wanted).max()) or 1.0
        found[contender.name] = float(np.abs(streamed - wanted).max()) / scale
    return found


def _errors_of_states(
    whole: Model,
    states: Mapping[str, str],
    frames: Sequence[Sequence[Array]],
    contenders: Sequence[Contender],
) -> dict[str, float]:
    """The same of a model of frames, whose states the caller carries."""
    reference, carried = compile_model(whole, backend="reference"), dict[str, Array]()
    for port in whole.inputs:
        if port.name in states:
            carried[port.name] = np.zeros(port.shape.static, port.element_type.dtype)
    own = [port.name for port in whole.inputs if port.name not in states]
    expected = []
    for call in range(_FRAMES):
        results = reference({**dict(zip(own, frames[call], strict=True)), **carried})
        carried = {state: np.array(results[output]) for state, output in states.items()}
        expected.append(np.array(results[0]))
    scale = float(np.abs(expected).max()) or 1.0
    found = {}
    for contender in contenders:
        got = [np.array(contender.results(contender.call(call))[0]) for call in range(_FRAMES)]
        found[contender.name] = float(np.abs(np.subtract(got, expected)).max()) / scale
    return found


# ---- many sessions


def _sessions(name: str, best: bool, openvino: Any, folder: Path, options: Options) -> list[Result]:
    """Steps of some sessions, and one call for each."""
    whole = recommender(best)
    made = streaming(whole, "items", frames=1)
    single = streaming(reshape(whole, {"items": [1, None]}), "items", frames=1)
    compiled = compile_model(made, threads=options.threads)
    frames = _random_frames(single, _SETS)
    peers = _openvinos(openvino, single, frames, folder / "single.xml", options)
    alone = compile_model(single, threads=options.threads)
    calls = [
        Contender("uncork, a call each", "uncork", "direct", lambda i: alone(*frames[i]), list),
        *peers,
    ]
    errors = _errors(whole, single, frames, calls)
    sessions = compiled.sessions(_CAPACITY)
    for session in range(_CAPACITY):
        sessions.open(session)
    generator = np.random.default_rng(1)
    counts = dict.fromkeys([call.name for call in calls], 1)
    for count in _TOGETHER[:3] if options.quick else _TOGETHER:
        steps = [
            (
                generator.permutation(_CAPACITY)[:count].tolist(),
                generator.integers(1, 1683, (count, 1)),
            )
            for _ in range(8)
        ]

        def step(i: int, steps: Any = steps) -> Any:
            return sessions.step(*steps[i % len(steps)])

        own = Contender(f"{count} sessions", "uncork", "direct", step, list)
        errors[own.name], counts[own.name] = _of_sessions(compiled, sessions, frames), count
        calls.append(own)
    times = measure(calls, _SETS, options.seconds * 2)
    return [_result(name, c.name, times[c.name], counts[c.name], errors[c.name]) for c in calls]


def _of_sessions(compiled: Any, sessions: Any, frames: Sequence[Sequence[Array]]) -> float:
    """The largest difference of a session from a request of its own."""
    request = compiled.new_request()
    sessions.reset(0)
    worst = 0.0
    for frame in frames[:_FRAMES]:
        expected = np.asarray(request(*frame)[0])
        got = np.asarray(sessions.step([0], *frame)[0])
        scale = float(np.abs(expected).max()) or 1.0
        worst = max(worst, float(np.abs(got - expected).max()) / scale)
    return worst


# ---- the page


def page(results: Sequence[Result]) -> str:
    """Each contender beside OpenVINO's two."""
    rows = []
    for r in results:
        others = {o.contender: o for o in results if o.work == r.work}
        bound, plain = others.get("openvino bound"), others.get("openvino infer(dict)")
        ours = not r.contender.startswith("openvino")
        goals: tuple[float | None, float | None] = (GOAL, None)
        if r.contender.endswith(" sessions"):
            many = int(r.contender.split()[0]) >= _MANY
            goals = (SESSIONS_GOAL, DICT_GOAL) if many else (None, None)
        cells = [r.work, r.contender, f"{r.min_us:.2f}", f"{r.median_us:.2f}"]
        for other, goal in zip((bound, plain), goals, strict=True):
            if other is None or not ours:
                cells.append("")
                continue
            faster = other.min_us / r.min_us
            mark = (
                ""
                if goal is None
                else f" (>= {goal:g})"
                if faster >= goal
                else f" (**misses** {goal:g})"
            )
            cells.append(f"{faster:.2f}{mark}")
        floor = others.get(_CELLS)
        if floor is None or r.contender != "uncork":
            cells.append("")
        else:
            slower = r.min_us / floor.min_us
            kept = f"<= {CELLS_GOAL:g}" if slower <= CELLS_GOAL else f"**misses** {CELLS_GOAL:g}"
            cells.append(f"{slower:.2f} ({kept})")
        rows.append([*cells, f"{r.error:.1e}"])
    head = ["stream", "contender", "min us", "median", "bound / min", "dict / min", "min / cells"]
    head.append("difference")
    return markdown_table(head, rows)

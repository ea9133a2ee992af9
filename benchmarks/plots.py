"""Pictures of results, where matplotlib is installed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.cases import Outcome

_RATIOS = {"openvino": "#d1495b", "best peer": "#66a182", "ordinary call": "#edae49"}
_SYSTEMS = {
    "uncork": "#1b6ca8",
    "openvino": "#d1495b",
    "torch": "#edae49",
    "fbgemm": "#3a7d7c",
    "onnxruntime": "#66a182",
    "numpy": "#8d6cab",
    "limit": "#555555",
}


def _pyplot() -> Any:
    try:
        import matplotlib
    except ImportError:
        print("no plot: matplotlib is not installed")
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def ratios(outcomes: Sequence[Outcome], title: str, path: Path) -> None:
    """Every case as a dot: how many times faster than OpenVINO and than the best peer, group by
    group.
    """
    pyplot = _pyplot()
    if pyplot is None or not outcomes:
        return
    groups = list(dict.fromkeys(outcome.group for outcome in outcomes))
    figure, axes = pyplot.subplots(figsize=(9, 1.2 + 0.55 * len(groups)), layout="constrained")
    for row, group in enumerate(groups):
        mine = [o for o in outcomes if o.group == group]
        series = {
            "openvino": [o.cheapest("openvino") for o in mine],
            "best peer": [o.cheapest() for o in mine],
            "ordinary call": [o.ordinary("openvino") for o in mine],
        }
        for offset, (name, values) in zip((-0.22, 0.0, 0.22), series.items(), strict=True):
            known = [value for value in values if value]
            places = [row + offset] * len(known)
            axes.plot(
                known,
                places,
                "o",
                color=_RATIOS[name],
                alpha=0.6,
                markersize=4,
                label=name if not row else None,
            )
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.set_xlabel("time of the peer / ours (right of the line uncork is faster)")
    axes.set_title(title)
    axes.grid(True, axis="x", alpha=0.3)
    axes.legend(loc="best", fontsize="small")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def growth(series: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]], path: Path) -> None:
    """Small log-log plots: for every quantity, (size, microseconds) of each contender."""
    pyplot = _pyplot()
    if pyplot is None or not series:
        return
    columns = min(3, len(series))
    lines = -(-len(series) // columns)
    figure, grid = pyplot.subplots(
        lines, columns, figsize=(4.2 * columns, 3.2 * lines), squeeze=False, layout="constrained"
    )
    for axes, (quantity, contenders) in zip(grid.flat, series.items(), strict=True):
        for name, points in contenders.items():
            style = "o:" if name == "limit" else "o-"
            axes.plot(
                *zip(*points, strict=True),
                style,
                markersize=3,
                label=name,
                color=_SYSTEMS.get(name),
                linewidth=2 if name == "uncork" else 1,
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(quantity, fontsize="small")
        axes.set_ylabel("us")
        axes.grid(True, which="major", alpha=0.3)
        axes.legend(fontsize="x-small")
    for axes in list(grid.flat)[len(series) :]:
        axes.set_visible(False)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)


def traffic(records: Sequence[Any], turn: int, path: Path) -> None:
    """For every kind of traffic the time of each call, and the memory after each turn of so many
    calls.
    """
    pyplot = _pyplot()
    if pyplot is None or not records:
        return
    cases = list(dict.fromkeys(record.case for record in records))
    figure, grid = pyplot.subplots(
        len(cases), 2, figsize=(10, 2.4 * len(cases)), squeeze=False, layout="constrained"
    )
    for (times, memory), case in zip(grid, cases, strict=True):
        for record in (r for r in records if r.case == case):
            style: dict[str, Any] = {"label": record.system, "color": _SYSTEMS.get(record.system)}
            times.plot(range(len(record.new)), record.new, ".", markersize=1.5, **style)
            memory.plot([turn * n for n in range(len(record.memory))], record.memory, "-", **style)
        times.set_yscale("log")
        times.set_title(f"{case}: us of each call", fontsize="small")
        memory.set_title(f"{case}: resident memory, MB", fontsize="small")
        memory.set_ylim(bottom=0)
        for axes in (times, memory):
            axes.grid(True, alpha=0.3)
            axes.legend(fontsize="x-small")
    figure.savefig(path, dpi=130)
    pyplot.close(figure)

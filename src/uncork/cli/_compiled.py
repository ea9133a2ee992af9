"""What `show` and `check` tell of a compiled file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from uncork.cli._output import counted
from uncork.compiler.image import format
from uncork.compiler.image.origins import KINDS
from uncork.ir.ports import best_name
from uncork.quoting import in_terminal

#: Constants of fewer bytes would be told as 0.00 MB.
_TOLD = 5000


def facts(path: str) -> dict[str, Any]:
    """What there is to know of a compiled file, as JSON holds it."""
    description, _ = format.read(Path(path))
    variables = description.variables
    return {
        "model": path,
        "name": description.name,
        "uncork": description.uncork,
        "inputs": [_port(port) for port in description.inputs],
        "outputs": [_port(port) for port in description.outputs],
        "variables": sorted({read.variable for read in variables.assigned}) if variables else [],
        "constants": description.constants.bytes,
        "weights": weights_facts(description),
        "targets": [
            {
                "level": image.level,
                "code": image.code.bytes,
                "plans": [
                    {
                        "inputs": [_shape(argument) for argument in plan.arguments],
                        "layers": len(plan.steps),
                        "threads": plan.threads,
                        "guards": [c.text for c in plan.conditions if c.is_guard and c.text],
                    }
                    for plan in image.plans
                ],
            }
            for image in description.images
        ],
        "made_of": description.sources,
        "source": sorted(description.source),
        "settings": description.settings,
    }


def _port(port: format.Port) -> dict[str, Any]:
    return {
        "name": best_name(port.names),
        "names": list(port.names),
        "element_type": port.element_type,
        "shape": port.shape,
    }


def _shape(argument: format.Argument) -> str:
    sizes = ["?" if size is None else str(size) for size in argument.shape]
    return f"{argument.dtype}[{','.join(sizes)}]"


def text(found: dict[str, Any]) -> str:
    """The same for people."""
    lines = [
        f"{found['name']}, compiled by uncork {found['uncork']}",
        f"  {weights_text(found['weights'])}",
    ]
    if found["source"]:
        lines.append(f"  its source: {', '.join(found['source'])}")
    for kind in ("inputs", "outputs"):
        lines.append(kind)
        lines += [f"  {p['name']}  {p['element_type']}[{p['shape']}]" for p in found[kind]]
    if found["variables"]:
        lines.append(f"variables: {', '.join(found['variables'])}")
    for target in found["targets"]:
        plans = counted(len(target["plans"]), "plan")
        lines.append(f"{target['level']}: {plans}, {target['code']:,} bytes of code")
        for plan in target["plans"]:
            lines.append(f"  {counted(plan['layers'], 'layer')} for {', '.join(plan['inputs'])}")
            lines += [f"    where {guard}" for guard in plan["guards"]]
    return "".join(f"{in_terminal(line)}\n" for line in lines)


def weights_facts(description: format.Description) -> dict[str, Any]:
    """What the constants are: bytes of them, of the model's weights, and by their kind."""
    weights = description.weights or format.Weights(0, {}, 0)  # those of files of old
    kinds = {kind: weights.kinds.get(kind, 0) for kind in KINDS}
    return {
        "model": weights.model,
        "file": description.constants.bytes,
        **kinds,
        "repeated": weights.repeated,
    }


def weights_text(facts: dict[str, Any]) -> str:
    """The same in a line."""
    parts = sorted(((facts[kind], words) for kind, words in KINDS.items()), reverse=True)
    told = ", ".join(f"{_megabytes(size)} {words}" for size, words in parts if size >= _TOLD)
    again = facts["repeated"]
    return (
        f"{_megabytes(facts['file'])} of constants"
        + (f" for {_megabytes(facts['model'])} of weights" if facts["model"] else "")
        + (f": {told}" if told else "")
        + (f"; {_megabytes(again)} hold what others hold" if again >= _TOLD else "")
    )


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.2f} MB"


def problem_of(path: str) -> str:
    """What is wrong with the constants of a compiled file, which loading it does not read; ""
    where they are as they were written. Raises ReadError for anything else that is wrong.
    """
    description, data = format.read(Path(path))
    if format.constants_digest(memoryview(data), description) == description.constants_digest:
        return ""
    return "is damaged: the digest of its constants is another one: copy it again"

"""`uncork run` on a folder of pictures: one call for each, and a line of results."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uncork.cli._input_options import collect
from uncork.cli._inputs import unknown_input
from uncork.cli._output import counted, emit, emit_json, table
from uncork.cli._pictures import pictures_in, pictures_of, read_picture
from uncork.cli._results import best_classes, is_classified, short_values
from uncork.cli._summary import summarise
from uncork.compiler.arguments import unique_names
from uncork.compiler.compile import CompiledModel
from uncork.errors import InputError
from uncork.ir.ports import find_input
from uncork.quoting import in_terminal
from uncork.random_inputs import RandomBounds
from uncork.types import Array


@dataclass(frozen=True)
class Folder:
    """The input that gets the pictures of a folder, by its position, and what `-i` says of the
    others.
    """

    position: int
    pictures: Sequence[str]
    others: Sequence[str]


def folder_of(compiled: CompiledModel, arguments: argparse.Namespace) -> Folder | None:
    """The folder of pictures that `-i NAME=FOLDER` gives; None where nothing does. Raises
    InputError.
    """
    ports, found = compiled.inputs, []
    for text in arguments.input:
        name, separator, path = text.rpartition("=")
        path = text if os.path.isdir(text) else path
        if not os.path.isdir(path):
            continue
        InputError.when(
            not separator and len(ports) != 1,
            f"a folder has no name for its pictures: write -i NAME={text}",
            text,
        )
        position = find_input(ports, name) if path is not text else 0
        if position is None:
            raise InputError.of_all("", [unknown_input(ports, name)])
        found.append((position, path, text))
    if not found:
        return None
    InputError.when(len(found) > 1, f"expected one folder of pictures, got {len(found)}", "-i")
    ((position, path, text),) = found
    others = [other for other in arguments.input if other != text]
    return Folder(position, pictures_in(path), others)


def run_folder(
    arguments: argparse.Namespace, compiled: CompiledModel, folder: Folder, labels: Sequence[str]
) -> tuple[dict[str, Array], bool]:
    """Call the model on every picture and print what each gives. The outputs of all of them, and
    whether every picture could be read; those that could not are said and left out.
    """
    port, how = compiled.inputs[folder.position], pictures_of(arguments)
    names = unique_names(compiled.outputs)
    read: list[str] = []
    failed: dict[str, str] = {}
    outputs: dict[str, list[Array]] = {name: [] for name in names}
    others: Mapping[int, Any] | None = None
    for path in folder.pictures:
        try:
            array = read_picture(path, port, how)
        except InputError as error:
            if not any(problem.where == path for problem in error.problems):
                raise  # of the input or an option, and so of every picture
            failed[path] = str(error)
            continue
        if others is None:
            others = _others(arguments, compiled, folder, array)
        values = {**others, folder.position: array}
        results = compiled(*(values[i] for i in range(len(compiled.inputs))))
        compiled.reset_state()  # pictures are no sequence
        for name, result in zip(names, results, strict=True):
            outputs[name].append(np.array(result))
        read.append(path)
    joined = (
        {name: _joined(name, arrays) for name, arrays in outputs.items()}
        if (arguments.output and read)
        else {}
    )
    _report(arguments, compiled, labels, read, failed, outputs)
    return joined, not failed


def _others(
    arguments: argparse.Namespace, compiled: CompiledModel, folder: Folder, array: Array
) -> dict[int, Any]:
    """The values of the other inputs."""
    rest = argparse.Namespace(**{**vars(arguments), "input": folder.others})
    values, _ = collect(
        compiled.inputs, rest, RandomBounds(compiled.model), {folder.position: array}
    )
    return values


def _joined(name: str, arrays: Sequence[Array]) -> Array:
    """The results of all pictures as one array: along the axis of pictures, where there is one."""
    shapes = {array.shape for array in arrays}
    InputError.when(
        len(shapes) > 1,
        f"output '{name}' has other sizes for each picture ({', '.join(map(str, shapes))}): "
        "they go into no file of arrays; leave out --output",
    )
    (shape,) = shapes
    return np.concatenate(arrays) if shape and shape[0] == 1 else np.stack(arrays)


def _report(
    arguments: argparse.Namespace,
    compiled: CompiledModel,
    labels: Sequence[str],
    read: Sequence[str],
    failed: Mapping[str, str],
    outputs: Mapping[str, Sequence[Array]],
) -> None:
    if arguments.json:
        pictures = []
        for number, path in enumerate(read):
            results = [
                summarise(name, port.names, port.element_type, outputs[name][number])
                for name, port in zip(outputs, compiled.outputs, strict=True)
            ]
            pictures.append({"file": path, "outputs": results})
        emit_json(
            {
                "schema": "uncork-run-pictures-1",
                "model": arguments.model,
                "pictures": pictures,
                "failed": [{"file": path, "error": why} for path, why in failed.items()],
                "saved": arguments.output,
            }
        )
        return
    rows = [["picture", *outputs]]
    for number, path in enumerate(read):
        cells = [_cell(arrays[number], labels) for arrays in outputs.values()]
        rows.append([os.path.basename(path), *cells])
    text = table(rows) if read else ""
    if arguments.output and read:
        text += f"\nsaved {counted(len(outputs), 'output')} in {in_terminal(arguments.output)}\n"
    emit(text)
    for why in failed.values():
        print(f"uncork: error: {in_terminal(why)}", file=sys.stderr)


def _cell(array: Array, labels: Sequence[str]) -> str:
    if is_classified(array.reshape(1, -1) if array.ndim < 2 else array, labels):
        return ", ".join(best_classes(array.reshape(-1)[: len(labels)], labels))
    return f"{list(array.shape)} {' '.join(short_values(array.reshape(-1)))}"

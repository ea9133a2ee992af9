"""What a file says of its model beside the layers (`rt_info`): names of classes, wishes for the
runtime.
"""

from __future__ import annotations

from collections.abc import Sequence

from uncork.ir.model import Model, XmlElement


def labels_of(model: Model) -> list[str]:
    """The labels of a model's classes, where OpenVINO's tools keep them: spaces separate them in
    the file (`_` stands for a space within one); an empty list where there are none.
    """
    value = runtime_information(model, "model_info", "labels") or ""
    return [label.replace("_", " ") for label in value.split()]


def runtime_information(model: Model, *path: str) -> str | None:
    """The value at a place of the model's `rt_info`; None where there is none."""
    found: Sequence[XmlElement] = [e for e in model.extras if e.tag == "rt_info"]
    for name in path:
        found = [
            child
            for element in found
            for child in element.children
            # A name is a tag, or what `<info name=...>` says.
            if child.tag == name
            or (child.tag == "info" and dict(child.attributes).get("name") == name)
        ]
    return dict(found[0].attributes).get("value", "") if found else None

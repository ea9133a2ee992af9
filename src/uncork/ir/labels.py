"""The names of a model's classes, where OpenVINO's tools keep them: `model_info/labels`."""

from __future__ import annotations

from collections.abc import Iterable

from uncork.ir.model import Model, XmlElement


def labels_of(model: Model) -> list[str]:
    """The labels of a model's classes, which spaces separate in the file (`_` stands for a space
    within one); an empty list where there are none.
    """
    for info in _named(_named(_of_tag(model.extras, "rt_info"), "model_info"), "labels"):
        value = dict(info.attributes).get("value", "")
        return [label.replace("_", " ") for label in value.split()]
    return []


def _of_tag(elements: Iterable[XmlElement], tag: str) -> list[XmlElement]:
    return [child for element in elements if element.tag == tag for child in element.children]


def _named(elements: Iterable[XmlElement], name: str) -> list[XmlElement]:
    """Elements of a name, which is their tag or what `<info name=...>` says.

    The elements of a group are its children.
    """
    found = [
        e
        for e in elements
        if e.tag == name or (e.tag == "info" and dict(e.attributes).get("name") == name)
    ]
    return found if name == "labels" else [child for element in found for child in element.children]

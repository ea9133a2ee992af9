"""Changing ONNX models at random: any field of any message, names and operators among them, where a
mistake of an exporter would be; and the bytes of the file.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from tests.fuzz.mutate import NUMBERS, TEXTS

_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1e30, -1e30, 1e-40, float("nan"), float("inf"))
_LOCATIONS = ("../model.onnx", "/etc/passwd", "", "model.onnx", "none", "a/../../b", "\0", ".")
_MOST = 3


class OnnxMutation:
    """A model's bytes, and what was changed in them. `write` gives the bytes as they are now."""

    def __init__(self, data: bytes, generator: random.Random) -> None:
        import onnx

        self.model = onnx.ModelProto.FromString(data)
        self.generator = generator
        self.log: list[str] = []
        self.data = data
        self.names = sorted({name for m in _messages(self.model) for name in _names(m)}) or ["x"]

    def apply(self) -> None:
        """A few changes of fields, then at times some of bytes."""
        pick = self.generator
        bytes_too = pick.random() < 0.25
        for _ in range(pick.randint(0 if bytes_too else 1, _MOST)):
            self._field()
        self.data = self.model.SerializeToString()
        for _ in range(pick.randint(1, 3) if bytes_too else 0):
            self._bytes()

    # ---- fields

    def _field(self) -> None:
        pick = self.generator
        message = pick.choice(list(_messages(self.model)))
        if pick.random() < 0.15:
            return self._external(message)
        fields = message.DESCRIPTOR.fields
        field = pick.choice([f for f in fields if _present(message, f)] or list(fields))
        if pick.random() < 0.1:
            field = pick.choice(list(fields))
        where = f"{message.DESCRIPTOR.name}.{field.name}"
        if _is_repeated(field):
            self._list(message, field, where)
        elif field.message_type is not None:
            self._message(message, field, where)
        elif pick.random() < 0.15:
            message.ClearField(field.name)
            self.log.append(f"{where} is dropped")
        else:
            self._set(message, field, where)

    def _set(self, message: Any, field: Any, where: str) -> None:
        value = self._value(field)
        try:
            setattr(message, field.name, value)
        except (ValueError, TypeError):  # a number outside of the field's type
            value = 7 if isinstance(value, int) else "7"
            setattr(message, field.name, value)
        self.log.append(f"{where} becomes {value!r:.40}")

    def _value(self, field: Any) -> Any:
        pick, kind = self.generator, field.cpp_type
        if field.enum_type is not None:
            return pick.choice(list(field.enum_type.values_by_number))
        if kind in (field.CPPTYPE_FLOAT, field.CPPTYPE_DOUBLE):
            return pick.choice(_FLOATS)
        if kind == field.CPPTYPE_BOOL:
            return pick.random() < 0.5
        if kind != field.CPPTYPE_STRING:
            few = [int(n) for n in NUMBERS] if pick.random() < 0.5 else range(-3, 24)
            return pick.choice(list(few))
        if field.type == field.TYPE_BYTES:
            return bytes(pick.randrange(256) for _ in range(pick.choice((0, 1, 4, 7, 16))))
        from_model = self.names if pick.random() < 0.6 else [*_operators(), *TEXTS]
        return pick.choice(from_model)

    def _list(self, message: Any, field: Any, where: str) -> None:
        pick, values = self.generator, getattr(message, field.name)
        kind = pick.choice(("drop", "repeat", "swap", "change", "change", "clear", "add"))
        place = pick.randrange(len(values)) if len(values) else 0
        if kind == "clear":
            message.ClearField(field.name)
        elif kind == "add" or not len(values):
            if field.message_type is not None:
                values.add()
            else:
                self._append(values, field)
        elif kind == "drop":
            del values[place]
        elif kind in ("repeat", "swap"):
            whole = list(values)
            if field.message_type is not None:
                whole = [type(v).FromString(v.SerializeToString()) for v in whole]
            if kind == "repeat":
                whole.insert(pick.randrange(len(whole) + 1), whole[place])
            else:
                other = pick.randrange(len(whole))
                whole[place], whole[other] = whole[other], whole[place]
            del values[:]
            values.extend(whole)
        elif field.message_type is None:
            try:
                values[place] = self._value(field)
            except (ValueError, TypeError):
                values[place] = type(values[place])()
        else:
            kind = "other of"
            self._copied(values[place])
        self.log.append(f"{where}[{place}]: {kind}")

    def _append(self, values: Any, field: Any) -> None:
        try:
            values.append(self._value(field))
        except (ValueError, TypeError):
            values.append(0)

    def _message(self, message: Any, field: Any, where: str) -> None:
        if self.generator.random() < 0.4:
            message.ClearField(field.name)
            self.log.append(f"{where} is dropped")
        else:
            self._copied(getattr(message, field.name))
            self.log.append(f"{where} becomes another one of the model")

    def _copied(self, message: Any) -> None:
        """Another message of the type in its place, the model's own among them."""
        kind = message.DESCRIPTOR.name
        same = [m for m in _messages(self.model) if m.DESCRIPTOR.name == kind]
        if same:
            message.ParseFromString(self.generator.choice(same).SerializeToString())

    def _external(self, message: Any) -> None:
        """Values of a tensor lie in another file, which need not be one."""
        tensors = [m for m in _messages(self.model) if m.DESCRIPTOR.name == "TensorProto"]
        if not tensors:
            return
        pick = self.generator
        tensor = pick.choice(tensors)
        tensor.data_location = 1
        del tensor.external_data[:]
        for key, values in (
            ("location", _LOCATIONS),
            ("offset", ("0", "4", "-1", "x", "9" * 30)),
            ("length", ("0", "4", "-1", "", "1e3", "9" * 18)),
        ):
            if pick.random() < 0.8:
                entry = tensor.external_data.add()
                entry.key, entry.value = key, pick.choice(values)
        self.log.append(
            f"tensor '{tensor.name}' lies elsewhere: {list(tensor.external_data)}"[:200]
        )

    # ---- bytes

    def _bytes(self) -> None:
        pick, data = self.generator, bytearray(self.data)
        place = pick.randrange(len(data)) if data else 0
        kind = pick.choice(("flip", "flip", "set", "cut", "drop", "insert", "repeat"))
        if not data:
            return
        if kind == "flip":
            data[place] ^= 1 << pick.randrange(8)
        elif kind == "set":
            data[place] = pick.choice((0, 1, 127, 128, 255))
        elif kind == "cut":
            del data[place:]
        elif kind == "drop":
            del data[place : place + pick.randint(1, 8)]
        elif kind == "insert":
            data[place:place] = bytes(pick.randrange(256) for _ in range(pick.randint(1, 8)))
        else:
            data[place:place] = data[place : place + pick.randint(1, 40)]
        self.data = bytes(data)
        self.log.append(f"bytes: {kind} at {place}")


def _messages(message: Any) -> Iterator[Any]:
    """The message and all in it."""
    waiting = [message]
    while waiting:
        each = waiting.pop()
        yield each
        for field, value in each.ListFields():
            if field.message_type is not None:
                waiting.extend(value if _is_repeated(field) else [value])


def _is_repeated(field: Any) -> bool:
    # The property's name depends on the version of protobuf.
    return bool(field.is_repeated) if hasattr(field, "is_repeated") else field.label == 3


def _present(message: Any, field: Any) -> bool:
    return any(other.number == field.number for other, _ in message.ListFields())


def _names(message: Any) -> Iterator[str]:
    for field, value in message.ListFields():
        if field.type == field.TYPE_STRING:
            yield from value if _is_repeated(field) else [value]


def _operators() -> list[str]:
    from uncork.onnx.registry import operators

    return [name for _, name, _ in operators()]

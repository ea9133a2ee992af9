"""Arrays in and out of a model: what a call gives is matched to inputs and converted exactly, or
refused with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from uncork._html import html_table
from uncork.errors import InputError, Label, Problem
from uncork.ir.ports import ModelPort as ModelPort
from uncork.ir.ports import did_you_mean as did_you_mean
from uncork.ir.ports import find_port, listed, no_such_port
from uncork.storage import decode, encode
from uncork.types import Array, ElementType, describe_array, is_masked


class Results(Sequence[Array]):
    """The arrays a call gave. They are the caller's own.

    By position, by name, by port (`results[compiled.outputs[0]]`) or unpacked (`scores, ids =
    compiled(...)`). It is a Mapping too: `keys()`, `values()`, `items()`, `get` and `in` go by
    names, and `dict(results)` has each array under a name of its own. Iterating gives the arrays.
    """

    def __init__(self, ports: Sequence[ModelPort], arrays: Sequence[Array]) -> None:
        self._ports = ports
        self._arrays = arrays

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, (int, slice)):
            try:
                return self._arrays[key]
            except IndexError:
                raise IndexError(no_such_port(self._ports, key, "output")) from None
        found = find_port(self._ports, key)
        if found is None:
            # KeyError, as any mapping raises; the message is still one to act on.
            raise KeyError(no_such_port(self._ports, key, "output"))
        return self._arrays[found]

    def __len__(self) -> int:
        return len(self._arrays)

    def __iter__(self) -> Iterator[Array]:
        return iter(self._arrays)

    def __contains__(self, key: object) -> bool:
        """Whether there is an output of this name, at this position or of this port; or the array
        is one of the results.
        """
        return find_port(self._ports, key) is not None or any(
            array is key for array in self._arrays
        )

    def keys(self) -> list[str]:
        """The distinct names of all outputs; see `unique_names`."""
        return unique_names(self._ports)

    def values(self) -> list[Array]:
        """The arrays, in order."""
        return list(self._arrays)

    def items(self) -> list[tuple[str, Array]]:
        """All pairs of a name and an array; see `unique_names`."""
        return list(zip(self.keys(), self._arrays, strict=True))

    def get(self, key: Any, default: Any = None) -> Any:
        """The array of a name, a position or a port; `default` where there is none."""
        found = find_port(self._ports, key)
        return default if found is None else self._arrays[found]

    def to_dict(self) -> dict[str, Array]:
        """A dictionary of the arrays by name; see `unique_names`."""
        return dict(self.items())

    def to_tuple(self) -> tuple[Array, ...]:
        """The arrays, in order."""
        return tuple(self._arrays)

    def __repr__(self) -> str:
        return (
            "Results("
            + ", ".join(
                f"{p.name}: {describe_array(a)}"
                for p, a in zip(self._ports, self._arrays, strict=True)
            )
            + ")"
        )

    def _repr_html_(self) -> str:
        """For notebooks: every array with its type, its shape and its first values."""
        rows = []
        for name, array in self.items():
            flat = array.reshape(-1)
            first = ", ".join(
                f"{value:.6g}" if isinstance(value, float) else str(value)
                for value in flat[:8].tolist()
            )
            rows.append([name, describe_array(array), first + (", ..." if flat.size > 8 else "")])
        return html_table("results", ("name", "array", "first values"), rows)


Mapping.register(Results)


def unique_names(ports: Sequence[ModelPort]) -> list[str]:
    """Distinct names for all ports, one each: the first of a port's names that no port before it
    took, else its position.
    """
    names: list[str] = []
    for position, port in enumerate(ports):
        free = [
            name for name in (port.name, *port.names, str(position)) if name and name not in names
        ]
        names.append(free[0] if free else f"output {position}")
    return names


def match(
    ports: Sequence[ModelPort], positional: Sequence[Any], named: Mapping[Any, Any]
) -> list[Any]:
    """The values of all inputs, in order, from positions and keys (names, positions, ports). Raises
    InputError that lists everything amiss.

    One mapping, or one list of all inputs, is taken apart.
    """
    if len(positional) == 1:
        positional, named = _taken_apart(ports, positional, named)
    if len(positional) > len(ports):
        raise InputError(f"expected {len(ports)} inputs ({listed(ports)}), got {len(positional)}")
    values: dict[int, Any] = dict(enumerate(positional))
    problems: list[Problem] = []
    for key, value in named.items():
        position = find_port(ports, key)
        if position is None:
            problems.append(Problem("", no_such_port(ports, key, "input")))
        elif position in values:
            problems.append(Problem("", f"input '{ports[position].name}' is given twice"))
        else:
            values[position] = value
    missing = [ports[i] for i in range(len(ports)) if i not in values]
    if missing and not problems:
        problems.append(
            Problem("", f"{len(missing)} of {len(ports)} inputs missing: {listed(missing)}")
        )
    if problems:
        raise InputError.of_all("", problems)
    return [values[i] for i in range(len(ports))]


def _taken_apart(
    ports: Sequence[ModelPort], positional: Sequence[Any], named: Mapping[Any, Any]
) -> tuple[Sequence[Any], Mapping[Any, Any]]:
    """The positional and the named inputs, with the one argument of `compiled({...})` or
    `compiled([a, b])` taken apart; others are left as they are.

    To a model of one input a list is its value, as ever, unless it holds one array that is an input
    by itself.
    """
    (only,) = positional
    if isinstance(only, Mapping):
        return (), {**dict(only.items()), **named}
    if not isinstance(only, (list, tuple)):
        return positional, named
    if len(ports) != 1:
        return only, named
    alone = len(ports) == len(only) == 1 and hasattr(only[0], "__array__")
    return (only if alone and ports[0].shape.contains(np.shape(only[0])) else positional), named


def accept(port: ModelPort, value: Any, where: Label | None = None) -> Array:
    """The carrier array for an input, C-contiguous. Casts only when every value stays exactly what
    it is.

    bf16 and smaller floats are given as any float array whose values they can hold; small integers
    as any integers. Messages name the input, or what is said to be `where`.
    """
    if _is_carrier(port, value):
        array: Array = value
        return array
    where = where or Label(f"input '{port.name}'", input=port.name)
    array = _as_array(where, port, value)
    if not port.shape.contains(array.shape):
        raise InputError(f"expected shape {port.shape}, got {list(array.shape)}", where)
    return np.ascontiguousarray(_converted(where, port.element_type, array)).reshape(array.shape)


def _is_carrier(port: ModelPort, value: Any) -> bool:
    """Whether the value is the very array that the input takes, as nearly all are."""
    kind = port.element_type
    return (
        type(value) is np.ndarray
        and kind.is_native
        and value.dtype == kind.dtype
        and value.flags.c_contiguous
        and port.shape.contains(value.shape)
    )


def _as_array(where: str, port: ModelPort, value: Any) -> Array:
    if type(value) is np.ndarray:
        return value
    try:
        # Python numbers have no width of their own: 0.1 is meant to become the nearest f32, an int
        # must fit.
        literal = not hasattr(value, "dtype") and not hasattr(value, "__array__")
        array = np.asarray(plain(value))
    except (ValueError, TypeError, OverflowError, RuntimeError) as error:
        raise InputError(
            f"expected an array of {port.element_type}, got {type(value).__name__}: {error}", where
        ) from None
    if array.dtype == object and array.ndim == 0 and not isinstance(value, (str, int)):
        hint = (
            ", which is sparse: give its .toarray()"
            if callable(getattr(value, "toarray", None))
            else ""
        )
        raise InputError(
            f"expected an array of {port.element_type}, got {kind_of(value)}{hint}", where
        )
    if literal and array.dtype == np.float64 and array.size == 0:
        return array.astype(
            port.element_type.dtype
        )  # an empty list has no type; NumPy calls it float
    if literal and array.dtype == np.float64 and port.element_type.is_float:
        return array.astype(np.float32 if port.element_type.bits < 64 else np.float64)
    return array


def plain(value: Any) -> Any:
    """The value in a form that NumPy takes without loss: the values of a masked array of which
    nothing is masked, a tensor of torch without its gradient, and bf16 as f32 of the same values.
    Raises ValueError for masked values.
    """
    if is_masked(value):
        masked = np.broadcast_to(value.mask, value.shape)
        if masked.any():
            first = [int(i) for i in np.argwhere(masked)[0]]
            raise ValueError(f"it is masked at {first}: fill it first, by .filled(value)")
        return value.data
    if getattr(value, "requires_grad", False):
        value = value.detach()
    return value.float() if str(getattr(value, "dtype", "")) == "torch.bfloat16" else value


def kind_of(value: Any) -> str:
    """How a message names the type of one Python value."""
    return "None" if value is None else type(value).__name__


def _converted(where: str, target: ElementType, array: Array) -> Array:
    """The array in the carrier of a type, of which each of its elements must be a value."""
    if _is_bf16(target, array):
        codes: Array = array.view(np.uint16)
        if target is ElementType.bf16:
            return codes
        array = (codes.astype(np.uint32) << 16).view(np.float32)
    if target is ElementType.bf16 and array.dtype == np.float32:
        bits = np.ascontiguousarray(array).view(np.uint32)
        if not (bits & np.uint32(0xFFFF)).any():  # all are numbers of bf16
            codes = (bits >> np.uint32(16)).astype(np.uint16)
            return codes
    if target is ElementType.string:
        return _strings(where, array)
    if array.dtype == object:
        raise InputError(f"expected {target}, got Python objects ({_odd_object(array)})", where)
    _check_kind(where, target, array)
    if array.dtype == target.dtype and target.is_native:
        return array
    with np.errstate(all="ignore"):
        if target.is_native:
            cast = array.astype(target.dtype)
            same = unchanged(array, cast)
        else:
            wide = array.astype(np.float64) if target.is_float else array
            cast = encode(wide.astype(np.float32) if target is ElementType.bf16 else wide, target)
            same = unchanged(array, decode(cast, target))
    if not same.all():
        position = tuple(int(i) for i in np.unravel_index(int(np.argmin(same)), same.shape))
        raise InputError(
            f"expected {target}, got {describe_array(array)}, and {array[position]} at "
            f"{list(position)} is not a value of {target}: "
            f"convert the array yourself if the loss is meant{_by_astype(target)}",
            where,
            position=position,
            value=array[position].item(),
        )
    return cast


def _is_bf16(target: ElementType, array: Array) -> bool:
    """Whether an array is of bf16: of ml_dtypes' type, or what is left of it in a .npy file, two
    bytes without a type.
    """
    without_type = array.dtype == np.dtype("V2") and target is ElementType.bf16
    return array.dtype.name == "bfloat16" or without_type


def _check_kind(where: str, target: ElementType, array: Array) -> None:
    """Refuse numbers of a kind that is never converted to the target's: floats are no ids."""
    source = array.dtype.kind
    allowed = {"float": "fiu", "signed": "iu", "unsigned": "iu", "boolean": "b"}[target.kind]
    if source in allowed:
        return
    hint = ""
    if source in "US":
        hint = ", which is text: give numbers, as by np.array(values, float)"
    if source == "f":
        hint = f"; ids and counts are never rounded: convert them yourself{_by_astype(target)}"
        if np.isnan(array).any():
            place = [int(i) for i in np.argwhere(np.isnan(array))[0]]
            hint += (
                f"; there is a NaN at {place}, which is what becomes of a null among "
                "integers: fill it first"
            )
    raise InputError(f"expected {target}, got {describe_array(array)}{hint}", where)


def _by_astype(target: ElementType) -> str:
    """The hint of a message, how to convert to a type; empty where NumPy lacks the type."""
    return f", by .astype(np.{target.dtype.name})" if target.is_native else ""


def _odd_object(array: Array) -> str:
    """What keeps an array of Python objects from being one of numbers."""
    for position, element in enumerate(array.reshape(-1)):
        if not isinstance(element, (int, float, np.number)):
            return (
                f"{kind_of(element)} at {[int(i) for i in np.unravel_index(position, array.shape)]}"
            )
    if array.size and all(isinstance(element, int) for element in array.flat):
        return "int, of more than 64 bits" if max(map(abs, array.flat)) >= 2**63 else "int"
    return type(array.flat[0]).__name__ if array.size else "none"


def unchanged(before: Array, after: Array) -> Array:
    """Whether two arrays hold the same numbers element by element (or both NaN); integers and
    floats are compared without rounding either.
    """
    same: Array
    if before.dtype.kind in "iu" and after.dtype.kind == "f":
        back = after.astype(np.float64)
        limit = 2.0**63 if before.dtype.kind == "i" else 2.0**64
        inside = (back < limit) & (back >= (-limit if before.dtype.kind == "i" else 0.0))
        same = (
            inside
            & (np.trunc(back) == back)
            & (np.where(inside, back, 0).astype(before.dtype) == before)
        )
    elif before.dtype.kind != after.dtype.kind:
        # Signed against unsigned: the bits agree and neither is negative.
        same = (after.astype(before.dtype) == before) & (before >= 0) & (after >= 0)
    elif before.dtype.kind == "f":
        same = (before == after) | (np.isnan(before) & np.isnan(after))
    else:
        same = before == after
    return same


def _strings(where: str, array: Array) -> Array:
    if array.dtype.kind == "S":
        try:
            texts = [text.decode("utf-8") for text in array.reshape(-1).tolist()]
        except UnicodeDecodeError as error:
            raise InputError(
                f"expected text in UTF-8, got {error.object!r} ({error.reason} at byte "
                f"{error.start})",
                where,
            ) from None
        array = np.array(texts, object).reshape(array.shape)
    if array.dtype.kind not in "UOT":
        raise InputError(f"expected strings, got {describe_array(array)}", where)
    values = array.astype(object)
    for position, value in enumerate(values.reshape(-1)):
        if not isinstance(value, str):
            raise InputError(
                f"expected strings, got {type(value).__name__} at element {position}", where
            )
    return values


def present(element_type: ElementType, array: Array) -> Array:
    """A carrier array as a caller sees it: floats that NumPy lacks as float32 (every value exact),
    strings as `<U`.

    Strings that end in NUL, which NumPy's `<U` would cut, stay an object array.
    """
    if element_type is ElementType.string:
        plain = array.astype(str)
        return plain if (plain == array).all() else array
    return decode(array, element_type)


def shown(ports: Sequence[ModelPort], arrays: Iterable[Array]) -> list[Array]:
    """Carrier arrays of ports as a caller sees them."""
    return [present(port.element_type, array) for port, array in zip(ports, arrays, strict=True)]


def carriers(ports: Sequence[ModelPort], values: Iterable[Any]) -> list[Array]:
    """The carrier arrays of what a caller gives for all inputs."""
    return [accept(port, value) for port, value in zip(ports, values, strict=True)]


def owned(arrays: Sequence[Any], inputs: Sequence[Any]) -> list[Any]:
    """The arrays as the caller's own, in C order: a view, an input, or what comes twice is
    copied.
    """
    seen = set(map(id, inputs))
    result: list[Any] = []
    for array in arrays:
        is_own = array.base is None and id(array) not in seen and array.flags.c_contiguous
        result.append(array if is_own else array.copy())
        seen.add(id(array))
    return result

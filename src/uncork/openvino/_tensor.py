"""`Tensor`: an array with an element type, shared with the caller or its own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from uncork import storage
from uncork.openvino._attribute import attribute
from uncork.openvino._errors import invalid
from uncork.openvino._shapes import Shape, Strides
from uncork.openvino._types import Type, element_of, of_element, type_of_dtype
from uncork.types import Array, ElementType


class Tensor:
    """A tensor.

    `Tensor(array)` copies, `Tensor(array, shared_memory=True)` reads and writes the very array.
    `Tensor(Type.f32, [1, 3])` is a new one; `Tensor(array, shape, Type.u4)` are the bytes of one,
    and `Tensor(other, [0, 0], [1, 2])` is a part of another.
    """

    def __init__(self, *args: Any, **named: Any) -> None:
        for key, position in (("array", 0), ("type", 0), ("other", 0), ("list", 0), ("image", 0)):
            if key in named:
                args = (*args[:position], named.pop(key), *args[position:])
        for key in ("shape", "begin", "end"):
            if key in named:
                args = (*args, named.pop(key))
        if "type" in named:
            args = (*args, named.pop("type"))
        shared = bool(named.pop("shared_memory", False))
        if named:
            raise TypeError(f"Tensor has no argument '{next(iter(named))}'")
        if not args:
            raise TypeError("Tensor: expected an array, or a type and a shape")
        self._element: ElementType
        self._shape: tuple[int, ...]
        #: The values; of types of less than a byte, the bytes of the file.
        self._array: Array
        #: Whether a program may have this very memory, by `data`.
        self.is_seen = False
        #: Whether the memory is that of a result which a program was given.
        self.is_lent = False
        first, *rest = args
        if isinstance(first, bool) and rest:  # of old programs: Tensor(array, False)
            raise TypeError("Tensor: expected an array, or a type and a shape, got a bool")
        if isinstance(first, Tensor):
            self._part_of(first, *rest)
        elif isinstance(first, Type) or (isinstance(first, (type, np.dtype)) and rest):
            self._blank(element_of(first), rest[0] if rest else ())
        elif hasattr(first, "get_element_type") and hasattr(first, "get_shape"):
            shape = first.get_partial_shape()  # of a port; open ones have a tensor without values
            self._blank(
                element_of(first.get_element_type()),
                (0,) if shape.is_dynamic else shape.get_shape(),
            )
        elif rest and isinstance(rest[0], bool):
            self._of_array(first, rest[0])
        elif rest:
            self._of_bytes(first, *rest)
        else:
            self._of_array(first, shared)

    def _blank(self, element: ElementType, shape: Any) -> None:
        sizes = tuple(int(size) for size in shape)
        self._element, self._shape = element, sizes
        if element is ElementType.string:
            self._array = np.full(sizes, "", object)
        elif element.is_packed:
            self._array = np.zeros(storage.packed_size(element, math.prod(sizes)), np.uint8)
        else:
            self._array = np.zeros(sizes, of_element(element).to_dtype())

    def _of_array(self, value: Any, shared: bool) -> None:
        if not isinstance(value, np.ndarray):
            ways = ("__array__", "__array_interface__")
            if not isinstance(value, (list, np.generic)) and not any(
                hasattr(value, w) for w in ways
            ):
                raise TypeError(
                    "Tensor: expected an array of NumPy, an image of Pillow or a list, got "
                    f"{type(value).__name__}"
                )
            value = np.asarray(value)
        kind = type_of_dtype(value.dtype)
        self._element, self._shape = element_of(kind), value.shape
        if self._element is ElementType.string:
            if shared:
                raise invalid("a tensor of strings cannot share memory: it has a copy")
            self._array = _texts(value)
        elif shared:
            if not value.flags.c_contiguous:
                raise invalid("memory can be shared of arrays that are C-contiguous only")
            self._array = value.view(np.float16) if value.dtype.name == "bfloat16" else value
        else:
            value = np.array(value, order="C")
            self._array = value.view(np.float16) if value.dtype.name == "bfloat16" else value

    def _of_bytes(self, value: Any, shape: Any, kind: Any = None) -> None:
        array = np.ascontiguousarray(value)
        self._element = element_of(array.dtype if kind is None else kind)
        self._shape = tuple(int(size) for size in shape)
        if self._element.is_packed:
            self._array = array.reshape(-1).view(np.uint8)
            needed = storage.packed_size(self._element, math.prod(self._shape))
        else:
            self._array = array.reshape(-1).view(of_element(self._element).to_dtype())
            needed = math.prod(self._shape)
        if self._array.size < needed:
            raise invalid(f"expected {needed} elements for {Shape(self._shape)}, got {array.size}")
        self._array = self._array[:needed]
        if not self._element.is_packed:
            self._array = self._array.reshape(self._shape)

    def _part_of(self, other: Tensor, begin: Any = None, end: Any = None) -> None:
        self._element, self._shape, self._array = other._element, other._shape, other._array
        if begin is not None:
            cut = tuple(slice(a, b) for a, b in zip(begin, end, strict=True))
            self._array = self._array[cut]
            self._shape = self._array.shape

    @staticmethod
    def of_carrier(element: ElementType, array: Array) -> Tensor:
        """A tensor of what a call of uncork gave; the array is not copied."""
        made = object.__new__(Tensor)
        made._element, made.is_seen, made.is_lent = element, False, False
        made._put(array)
        return made

    def _put(self, array: Array) -> None:
        """Have the values that a call of uncork gave."""
        self._shape = array.shape
        if self._element is ElementType.string:
            self._array = array.astype(object)
        elif self._element is ElementType.bf16:
            self._array = storage.encode(array, self._element).view(np.float16)
        elif self._element.is_packed:
            codes = storage.encode(array, self._element)
            packed = storage.pack(np.ascontiguousarray(codes), self._element)
            self._array = np.frombuffer(bytes(packed), np.uint8)
        elif self._element.is_native:
            self._array = array
        else:
            self._array = storage.encode(array, self._element)

    def values(self) -> Array:
        """The values as a call of uncork takes them: bf16 and smaller floats as f32."""
        if self._element is ElementType.bf16:
            return storage.decode(np.ascontiguousarray(self._array).view(np.uint16), self._element)
        if self._element.is_packed:
            flat = storage.unpack(
                memoryview(self._array.tobytes()), self._element, math.prod(self._shape)
            )
            return storage.decode(flat.reshape(self._shape), self._element)
        if self._element.is_native or self._element is ElementType.string:
            return self._array
        return storage.decode(self._array, self._element)

    @property
    def data(self) -> Array:
        """The array itself: what is written there is in the tensor. Of strings, a copy of bytes."""
        if self.is_lent:  # the next call writes into what is seen
            self._array, self.is_lent = self._array.copy(), False
        self.is_seen = True
        return self.bytes_data if self._element is ElementType.string else self._array

    @property
    def str_data(self) -> Array:
        """A copy of the strings."""
        self._refuse_numbers()
        return self._array.astype(str)

    @str_data.setter
    def str_data(self, value: Any) -> None:
        self._set_texts(value)

    @property
    def bytes_data(self) -> Array:
        """A copy of the strings, as UTF-8."""
        self._refuse_numbers()
        encoded = [text.encode() for text in self._array.reshape(-1)]
        return np.array(encoded, "S").reshape(self._shape)

    @bytes_data.setter
    def bytes_data(self, value: Any) -> None:
        self._set_texts(value)

    def _refuse_numbers(self) -> None:
        if self._element is not ElementType.string:
            raise invalid(f"expected a tensor of strings, got one of {self._element}: ask .data")

    def _set_texts(self, value: Any) -> None:
        self._refuse_numbers()
        texts = _texts(np.asarray(value))
        if texts.shape != self._shape:
            raise invalid(f"expected strings of shape {Shape(self._shape)}, got {texts.shape}")
        self._array = texts

    def get_element_type(self) -> Type:
        """The element type."""
        return of_element(self._element)

    element_type = attribute(get_element_type)

    def get_shape(self) -> Shape:
        """The shape."""
        return Shape(self._shape)

    def set_shape(self, shape: Any) -> None:
        """Have another shape. What fits stays in the memory; a larger one has contents of its
        own.
        """
        sizes = tuple(int(size) for size in shape)
        if sizes == self._shape:
            return
        if not self._element.is_packed and math.prod(sizes) <= self._array.size:
            self._array = self._array.reshape(-1)[: math.prod(sizes)].reshape(sizes)
            self._shape = sizes
        else:
            self._blank(self._element, sizes)

    shape = attribute(get_shape, set_shape)

    def get_size(self) -> int:
        """The number of elements."""
        return math.prod(self._shape)

    size = attribute(get_size)

    def get_byte_size(self) -> int:
        """Bytes of the values."""
        if self._element is ElementType.string:
            return 32 * self.size
        return int(self._array.nbytes)

    byte_size = attribute(get_byte_size)

    def get_strides(self) -> Strides:
        """Bytes from one element to the next, along each axis."""
        if self._element.is_packed:
            raise invalid(f"elements of {self._element} share bytes: there are no strides")
        return Strides(self._array.strides)

    strides = attribute(get_strides)

    def is_continuous(self) -> bool:
        """Whether the elements lie one behind the other."""
        return bool(self._array.flags.c_contiguous)

    def copy_to(self, target: Tensor) -> None:
        """Write the values into another tensor, which takes this one's shape."""
        if not isinstance(target, Tensor):
            raise TypeError(f"expected a Tensor, got {type(target).__name__}")
        if target._element is not self._element:
            raise invalid(f"expected a tensor of {self._element}, got one of {target._element}")
        target.set_shape(self._shape)
        np.copyto(target._array, self._array)

    def copy_from(self, source: Any) -> None:
        """Take over the values, and the shape, of another tensor or array."""
        (source if isinstance(source, Tensor) else Tensor(source)).copy_to(self)

    def __array__(self, dtype: Any = None, copy: Any = None) -> Array:
        array = self.str_data if self._element is ElementType.string else self._array
        return np.array(array, dtype, copy=True) if dtype is not None or copy else array

    def __repr__(self) -> str:
        return f"<Tensor: shape{Shape(self._shape)} type: {self._element}>"


def _texts(array: Array) -> Array:
    """Strings as an array of `str`."""
    flat = [t.decode() if isinstance(t, bytes) else str(t) for t in array.reshape(-1).tolist()]
    made = np.empty(len(flat), object)
    made[:] = flat
    return made.reshape(array.shape)


def input_tensor(value: Any, element: ElementType, shared: bool) -> Tensor:
    """The tensor that a call is given, as OpenVINO converts it: numbers of another type become
    those of the input's, but for integers that would change.
    """
    if isinstance(value, Tensor):
        return value
    if getattr(value, "requires_grad", False):
        value = value.detach()
    array = np.asarray(value)
    kind = of_element(element)
    if element is ElementType.string or array.dtype.kind in "USO":
        return Tensor(array)
    if element is ElementType.bf16:
        bits = array.dtype == np.float16 or array.dtype.name == "bfloat16"
        if bits:
            return Tensor(np.array(array).view(np.float16).reshape(-1), array.shape, kind)
        return Tensor.of_carrier(element, array.astype(np.float32))
    if element.is_packed:
        return Tensor.of_carrier(element, array)
    if element.dtype != array.dtype and (element.is_float or array.dtype.kind == "b"):
        with np.errstate(all="ignore"):
            array, shared = array.astype(element.dtype), True
    if element.dtype != array.dtype and element.is_integer and array.dtype.kind in "iuf":
        with np.errstate(all="ignore"):
            cast = array.astype(element.dtype)
        if np.array_equal(cast.astype(array.dtype), array):
            array, shared = cast, True
        # What does not fit is left to the call, which names the number.
    if element is ElementType.boolean and array.dtype.kind in "iuf":
        array, shared = array != 0, True
    return Tensor(array, shared_memory=shared and array.flags.c_contiguous)

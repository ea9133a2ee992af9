"""Complex numbers of torch, while a module is followed: two tensors of real ones, which the
functions of torch are applied to. torch's exporter has no complex numbers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from uncork.errors import UnsupportedError
from uncork.onnx.torch_fourier import Fourier


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Functions that do the same with the real and with the imaginary parts.
_EACH = _words(
    "broadcast_to cat chunk clone concat concatenate contiguous cumsum detach diag_embed diagonal"
    " dsplit dstack expand flatten flip fliplr flipud gather getitem hsplit hstack"
    " index_select mean moveaxis movedim narrow neg pad permute ravel repeat"
    " repeat_interleave reshape resolve_conj resolve_neg roll rot90 select setitem split squeeze"
    " stack sum swapaxes swapdims t take_along_dim tensor_split tile transpose tril triu unbind"
    " unflatten unfold unsqueeze view vsplit vstack where zeros_like"
)
#: Those of them whose results are no parts of what is given.
_FRESH = _words(
    "cat clone concat concatenate cumsum diag_embed dstack flip fliplr flipud gather hstack"
    " index_select mean neg pad repeat repeat_interleave roll rot90 stack sum take_along_dim tile"
    " tril triu vstack where zeros_like"
)
#: Functions of which the product of two is the product of what they are of.
_PRODUCTS = _words("bmm kron linear matmul mm mul mv outer tensordot")
#: Other names of functions.
_ALSO = {
    "absolute": "abs",
    "conj_physical": "conj",
    "div": "truediv",
    "divide": "truediv",
    "inverse_rfft": "irfft",
    "multiply": "mul",
    "negative": "neg",
    "subtract": "sub",
    "true_divide": "truediv",
}
#: Functions of real numbers that may give complex ones.
_MAKERS = _words(
    "as_tensor cdouble cfloat complex empty fft fft2 fftn fftshift ifft ifft2 ifftn ifftshift irfft"
    " irfft2 irfftn istft ones polar rfft rfft2 rfftn stft tensor to type view_as_complex zeros"
)


class Complex:
    """A tensor of complex numbers: its real and its imaginary parts."""

    def __init__(self, numbers: _Numbers, real: Any, imag: Any, is_part: bool = False) -> None:
        """`is_part`: of other numbers, as torch has views."""
        self.numbers, self.real, self.imag, self.is_part = numbers, real, imag, is_part

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, arguments: Any = (), options: Any = None
    ) -> Any:
        raise UnsupportedError(
            f"{_name_of(function)} of complex numbers outside of what is followed", "from_torch"
        )

    @property
    def dtype(self) -> Any:
        return self.numbers.kinds[self.real.dtype]

    @property
    def shape(self) -> Any:
        return self.real.shape

    def __len__(self) -> int:
        return len(self.real)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.unbind(0))

    def __getattr__(self, name: str) -> Any:
        tensor = self.numbers.torch.Tensor
        if name in ("T", "mT", "H", "mH"):
            rank = self.real.dim()
            turned = self.transpose(-2, -1) if rank > 1 and name != "T" else self
            turned = self.permute(*range(rank)[::-1]) if name == "T" else turned
            return turned.conj() if "H" in name else turned
        if name in ("ndim", "device", "size", "dim", "numel", "ndimension", "layout", "nelement"):
            return getattr(self.real, name)
        method = getattr(tensor, name)
        return lambda *arguments, **options: self.numbers.called(
            method, (self, *arguments), options
        )


def _operator(name: str) -> Callable[..., Any]:
    def made(self: Complex, *arguments: Any) -> Any:
        method = getattr(self.numbers.torch.Tensor, name)
        return self.numbers.called(method, (self, *arguments), {})

    return made


for _name in _words(
    "abs add getitem iadd imul isub itruediv matmul mul neg pow radd rmatmul rmul rsub rtruediv"
    " setitem sub truediv"
):
    setattr(Complex, f"__{_name}__", _operator(f"__{_name}__"))


@contextlib.contextmanager
def complex_numbers(torch: Any) -> Iterator[None]:
    """Functions of torch take and give complex numbers as pairs, as long as this is entered."""
    numbers = _Numbers(torch)

    class Mode(torch.overrides.TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(
            self, function: Any, types: Any, arguments: Any = (), options: Any = None
        ) -> Any:
            options = options or {}
            if torch.jit.is_tracing() and numbers.are_in(function, arguments, options):
                return numbers.called(function, arguments, options)
            return function(*arguments, **options)

    with Mode():
        yield


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", str(function))
    if name == "__get__":
        name = function.__self__.__name__
    return str(name).strip("_").removeprefix("fft_")


class _Numbers(Fourier):
    """What functions make of complex numbers. Each method `c_name` is one that is not the same for
    both parts.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.kinds = {
            torch.float16: torch.complex32,
            torch.float32: torch.complex64,
            torch.float64: torch.complex128,
        }
        self.parts_of = {kind: part for part, kind in self.kinds.items()}
        self._constants: dict[int, tuple[Any, Complex]] = {}

    # ---- which calls are of complex numbers

    def are_in(self, function: Any, arguments: Sequence[Any], options: dict[str, Any]) -> bool:
        given = [*arguments, *options.values()]
        given += [each for one in given if isinstance(one, (list, tuple)) for each in one]
        if any(map(self._is_complex, given)):
            return True
        name = _name_of(function)
        if name not in _MAKERS:
            return False
        if name in ("to", "type", "empty", "zeros", "ones"):
            return any(one in self.parts_of for one in given if isinstance(one, self.torch.dtype))
        return name not in ("tensor", "as_tensor")

    def _is_complex(self, value: Any) -> bool:
        if isinstance(value, (Complex, complex)):
            return True
        return isinstance(value, self.torch.Tensor) and value.is_complex()

    def pair(self, value: Any) -> Any:
        """A number or a tensor that is complex as a pair; others as they are."""
        if isinstance(value, complex):
            return Complex(self, value.real, value.imag)
        if isinstance(value, Complex) or not self._is_complex(value):
            return value
        if id(value) not in self._constants:
            with self._not_followed():
                made = Complex(self, value.detach().real.clone(), value.detach().imag.clone())
            self._constants[id(value)] = value, made
        return self._constants[id(value)][1]

    @contextlib.contextmanager
    def _not_followed(self) -> Iterator[None]:
        state = self.torch._C._get_tracing_state()
        self.torch._C._set_tracing_state(None)
        try:
            yield
        finally:
            self.torch._C._set_tracing_state(state)

    def called(self, function: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """What a function makes of complex numbers."""
        name = _name_of(function)
        own = getattr(function, "__name__", "")
        in_place = not own.startswith("__") and own.endswith("_")
        if own in ("__iadd__", "__isub__", "__imul__", "__itruediv__"):
            in_place, name = True, name.removeprefix("i")
        if not in_place or name == "setitem":
            return self._made_by(name, function, arguments, options)
        plain = getattr(self.torch.Tensor, {"truediv": "div"}.get(name, name))
        made = self._made_by(name, plain, arguments, options)
        return self._put(arguments[0], made)

    def _own(self, given: Complex) -> None:
        """Refuse to change a part of other numbers: the exporter would lose that."""
        if given.is_part:
            raise UnsupportedError(
                "a part of complex numbers is changed in its place: write what is changed by an "
                "index on the left side, or make a tensor of its own",
                "from_torch",
            )

    def _put(self, given: Any, made: Complex) -> Any:
        """The first number has the second one's values from here on."""
        if not isinstance(given, Complex):
            raise UnsupportedError("a real tensor takes complex numbers", "from_torch")
        self._own(given)
        given.real, given.imag = made.real, made.imag
        return given

    def _made_by(
        self, name: str, function: Any, arguments: Sequence[Any], options: dict[str, Any]
    ) -> Any:
        given = [self._pairs(value) for value in arguments]
        named = {key: self._pairs(value) for key, value in options.items()}
        if name in ("tensor", "as_tensor"):
            with self._not_followed():
                made = function(*arguments, **options)
            return self.pair(made)
        method = getattr(self, f"c_{_ALSO.get(name, name)}", None)
        if method is not None:
            return method(*given, **named)
        if name in _PRODUCTS:
            return self._product(function, given, named)
        if name in _EACH:
            return self.each(function, given, named)
        raise UnsupportedError(
            f"{name} of complex numbers is not supported: write that part of the module by real "
            "numbers",
            "from_torch",
        )

    def _pairs(self, value: Any) -> Any:
        if isinstance(value, (list, tuple)) and any(map(self._is_complex, value)):
            return [self.pair(one) for one in value]
        return self.pair(value)

    def each(self, function: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        """What a function makes of the real parts, and of the imaginary ones."""
        name = _name_of(function)
        if name == "setitem" and isinstance(arguments[0], Complex):
            self._own(arguments[0])
        data = name in ("where", "setitem", "cat", "stack", "concat", "hstack", "vstack")

        def part(value: Any, which: str) -> Any:
            if isinstance(value, Complex):
                return getattr(value, which)
            if isinstance(value, (list, tuple)) and any(isinstance(one, Complex) for one in value):
                return [part(one, which) if self._is_number(one) else one for one in value]
            if which == "imag" and data and self._is_number(value):
                return value * 0
            return value

        first = 1 if name == "where" else 2 if name == "setitem" else 0
        results = [
            function(
                *[
                    getattr(value, which)
                    if isinstance(value, Complex)
                    else value
                    if place < first
                    else part(value, which)
                    for place, value in enumerate(arguments)
                ],
                **{
                    key: value if key in ("dim", "axis") else part(value, which)
                    for key, value in options.items()
                },
            )
            for which in ("real", "imag")
        ]
        shared = name not in _FRESH
        if isinstance(results[0], (list, tuple)):
            pairs = zip(*results, strict=True)
            return tuple(Complex(self, real, imag, shared) for real, imag in pairs)
        real, imag = results
        return None if real is None else Complex(self, real, imag, shared)

    def _is_number(self, value: Any) -> bool:
        if isinstance(value, self.torch.Tensor):
            return bool(value.dtype.is_floating_point)
        return isinstance(value, (Complex, float))

    # ---- arithmetic

    def _both(self, a: Any, b: Any) -> tuple[Any, Any, Any, Any]:
        """The parts of two numbers; that of a real one is None."""
        return *self._parts(a), *self._parts(b)

    def _parts(self, a: Any) -> tuple[Any, Any]:
        return (a.real, a.imag) if isinstance(a, Complex) else (a, None)

    def _made(self, real: Any, imag: Any) -> Any:
        """A pair of which both parts are tensors of one shape."""
        torch = self.torch
        if not isinstance(real, torch.Tensor) and not isinstance(imag, torch.Tensor):
            return Complex(self, real, imag)
        if not isinstance(real, torch.Tensor):
            real = torch.zeros_like(imag) + real
        if not isinstance(imag, torch.Tensor):
            imag = torch.zeros_like(real) + imag
        with self._not_followed():
            alike = real.shape == imag.shape
        if not alike:
            real, imag = torch.broadcast_tensors(real, imag)
        return Complex(self, real, imag)

    def c_add(self, a: Any, b: Any, alpha: Any = 1) -> Any:
        if alpha != 1:
            b = self._times(b, alpha)
        ar, ai, br, bi = self._both(a, b)
        return self._made(ar + br, self._beside(a, ai) + self._beside(b, bi))

    c_radd = c_add

    def c_sub(self, a: Any, b: Any, alpha: Any = 1) -> Any:
        return self.c_add(a, self._times(b, -alpha))

    def _beside(self, a: Any, imag: Any) -> Any:
        """The imaginary part of a number: zeros of a real one."""
        if imag is not None:
            return imag
        return self.torch.zeros_like(a) if isinstance(a, self.torch.Tensor) and a.dim() else 0

    def c_rsub(self, a: Any, b: Any) -> Any:
        return self.c_sub(b, a)

    def c_rmul(self, a: Any, b: Any) -> Any:
        return self._times(a, b)

    def _times(self, a: Any, b: Any) -> Any:
        return self._product(lambda x, y: x * y, (a, b), {})

    def c_rmatmul(self, a: Any, b: Any) -> Any:
        return self._product(self.torch.matmul, (b, a), {})

    def _product(self, function: Any, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        a, b, *more = arguments
        if function is self.torch.Tensor.__mul__ or _name_of(function) == "mul":
            function = lambda x, y: x * y  # noqa: E731 -- of numbers, too
        ar, ai, br, bi = self._both(a, b)

        def of(x: Any, y: Any) -> Any:
            return function(x, y, *more, **options)

        if ai is None:
            return of(ar, br) if bi is None else self._made(of(ar, br), of(ar, bi))
        if bi is None:
            return self._made(of(ar, br), of(ai, br))
        return self._made(of(ar, br) - of(ai, bi), of(ar, bi) + of(ai, br))

    def c_einsum(self, equation: Any, *operands: Any) -> Any:
        torch = self.torch
        if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
            operands = tuple(operands[0])
        complex_ones = [n for n, one in enumerate(operands) if isinstance(one, Complex)]

        def of(which: Sequence[str]) -> Any:
            chosen = dict(zip(complex_ones, which, strict=True))
            parts = [
                getattr(one, chosen[n]) if n in chosen else one for n, one in enumerate(operands)
            ]
            return torch.einsum(equation, *parts)

        if len(complex_ones) == 1:
            return Complex(self, of(["real"]), of(["imag"]))
        if len(complex_ones) == 2:
            real = of(["real", "real"]) - of(["imag", "imag"])
            return Complex(self, real, of(["real", "imag"]) + of(["imag", "real"]))
        raise UnsupportedError("einsum of more than two complex tensors", "from_torch")

    def c_truediv(self, a: Any, b: Any) -> Any:
        if not isinstance(b, Complex):
            return self._made(a.real / b, a.imag / b)
        scale = b.real * b.real + b.imag * b.imag
        upper = self._times(a, self.c_conj(b))
        return self._made(upper.real / scale, upper.imag / scale)

    def c_rtruediv(self, a: Any, b: Any) -> Any:
        return self.c_truediv(b, a)

    def c_reciprocal(self, a: Any) -> Any:
        return self.c_truediv(1.0, a)

    def c_pow(self, a: Any, exponent: Any) -> Any:
        if isinstance(a, Complex) and isinstance(exponent, int) and 1 <= exponent <= 8:
            made = a
            for _ in range(exponent - 1):
                made = self._times(made, a)
            return made
        return self.c_exp(self._times(self.c_log(a), exponent))

    def c_square(self, a: Any) -> Any:
        return self._times(a, a)

    def c_conj(self, a: Any) -> Any:
        return Complex(self, a.real, -a.imag)

    def c_exp(self, a: Any) -> Any:
        size = self.torch.exp(a.real)
        return Complex(self, size * self.torch.cos(a.imag), size * self.torch.sin(a.imag))

    def c_log(self, a: Any) -> Any:
        return Complex(self, self.torch.log(self.c_abs(a)), self.c_angle(a))

    # ---- from and to real numbers

    def c_abs(self, a: Any) -> Any:
        return self.torch.sqrt(a.real * a.real + a.imag * a.imag)

    def c_angle(self, a: Any) -> Any:
        return self.torch.atan2(a.imag, a.real)

    def c_real(self, a: Any) -> Any:
        return a.real

    def c_imag(self, a: Any) -> Any:
        return a.imag

    def c_is_complex(self, a: Any) -> bool:
        return True

    def c_is_floating_point(self, a: Any) -> bool:
        return False

    def c_view_as_real(self, a: Any) -> Any:
        return self.torch.stack((a.real, a.imag), -1)

    def c_view_as_complex(self, a: Any) -> Any:
        return Complex(self, a[..., 0], a[..., 1])

    def c_complex(self, real: Any, imag: Any) -> Any:
        made = self._made(real, imag)  # which may be changed, and they not
        return Complex(self, made.real.clone(), made.imag.clone())

    def c_polar(self, size: Any, angle: Any) -> Any:
        torch = self.torch
        return self._made(size * torch.cos(angle), size * torch.sin(angle))

    def c_to(self, a: Any, *arguments: Any, **options: Any) -> Any:
        given = [*arguments, *options.values()]
        kinds = [self.parts_of.get(one, one) for one in given if isinstance(one, self.torch.dtype)]
        kinds += [self.pair(one).real.dtype for one in given if self._is_complex(one)]
        if not isinstance(a, Complex):
            real = a.to(kinds[0])
            return Complex(self, real, self.torch.zeros_like(real))
        if not kinds:
            return a
        if kinds[0] in given:  # a real type: the real parts, as torch has it
            return a.real.to(kinds[0])
        return Complex(self, a.real.to(kinds[0]), a.imag.to(kinds[0]))

    c_type = c_to

    def c_cfloat(self, a: Any) -> Any:
        return self.c_to(a, self.torch.complex64)

    def c_cdouble(self, a: Any) -> Any:
        return self.c_to(a, self.torch.complex128)

    def c_zeros(self, *sizes: Any, dtype: Any = None, **options: Any) -> Any:
        zeros = [self.torch.zeros(*sizes, dtype=self.parts_of[dtype]) for _ in range(2)]
        return Complex(self, *zeros)

    c_empty = c_zeros

    def c_ones(self, *sizes: Any, dtype: Any = None, **options: Any) -> Any:
        made = self.c_zeros(*sizes, dtype=dtype)
        return Complex(self, made.real + 1, made.imag)

    def c_zeros_like(self, a: Any, dtype: Any = None, **options: Any) -> Any:
        return Complex(self, self.torch.zeros_like(a.real), self.torch.zeros_like(a.imag))

"""Functions of torch that compute element by element, or of a few elements, and that its exporter
refuses or writes wrong: see `torch_functions`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from uncork.errors import UnsupportedError

#: Of Stirling's series of the logarithm of the gamma function, the last first.
_STIRLING = (-691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12)


class Values:
    """Each method is a function of torch, with its arguments. What torch has under its name before
    is `before`.
    """

    torch: Any
    before: Callable[[str], Any]

    # ---- which the exporter writes wrong

    def floor_divide(self, input: Any, other: Any) -> Any:
        """Torch writes what is rounded to 0. Sizes, which are single whole numbers, are not below
        it.
        """
        tensors = [each for each in (input, other) if isinstance(each, self.torch.Tensor)]
        if not any(each.dim() or self._floating(each) for each in tensors):
            return self.before("floor_divide")(input, other)
        if not isinstance(input, self.torch.Tensor):
            kept = self._floating(other) or not self._floating(input)
            input = self.torch.full((), input, dtype=other.dtype if kept else None)
        return self.torch.div(input, other, rounding_mode="floor")

    def bitwise_right_shift(self, input: Any, other: Any) -> Any:
        """Torch writes what is rounded to 0."""
        torch = self.torch
        unit = torch.ones_like(other) << other if isinstance(other, torch.Tensor) else 1 << other
        return torch.div(input, unit, rounding_mode="floor")

    __rshift__ = bitwise_right_shift

    def bitwise_and(self, input: Any, other: Any) -> Any:
        return self._of_bits("bitwise_and", input, other)

    def bitwise_or(self, input: Any, other: Any) -> Any:
        return self._of_bits("bitwise_or", input, other)

    def bitwise_xor(self, input: Any, other: Any) -> Any:
        return self._of_bits("bitwise_xor", input, other)

    def bitwise_not(self, input: Any) -> Any:
        return self.before("bitwise_not")(input)

    __and__, __or__, __xor__, __invert__ = bitwise_and, bitwise_or, bitwise_xor, bitwise_not

    def _of_bits(self, name: str, first: Any, second: Any) -> Any:
        """Of numbers in the type of the result: torch writes those of truths alone."""
        torch = self.torch
        kind = torch.result_type(first, second)
        numbers = (
            torch.full((), each, dtype=kind)
            if not isinstance(each, torch.Tensor)
            else each
            if each.dtype == kind
            else each.to(kind)
            for each in (first, second)
        )
        return self.before(name)(*numbers)

    def any(self, input: Any, *axes: Any, **options: Any) -> Any:
        """Torch writes that the sum of the whole parts is above 0."""
        return self.before("any")(self._as_truth(input), *axes, **options)

    def all(self, input: Any, *axes: Any, **options: Any) -> Any:
        return self.before("all")(self._as_truth(input), *axes, **options)

    def _as_truth(self, data: Any) -> Any:
        return data if data.dtype == self.torch.bool else data != 0

    def full(self, size: Any, fill_value: Any, *, dtype: Any = None, **options: Any) -> Any:
        """Torch writes floats where only the number tells the type."""
        torch = self.torch
        if dtype is None and isinstance(fill_value, (bool, int)):
            dtype = torch.bool if isinstance(fill_value, bool) else torch.int64
            fill_value = int(fill_value)
        return self.before("full")(size, fill_value, dtype=dtype, **options)

    def cdist(self, x1: Any, x2: Any, p: float = 2.0, compute_mode: Any = None) -> Any:
        apart = x1.unsqueeze(-2) - x2.unsqueeze(-3)
        return self.torch.linalg.vector_norm(apart, p, -1)

    def pairwise_distance(
        self, x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
    ) -> Any:
        return self.torch.linalg.vector_norm(x1 - x2 + eps, p, -1, keepdim=keepdim)

    def softplus(self, input: Any, beta: float = 1, threshold: float = 20) -> Any:
        """Torch writes no threshold; from 20 on it is none in f32."""
        made = self.before("softplus")(input, beta)
        if threshold >= 20:
            return made
        return self.torch.where(input * beta > threshold, input, made)

    def avg_pool2d(self, input: Any, kernel_size: Any, *more: Any, **options: Any) -> Any:
        return self._averaged(2, input, kernel_size, *more, **options)

    def avg_pool3d(self, input: Any, kernel_size: Any, *more: Any, **options: Any) -> Any:
        return self._averaged(3, input, kernel_size, *more, **options)

    def _averaged(
        self,
        rank: int,
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: Any = None,
    ) -> Any:
        """Torch writes no divisor of one's own."""
        name = f"avg_pool{rank}d"
        options: dict[str, Any] = {"padding": padding, "ceil_mode": ceil_mode}
        if divisor_override is None:
            options["count_include_pad"] = count_include_pad
            return self.before(name)(input, kernel_size, stride, **options)
        UnsupportedError.when(
            ceil_mode,
            f"{name} with ceil_mode and a divisor_override is not supported: pad before it",
            "from_torch",
        )
        sides = (kernel_size,) * rank if isinstance(kernel_size, int) else tuple(kernel_size)
        made = self.before(name)(input, kernel_size, stride, **options)
        return made * (math.prod(sides * (rank if len(sides) == 1 else 1)) / divisor_override)

    def atan2(self, input: Any, other: Any) -> Any:
        """Torch writes a NaN for two zeros, and -pi for 0 and what is negative."""
        torch = self.torch
        y, x = (self._real(each) for each in (input, other))
        angle = (y.abs() / x.abs()).atan()
        angle = torch.where((y == 0) & (x == 0), torch.zeros_like(angle), angle)
        alike = y.isinf() & x.isinf()
        angle = torch.where(alike, torch.full_like(angle, math.pi / 4), angle)
        angle = torch.where(self.signbit(x), math.pi - angle, angle)
        return torch.where(self.signbit(y), -angle, angle)

    arctan2 = atan2

    # ---- which it refuses

    def _floating(self, value: Any) -> bool:
        if isinstance(value, self.torch.Tensor):
            return bool(value.dtype.is_floating_point)
        return isinstance(value, float)

    def _real(self, value: Any) -> Any:
        return value if self._floating(value) else value.to(self.torch.get_default_dtype())

    def trunc(self, input: Any) -> Any:
        return self.torch.where(input < 0, input.ceil(), input.floor())

    fix = trunc

    def frac(self, input: Any) -> Any:
        return input - self.trunc(input)

    def positive(self, input: Any) -> Any:
        return input

    def sgn(self, input: Any) -> Any:
        return self.torch.where(input != input, self.torch.zeros_like(input), input.sign())

    def signbit(self, input: Any) -> Any:
        """1 / -0 is negative; 1 / -inf is not."""
        return (input < 0) | (1 / input < 0) if self._floating(input) else input < 0

    def copysign(self, input: Any, other: Any) -> Any:
        torch = self.torch
        sign = other if isinstance(other, torch.Tensor) else torch.full((), float(other))
        size = self._real(input).abs()
        return torch.where(self.signbit(sign), -size, size)

    def deg2rad(self, input: Any) -> Any:
        return self._real(input) * (math.pi / 180)

    def rad2deg(self, input: Any) -> Any:
        return self._real(input) * (180 / math.pi)

    def exp2(self, input: Any) -> Any:
        return self.torch.pow(2.0, self._real(input))

    def expm1(self, input: Any) -> Any:
        """Near 0, too, to the last digits."""
        data = self._real(input)
        return (data * 0.5).tanh() * (data.exp() + 1)

    def cosh(self, input: Any) -> Any:
        data = self._real(input)
        return (data.exp() + (-data).exp()) * 0.5

    def sinh(self, input: Any) -> Any:
        return self._real(input).tanh() * self.cosh(input)

    def acosh(self, input: Any) -> Any:
        data = self._real(input)
        return (data + (data * data - 1).sqrt()).log()

    def asinh(self, input: Any) -> Any:
        size = self._real(input).abs()
        near = (size + size * size / (1 + (size * size + 1).sqrt())).log1p()
        far = size.log() + math.log(2)
        return self.copysign(self.torch.where(size > 1e4, far, near), input)

    def atanh(self, input: Any) -> Any:
        data = self._real(input)
        return ((1 + data) / (1 - data)).log() * 0.5

    arccosh, arcsinh, arctanh = acosh, asinh, atanh

    def erfc(self, input: Any) -> Any:
        return 1 - self._real(input).erf()

    def lgamma(self, input: Any) -> Any:
        """By Stirling's series from 8 on, to which smaller numbers are moved; by reflection of
        those below 0.
        """
        torch = self.torch
        data = self._real(input)
        x = data.double().abs()
        near = x < 8
        z = torch.where(near, x + 8, x)
        series = torch.zeros_like(z)
        for factor in _STIRLING:
            series = factor + series / (z * z)
        above = (z - 0.5) * z.log() - z + series / z + 0.5 * math.log(2 * math.pi)
        below = torch.ones_like(x)
        for step in range(8):
            below = below * (x + step)
        made = above - torch.where(near, below, 1.0).log()
        rest = x - x.floor()
        sine = (torch.minimum(rest, 1 - rest) * math.pi).sin()
        reflected = math.log(math.pi) - sine.log() - x.log() - made
        made = torch.where(data < 0, reflected, made)
        whole = (data <= 0) & (rest == 0) | data.isinf()
        return torch.where(whole, math.inf, made).to(data.dtype)

    def sinc(self, input: Any) -> Any:
        angle = self._real(input) * math.pi
        return self.torch.where(angle == 0, self.torch.ones_like(angle), angle.sin() / angle)

    def hypot(self, input: Any, other: Any) -> Any:
        return (input * input + other * other).sqrt()

    def fmax(self, input: Any, other: Any) -> Any:
        return self._of_numbers(self.torch.maximum, input, other)

    def fmin(self, input: Any, other: Any) -> Any:
        return self._of_numbers(self.torch.minimum, input, other)

    def _of_numbers(self, function: Callable[..., Any], first: Any, second: Any) -> Any:
        """Of two numbers; of a number and none, the number."""
        where = self.torch.where
        made = where(first != first, second, function(first, second))
        return where(second != second, first, made)

    def xlogy(self, input: Any, other: Any) -> Any:
        product = input * other.log()
        nothing = (input == 0) & (other == other)
        return self.torch.where(nothing, self.torch.zeros_like(product), product)

    def addcdiv(self, input: Any, tensor1: Any, tensor2: Any, *, value: float = 1) -> Any:
        return input + value * (tensor1 / tensor2)

    def heaviside(self, input: Any, values: Any) -> Any:
        made = (input > 0).to(input.dtype)
        return self.torch.where(input == 0, values, made)

    def logaddexp(self, input: Any, other: Any) -> Any:
        return self.torch.stack(self.torch.broadcast_tensors(input, other)).logsumexp(0)

    def logaddexp2(self, input: Any, other: Any) -> Any:
        return self.logaddexp(input * math.log(2), other * math.log(2)) / math.log(2)

    def isneginf(self, input: Any) -> Any:
        return input == float("-inf")

    def isposinf(self, input: Any) -> Any:
        return input == float("inf")

    def isclose(
        self,
        input: Any,
        other: Any,
        rtol: float = 1e-5,
        atol: float = 1e-8,
        equal_nan: bool = False,
    ) -> Any:
        near = (input - other).abs() <= atol + rtol * other.abs()
        close = (input == other) | (near & ~other.isinf())
        return close | ((input != input) & (other != other)) if equal_nan else close

    def threshold(self, input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
        return self.torch.where(input <= threshold, value, input).to(input.dtype)

    # ---- sums

    def nansum(
        self, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        data = self.torch.where(input != input, self.torch.zeros_like(input), input)
        data = data if dtype is None else data.to(dtype)
        return data.sum() if dim is None else data.sum(dim, keepdim=keepdim)

    def nanmean(
        self, input: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None
    ) -> Any:
        total = self.nansum(input, dim, keepdim, dtype=dtype)
        return total / self.nansum((input == input).to(total.dtype), dim, keepdim)

    def count_nonzero(self, input: Any, dim: Any = None) -> Any:
        truth = self._as_truth(input).to(self.torch.int64)
        return truth.sum() if dim is None else truth.sum(dim)

    def trace(self, input: Any) -> Any:
        return input.diagonal().sum()

"""`from_torch`: a module of torch as a model, by torch.onnx.export and the front end for ONNX.

The exporter follows one call of the module. What it is given is a module of flat tensors (`_Flat`),
whose names are those of the call's arguments and of what it returns.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

from uncork.concurrency import WorkLock
from uncork.errors import InputError, UncorkError, UnsupportedError, did_you_mean
from uncork.ir.build import Builder
from uncork.ir.model import Model
from uncork.onnx.torch_complex import Complex, complex_numbers
from uncork.onnx.torch_functions import own_functions
from uncork.onnx.torch_reads import reads_of_numbers
from uncork.onnx.torch_symbols import own_symbols
from uncork.types import type_of_dtype

if TYPE_CHECKING:
    from torch import nn

#: Which sizes stay open: all, or axes by the name of their input.
Dynamic = Union[bool, Mapping[str, Union[Sequence[int], Mapping[int, str]]]]
#: The newest version that torch's exporter by tracing writes whole.
_OPSET = 17
#: What torch's exporter is at, and what is put into torch for it, belong to the whole process.
_exporting = WorkLock()


def from_torch(
    module: nn.Module,
    example: Any,
    *,
    dynamic: Dynamic = False,
    outputs: Sequence[str] | None = None,
) -> Model:
    """The model that a torch module computes. `example` is what it is called with: a tensor, a
    tuple of positional arguments or a dictionary of named ones; tuples, lists and dictionaries of
    tensors may be among them.

    Inputs are called as the arguments of `forward` (`past.0.1` within `past`), outputs as the keys
    of a dictionary that it returns, else `output`, `output.0`, ..; `outputs` gives other names.
    Constants keep the keys of the module's state.

    Sizes are those of the example. `dynamic=True` leaves all of them open,
    `dynamic={"ids": [0, 1]}` those axes. The example is followed once, in the module's eval mode:
    an `if` on a size or a value stays as it was for the example, and so does the count of a loop.
    A TracerWarning names lines where another call may have another.

    Raises UncorkError where torch or onnx is not installed, InputError for an example that is none,
    UnsupportedError for what the export or uncork cannot do.
    """
    torch = _packages()
    if not isinstance(module, torch.nn.Module):
        more = ": give its module()" if hasattr(module, "graph_module") else ""
        raise InputError(f"expected a torch.nn.Module, got {type(module).__name__}{more}", "module")
    InputError.when(
        isinstance(module, torch.jit.ScriptModule),
        "is a TorchScript program: give the module that it was made of",
        "module",
    )
    call = _Example(torch, module, example)
    axes = _open_axes(call, dynamic)
    with (
        tempfile.TemporaryDirectory() as folder,
        _exporting.held(),
        _for_inference(torch, module),
    ):
        flat = _flat(torch, module, call)
        with _as_input_error(), _as_it_was(module):
            flat(*call.tensors)
        names = _output_names(flat.names, call, module, outputs)
        path = Path(folder, "model.onnx")
        with _as_it_was(module):
            _export(torch, flat, call, path, type(module).__name__, names, axes)
        inner = {name for name, _ in module.named_buffers()} - module.state_dict().keys()
        return _with_inputs(_read(path, type(module).__name__, inner), call, axes)


def _packages() -> Any:
    try:
        import onnx  # noqa: F401
        import torch
        import torch.onnx
    except ImportError as error:
        name = "onnx" if error.name == "onnx" else "torch"
        raise UncorkError(
            f"from_torch needs the packages torch and onnx, and {name} is not installed: "
            "pip install 'uncork[torch,onnx]'"
        ) from None
    return torch


# ---- what goes in


class _Example:
    """The arguments of a call, and the tensors in them with their names."""

    def __init__(self, torch: Any, module: Any, example: Any) -> None:
        self.torch = torch
        forward = inspect.signature(module.forward)
        self.by_name = isinstance(example, Mapping)
        self.arguments = _bound(forward, example)
        self.kinds = {name: p.kind for name, p in forward.parameters.items()}
        leaves, self.tree = torch.utils._pytree.tree_flatten_with_path(self.arguments)
        self.leaves = [self._leaf(value, _path(keys)) for keys, value in leaves]
        self.places = [i for i, v in enumerate(self.leaves) if isinstance(v, torch.Tensor)]
        self.names = [self._name(leaves[i][0]) for i in self.places]
        InputError.when(
            not self.places, "expected tensors, got none: a model has inputs", "example"
        )
        if again := sorted({name for name in self.names if self.names.count(name) > 1}):
            raise InputError(f"two tensors are called '{again[0]}'", "example")

    @property
    def tensors(self) -> list[Any]:
        return [self.leaves[i] for i in self.places]

    def _leaf(self, value: Any, path: str) -> Any:
        torch = self.torch
        if type(value).__module__ == "numpy" and hasattr(value, "dtype"):
            with _as_input_error():
                value = torch.as_tensor(value)
        plain = (torch.Tensor, bool, int, float, str, torch.dtype, torch.device)
        if value is not None and not isinstance(value, plain):
            raise InputError(
                f"expected tensors, numbers, texts, and tuples, lists and dictionaries of them, "
                f"got {type(value).__name__}: wrap the module in one that takes the tensors of it",
                f"example: {path}",
            )
        return value

    def _name(self, keys: Sequence[Any]) -> str:
        gathered = inspect.Parameter.VAR_KEYWORD
        first = _key(keys[0])
        return _path(keys[1:] if self.kinds.get(first) is gathered else keys)

    def outputs_for(self, module: Any, tensors: Sequence[Any]) -> Any:
        """The module, called with other tensors in the places of the example's."""
        leaves = list(self.leaves)
        for place, tensor in zip(self.places, tensors, strict=True):
            leaves[place] = tensor
        arguments = self.torch.utils._pytree.tree_unflatten(leaves, self.tree)
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for name, value in arguments.items():
            kind = self.kinds[name]
            if kind is inspect.Parameter.VAR_POSITIONAL:
                positional.extend(value)
            elif kind is inspect.Parameter.VAR_KEYWORD:
                named.update(value)
            elif self.by_name:
                named[name] = value
            else:
                positional.append(value)
        return module(*positional, **named)


def _bound(forward: inspect.Signature, example: Any) -> dict[str, Any]:
    positional: tuple[Any, ...] = ()
    named: dict[str, Any] = {}
    if isinstance(example, Mapping):
        named = dict(example)
    elif isinstance(example, (tuple, list)):
        positional = tuple(example)
    else:
        positional = (example,)
    try:
        bound = forward.bind(*positional, **named)
    except TypeError as error:
        raise InputError(
            f"does not fit forward{forward}: {error}. Give a tensor, a tuple of positional "
            "arguments or a dictionary of named ones",
            "example",
        ) from None
    return dict(bound.arguments)


def _key(key: Any) -> str:
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)


def _path(keys: Sequence[Any]) -> str:
    return ".".join(map(_key, keys))


def _open_axes(call: _Example, dynamic: Dynamic) -> dict[str, dict[int, str]]:
    """The axes that stay open, by the names of their inputs, each with a name of its own."""
    ranks = {name: t.dim() for name, t in zip(call.names, call.tensors, strict=True)}
    if isinstance(dynamic, bool):
        asked: Mapping[str, Any] = {n: range(r) for n, r in ranks.items()} if dynamic else {}
    elif isinstance(dynamic, Mapping):
        asked = dynamic
    else:
        raise InputError(
            f"expected True, False or axes by the name of their input, got {dynamic!r:.60}",
            "dynamic",
        )
    found: dict[str, dict[int, str]] = {}
    for name, axes in asked.items():
        if name not in ranks:
            raise InputError(
                f"there is no input '{name}', there are {', '.join(ranks)}"
                + did_you_mean(str(name), list(ranks)),
                "dynamic",
            )
        rank = ranks[name]
        for axis in axes:
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise InputError(
                    f"input '{name}': expected axes {-rank}..{rank - 1}, got {axis!r:.60}",
                    "dynamic",
                )
            place = axis % rank
            label = axes[axis] if isinstance(axes, Mapping) else f"{name}_{place}"
            found.setdefault(name, {})[place] = re.sub(r"\W", "_", str(label))
    return found


# ---- the module that is exported


def _flat(torch: Any, module: Any, call: _Example) -> Any:
    """A module from tensors to a tuple of tensors, whose constants are those of `module`."""

    class Flat(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            # The same dictionaries: constants have the keys of the module's own state.
            for part in ("_parameters", "_buffers", "_modules"):
                self.__dict__[part] = module.__dict__[part]
            self.__dict__["names"] = []

        def forward(self, *tensors: Any) -> Any:
            made = call.outputs_for(module, tensors)
            pairs, _ = torch.utils._pytree.tree_flatten_with_path(made)
            kept = [(_path(keys), value) for keys, value in pairs if value is not None]
            for name, value in kept:
                if isinstance(value, Complex):
                    raise UnsupportedError(
                        f"its result '{name or 'output'}' is of complex numbers, which a model has "
                        "not: return torch.view_as_real of it",
                        type(module).__name__,
                    )
                if not isinstance(value, torch.Tensor):
                    raise UnsupportedError(
                        f"its result '{name or 'output'}' is a {type(value).__name__}, expected "
                        "tensors: wrap the module in one that returns the tensors of it",
                        type(module).__name__,
                    )
            single = isinstance(made, torch.Tensor)
            listed = isinstance(made, (tuple, list)) and not hasattr(made, "_fields")
            self.__dict__["names"] = [
                "output" if single else f"output.{name}" if listed else name for name, _ in kept
            ]
            return tuple(value for _, value in kept)

        def train(self, mode: bool = True) -> Any:
            # The exporter asks for the eval mode, in which all parts are. Of a module that is not
            # trained it makes one constant of parameters that are equal, as those of norms are
            # before training: then they would be trained as one, and lack their names.
            self.training = True
            return self

    return Flat().train()


@contextlib.contextmanager
def _for_inference(torch: Any, module: Any) -> Iterator[None]:
    """The module in its eval mode, and as it was afterwards."""
    training = [part for part in module.modules() if part.training]
    # Not by eval(), which the module of an exported program refuses.
    for part in training:
        part.training = False
    # One operation for nn.MultiheadAttention, which the exporter does not know.
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with torch.no_grad():
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
        for part in training:
            part.training = True


@contextlib.contextmanager
def _as_it_was(module: Any) -> Iterator[None]:
    """What parts of the module keep of a call is taken back: a table of positions that is as long
    as the example would be a constant of the model.
    """
    parts = [(p, type(p), dict(p.__dict__), dict(p._buffers)) for p in module.modules()]
    try:
        yield
    finally:
        for part, kind, attributes, buffers in parts:
            if type(part) is kind:  # no lazy one, which is another since the call
                part.__dict__.clear()
                part.__dict__.update(attributes)
                part._buffers.update(buffers)  # new ones stay: the export wants no others


@contextlib.contextmanager
def _as_input_error() -> Iterator[None]:
    try:
        yield
    except UncorkError:
        raise
    except Exception as error:  # whatever the module raises
        raise InputError(
            f"the module does not take it: {type(error).__name__}: {error!s:.400}", "example"
        ) from error


def _output_names(
    found: Sequence[str], call: _Example, module: Any, given: Sequence[str] | None
) -> list[str]:
    UnsupportedError.when(not found, "returns no tensor: there is nothing to compute", "module")
    taken = {*call.names, *module.state_dict()}
    if given is None:
        return [f"{name}_output" if name in taken else name for name in found]
    names = [str(name) for name in given]
    InputError.when(
        len(names) != len(found) or len(set(names)) < len(names),
        f"expected {len(found)} different names, for {', '.join(found)}, got {names!r:.200}",
        "outputs",
    )
    if wrong := sorted(taken.intersection(names)):
        raise InputError(f"'{wrong[0]}' is the name of an input or of a parameter", "outputs")
    return names


# ---- the export


def _export(
    torch: Any,
    flat: Any,
    call: _Example,
    path: Path,
    name: str,
    names: list[str],
    axes: dict[str, dict[int, str]],
) -> None:
    with (
        warnings.catch_warnings(),
        own_symbols(torch, _OPSET),
        _without_graphs(torch),
        _lists_of_sizes(torch),
        own_functions(torch),
        complex_numbers(torch),
        reads_of_numbers(torch, [axes.get(name, {}) for name in call.names]),
    ):
        # That this exporter is the older one of two: the newer cannot follow packed sequences.
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", category=UserWarning, module=r"torch\.onnx")
        warnings.filterwarnings("ignore", message="Exporting a model to ONNX with a batch_size")
        # What torch's own functions ask of sizes and values are checks, which the call before has
        # passed.
        for own in (r"torch\b", r"uncork\.onnx\.torch_(functions|values|complex|fourier)"):
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning, module=own)
        try:
            torch.onnx.export(
                flat,
                tuple(call.tensors),
                str(path),
                input_names=call.names,
                output_names=names,
                dynamic_axes=axes,
                opset_version=_OPSET,
                # Weights stay as they are in the module's state, and are not transposed.
                do_constant_folding=False,
                dynamo=False,
            )
        except UncorkError:
            raise
        except Exception as error:  # of any kind: torch's own, and those of its compiler
            raise UnsupportedError(
                f"torch.onnx.export refuses it: {type(error).__name__}: {_first_lines(error)}. "
                "Write that part of the module by other operations, or export it yourself and give "
                "uncork.load the file",
                name,
            ) from error


@contextlib.contextmanager
def _without_graphs(torch: Any) -> Iterator[None]:
    """No graph is printed of a module that cannot be exported: the exporter of torch 2.7 to 2.13
    takes its log as switched on.
    """
    log = getattr(torch._C, "_jit_onnx_log", None)
    if log is None:
        yield
        return
    torch._C._jit_onnx_log = lambda *_: None
    try:
        yield
    finally:
        torch._C._jit_onnx_log = log


@contextlib.contextmanager
def _lists_of_sizes(torch: Any) -> Iterator[None]:
    """Tensors that a module makes of lists have the sizes of each call in them: torch makes
    constants of those of the example.
    """
    kept = {name: getattr(torch, name) for name in ("tensor", "as_tensor")}

    def following(make: Any) -> Any:
        @functools.wraps(make)
        def made(data: Any, *arguments: Any, **options: Any) -> Any:
            if not torch.jit.is_tracing() or not isinstance(data, (list, tuple)):
                return make(data, *arguments, **options)
            leaves = torch.utils._pytree.tree_leaves(data)
            followed = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
            if any(leaf.dim() for leaf in followed):
                return make(data, *arguments, **options)
            with warnings.catch_warnings():  # that it is a constant: now it is none, or should be
                warnings.simplefilter("ignore", torch.jit.TracerWarning)
                like = make(data, *arguments, **options)
            return _stacked(torch, data, like) if followed else like

        return made

    # Functions that are compiled on the way know these by what they are, not by name.
    builtins = torch.jit._builtins._get_builtin_table()
    put = {name: following(make) for name, make in kept.items()}
    for name, make in put.items():
        builtins[id(make)] = builtins.get(id(kept[name]), f"aten::{name}")
        setattr(torch, name, make)
    try:
        yield
    finally:
        for name, make in kept.items():
            setattr(torch, name, make)
            del builtins[id(put[name])]


def _stacked(torch: Any, data: Any, like: Any) -> Any:
    """Lists of numbers as a tensor of the type of another."""
    if isinstance(data, (list, tuple)):
        return torch.stack([_stacked(torch, part, like) for part in data])
    if isinstance(data, torch.Tensor):
        return data.to(device=like.device, dtype=like.dtype)
    return torch.full((), +data, dtype=like.dtype, device=like.device)  # no bool: torch has none


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:3])[:600].rstrip(".")


def _read(path: Path, name: str, inner: Set[str]) -> Model:
    """The model of the file. `inner` are buffers that are no part of the module's state: their
    names are not those of a state.
    """
    from msgspec.structs import replace

    from uncork.onnx.read import read_onnx

    try:
        # The file is gone in a moment: nothing of it may be mapped.
        model = read_onnx(path, mmap=False)
    except UncorkError as error:
        if len(error.problems) > 1:
            raise
        raise type(error)(str(error.problems[0]), f"{name}, exported to ONNX") from None
    nodes = [replace(n, name=f"{n.name}/buffer") if n.name in inner else n for n in model.nodes]
    return replace(model, nodes=tuple(nodes), name=name, source=name)


def _with_inputs(model: Model, call: _Example, axes: dict[str, dict[int, str]]) -> Model:
    """The model with all inputs of the example: torch leaves out those that nothing reads."""
    from msgspec.structs import replace

    ids = dict(zip((port.name for port in model.inputs), model.parameters, strict=True))
    unread = Builder(model.name)
    for name, tensor in zip(call.names, call.tensors, strict=True):
        if name not in ids:
            element_type = type_of_dtype(str(tensor.dtype).removeprefix("torch."))
            assert element_type is not None, tensor.dtype
            opened = axes.get(name, {})
            shape = [None if i in opened else size for i, size in enumerate(tensor.shape)]
            ids[name] = model.next_id + unread.parameter(name, element_type, shape).node
    more = [replace(node, id=model.next_id + node.id) for node in unread.model().nodes]
    parameters = tuple(ids[name] for name in call.names)
    return replace(model, nodes=(*more, *model.nodes), parameters=parameters)

"""The kernels of a plan's layers: how they are selected, their work for some threads, where they
are when they are compiled.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence

from uncork.compiler.shared_work import Work
from uncork.ir.model import Model, Node, Source
from uncork.kernels import kernel_plan, select
from uncork.kernels.kernel_spec import KernelSpec
from uncork.kernels.layer import most_table_bytes
from uncork.kernels.runtime.dispatch import POOL_KERNELS, dispatch
from uncork.kernels.runtime.entries import entry_functions
from uncork.kernels.runtime.kernel_cache import STORE, CannotCompile, Preparation
from uncork.kernels.runtime.segment_plan import CallTable, Step
from uncork.kernels.runtime.target import Target
from uncork.kernels.runtime.whole_file import WholeFile
from uncork.types import TensorSpec


class LayerKernels:
    """The kernels of the layers of one plan, selected for `target`; without one references do
    everything. A layer's work is for at most so many `threads`, and its tables take at most
    `memory_limit` bytes.

    So many `compilers` make kernels at a time; by none, no kernel is made, addresses are 0, and the
    plan is to be looked at only.
    """

    def __init__(
        self,
        target: Target | None,
        threads: int,
        compilers: int,
        memory_limit: int | None = None,
    ) -> None:
        self.threads = threads
        self._table_bytes = most_table_bytes(memory_limit)
        self.target, self._compilers = target, compilers
        self._works: dict[int, Work] = {}
        #: Why the kernels that were selected for a layer cannot be had, by its id.
        self.refused: dict[int, CannotCompile] = {}
        self._preparation: Preparation | None = None

    @property
    def compiles(self) -> bool:
        """Whether kernels are made."""
        return self._compilers > 0

    def select(
        self, model: Model, node: Node, spec: Callable[[Source], TensorSpec]
    ) -> kernel_plan.Selection:
        """What computes a layer of a model: kernels, no step, or the reason why a reference does.

        `spec` tells what the plan knows of an input.
        """
        outputs = [port.spec for port in node.outputs]
        if self.target is None or node.operation is None:
            return select.unavailable() or "asked for"
        if any(output.element_type.dtype == object for output in outputs):
            return "no kernel for strings"
        if any(output.rank is None for output in outputs):
            return "the rank of its result is known at the call only"
        try:
            inputs = [spec(source) for source in node.inputs]
            found = select.select_kernel(
                node.operation, inputs, outputs, self.target, node.hints, self._table_bytes
            )
        except (TypeError, ValueError) as error:
            if all(s.shape.is_static for s in (*outputs, *(model.spec(s) for s in node.inputs))):
                raise
            return f"its kernels are not made for open sizes: {error}"
        return found

    def to_be_had(self, node: Node, selected: kernel_plan.Selection) -> kernel_plan.Selection:
        """What was selected for a layer, or the reason why its kernels cannot be had."""
        if isinstance(selected, kernel_plan.KernelPlan):
            assert self.target is not None
            for kernel in self.work(node, selected).kernels:
                if (refused := STORE.refusal(kernel, self.target)) is not None:
                    del self._works[node.id]
                    self.refused[node.id] = refused
                    return str(refused)
        return selected

    def work(self, node: Node, selected: kernel_plan.KernelPlan) -> Work:
        """The work of a layer, shared by threads."""
        if node.id not in self._works:
            self._works[node.id] = Work.of(selected, self.threads)
        return self._works[node.id]

    @contextlib.contextmanager
    def compiled(self, files: bool = False) -> Iterator[None]:
        """A context in which kernels are compiled as they are asked for, by several threads; at its
        end all are ready. Those of every plan are begun at once, among them the one that looks
        whether `files` are whole.
        """
        if self.target is None or not self._compilers:
            yield
            return
        with STORE.preparation(self.target, self._compilers) as preparation:
            self._preparation = preparation
            preparation.add([WholeFile()] if files else [], entry_functions())
            try:
                yield
            finally:
                self._preparation = None

    def ask_for(self, work: Work) -> None:
        """Have the kernels of this work compiled."""
        if self._preparation is not None:
            self._preparation.add(work.kernels)
            if work.parallelism > 1:
                self._preparation.add(POOL_KERNELS)

    def address(self, spec: KernelSpec) -> int:
        """The address of a compiled kernel."""
        return STORE.address(spec, self.target) if self._compilers else 0

    def parallel_step(self, calls: Sequence[Step]) -> Step:
        """The step that makes calls at the same time, on several threads."""
        table = CallTable(tuple(calls))
        return (
            Step(*dispatch(len(calls), table, self.target))
            if self._compilers
            else Step(0, (table,))
        )

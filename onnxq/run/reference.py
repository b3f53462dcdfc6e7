"""ONNX's own evaluator, in numpy: slow, and the definition of operators that onnxruntime does not run."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx

from onnxq.base.memory_bound import memory_bound
from onnxq.graph.half import rounded, speaks_half
from onnxq.run.budget import RunError, made_up_bytes


class Evaluator:
    """A model that ONNX's reference evaluator runs."""

    def __init__(
        self,
        model: onnx.ModelProto,
        budget: float | None = None,
        own: Callable[[], Sequence[Any]] = tuple,
    ) -> None:
        """Takes a model.

        Args:
            model: the model.
            budget: seconds after which no further run is begun.
            own: makes operators (`onnx.reference.op_run.OpRun`) that take the place of the evaluator's.

        Raises:
            RunError: the evaluator does not know an operator of it.
        """
        from onnx.reference import ReferenceEvaluator  # it imports a module for each operator

        try:
            source = rounded(model) if speaks_half(model) else model
            self._evaluator = ReferenceEvaluator(source, new_ops=list(own()))
        except Exception as error:  # of many classes, and of those of its operators
            raise RunError(f"onnx's reference evaluator: {error}") from error
        self._names = [info.name for info in model.graph.input]
        self._left = budget

    def run(self, feeds: Mapping[str, np.ndarray], *, seconds: float | None = None) -> list[Any]:
        """The outputs for these inputs, in order; `seconds` is for sessions that can be stopped.

        Raises:
            RunError: it fails in a node, or the budget is spent.
        """
        if self._left is not None and self._left <= 0:
            raise RunError("the time for onnx's reference evaluator is spent")
        start = time.perf_counter()
        try:
            bound = memory_bound(made_up_bytes())
            with bound, np.errstate(all="ignore"), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                outputs = self._evaluator.run(None, {name: feeds[name] for name in self._names})
        except Exception as error:  # as above
            raise RunError(f"onnx's reference evaluator: {error}") from error
        finally:
            if self._left is not None:
                self._left -= time.perf_counter() - start
        return [np.asarray(value) if isinstance(value, np.generic) else value for value in outputs]

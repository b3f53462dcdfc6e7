"""Which IR versions, opsets and operators the installed onnxruntime has."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable

import onnx
import onnxruntime
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

from onnxq.base.errors import UserError
from onnxq.base.reason import noted
from onnxq.graph.load import opset_of
from onnxq.run import ort


@functools.cache
def version() -> str:
    """The version of the installed onnxruntime."""
    return str(onnxruntime.__version__)


@functools.cache
def operators() -> frozenset[tuple[str, str]]:
    """The domain and the name of each operator that it has, of those of its own domains, too."""
    return frozenset((schema.domain, schema.name) for schema in get_all_operator_schema())


def unreadable(model: onnx.ModelProto) -> str | None:
    """Why onnxruntime cannot read a model of this IR version and opset; None where it can."""
    opset = opset_of(model)
    if not _reads(model.ir_version, _OLD_OPSET):
        newest = _newest(lambda ir: _reads(ir, _OLD_OPSET), _OLD_IR)
        return noted("onnxruntime.ir", ir=model.ir_version, version=version(), newest=newest)
    if not _reads(_OLD_IR, opset):
        newest = _newest(lambda opset: _reads(_OLD_IR, opset), _OLD_OPSET)
        return noted("onnxruntime.opset", opset=opset, version=version(), newest=newest)
    return None


def refuse_unreadable(model: onnx.ModelProto, name: str) -> None:
    """Refuses a model that onnxruntime cannot read.

    Raises:
        UserError: it is one; the message calls it `name`.
    """
    if why := unreadable(model):
        raise UserError(f"{name} has {why}", hint="export it with an older opset")


def newest_opset() -> int:
    """The newest opset that onnxruntime reads."""
    return _newest(lambda opset: _reads(_OLD_IR, opset), _OLD_OPSET)


_OLD_IR, _OLD_OPSET = 8, 13  # of 2021, read by every onnxruntime that onnxq supports


@functools.cache
def _reads(ir_version: int, opset: int) -> bool:
    """Whether onnxruntime loads a model of one Identity node of these versions: it is asked."""
    value = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Identity", ["x"], ["y"])],
        "identity",
        [value("x", onnx.TensorProto.FLOAT, [1])],
        [value("y", onnx.TensorProto.FLOAT, [1])],
    )
    opsets = [onnx.helper.make_opsetid("", opset)]
    try:
        ort.load(onnx.helper.make_model(graph, ir_version=ir_version, opset_imports=opsets), threads=1)
    except ort.RunError:
        return False
    return True


def _newest(reads: Callable[[int], bool], known: int) -> int:
    return next(number for number in itertools.count(known) if not reads(number + 1))

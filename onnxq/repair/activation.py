"""The activation behind a layer: what is computed of each of its sums alone, up to where others come in."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx

from onnxq.graph.model import Model
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor
from onnxq.run import ort

ELEMENTWISE = frozenset([
    "Abs", "Add", "BatchNormalization", "Cast", "Celu", "Clip", "Div", "Elu", "Erf", "Exp", "Gelu",
    "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log", "Max", "Min", "Mish", "Mul", "Neg",
    "PRelu", "Pow", "QuickGelu", "Reciprocal", "Relu", "Selu", "Sigmoid", "Softplus", "Softsign",
    "Sqrt", "Sub", "Swish", "Tanh", "ThresholdedRelu",
])  # fmt: skip
_DOMAINS = ("", "com.microsoft")
_LONGEST = 24  # nodes


class Activation:
    """A function of one number, for each channel its own: rows in, rows out."""

    def __init__(self, session: ort.Session | None) -> None:
        """One that a session computes; None: what is given is what comes out."""
        self._session = session

    @property
    def is_identity(self) -> bool:
        """Whether it gives what it gets."""
        return self._session is None

    def __call__(self, rows: np.ndarray) -> np.ndarray:
        """Its values, float32 [rows, channels], of rows like them."""
        if self._session is None:
            return rows
        return np.asarray(self._session.run({"rows": rows})[0])


def activation_of(model: Model, tensor: str, axis: int, channels: int, rank: int | None) -> Activation:
    """The activation behind a tensor of a float model: elementwise, with constants alone.

    It ends where a single tensor is all that others read; where there is none, nothing is computed.

    Args:
        model: the model.
        tensor: the name of the tensor.
        axis: its channel axis, 1 or -1.
        channels: how many channels.
        rank: its rank, where the axis is 1.
    """
    start = model.tensors()[tensor]
    nodes, end = _cone(model, start, axis, channels, rank)
    if end is None:
        return Activation(None)
    proto = onnx.ModelProto(
        ir_version=max(model.envelope.ir_version, 4), opset_import=model.envelope.opset_import
    )
    return Activation(_session(proto, nodes, start, end, axis, channels, rank))


def _cone(
    model: Model, start: Tensor, axis: int, channels: int, rank: int | None
) -> tuple[list[Node], Tensor | None]:
    """The nodes, each behind those that it reads, and the tensor that they end with."""
    main = {*model.nodes}
    reached, nodes = [start], list[Node]()
    best: tuple[int, Tensor | None] = 0, None

    def fits(node: Node) -> bool:
        if node in nodes or node not in main or node.op not in ELEMENTWISE:
            return False
        if node.domain not in _DOMAINS or len([t for t in node.outputs if t.name]) != 1:
            return False
        if node.op == "BatchNormalization" and (axis != 1 or node.attr("training_mode", 0)):
            return False
        if node.op == "Cast" and not is_float(node.outputs[0].dtype):
            return False
        last = axis == -1 or node.op == "BatchNormalization"
        return all(
            t is None or t in reached or (t.is_constant and _spread(t, last, channels, rank) is not None)
            for t in node.inputs
        )

    while len(nodes) < _LONGEST:
        node = next((user for t in reached for user in t.users if fits(user)), None)
        if node is None:
            break
        nodes.append(node)
        reached.append(node.outputs[0])
        open_ones = [t for t in reached if t.is_output or any(user not in nodes for user in t.users)]
        if len(open_ones) == 1 and open_ones[0] == reached[-1]:
            best = len(nodes), reached[-1]
    return nodes[: best[0]], best[1]


def _spread(constant: Tensor, last: bool, channels: int, rank: int | None) -> np.ndarray | None:
    """A constant as float32 [channels] or []; None where it is not one number a channel.

    Args:
        constant: the constant.
        last: whether channels are along its last axis, else along the second one of that many.
        channels: how many.
        rank: of what it is combined with.
    """
    values = constant.constant
    if values is None or not is_float(values.dtype):
        return None
    if values.size == 1:
        return np.asarray(values, np.float32).reshape(())
    back = 1 if last else 0 if rank is None else rank - 1
    if values.size != channels or not 0 < back <= values.ndim or values.shape[-back] != channels:
        return None
    return np.asarray(values, np.float32).reshape(-1)


def _session(
    proto: onnx.ModelProto,
    nodes: list[Node],
    start: Tensor,
    end: Tensor,
    axis: int,
    channels: int,
    rank: int | None,
) -> ort.Session:
    graph = proto.graph
    graph.name = "activation"
    kind = onnx.TensorProto.FLOAT
    names: dict[Any, str] = {start: "rows"}
    graph.input.append(onnx.helper.make_tensor_value_info("rows", kind, [None, None]))
    for place, node in enumerate(nodes):
        copy = graph.node.add()
        copy.CopyFrom(node.node.proto)
        copy.ClearField("input")
        copy.ClearField("output")
        for index, tensor in enumerate(node.inputs):
            if tensor is not None and (tensor.is_constant or tensor not in names):
                last = axis == -1 or node.op == "BatchNormalization"
                values = _spread(tensor, last, channels, rank)
                assert values is not None
                names[tensor] = f"constant{place}_{index}"
                graph.initializer.append(onnx.numpy_helper.from_array(values, names[tensor]))
            copy.input.append("" if tensor is None else names[tensor])
        names[node.outputs[0]] = copy_name = f"value{place}"
        copy.output.append(copy_name)
        if copy.op_type == "Cast":
            copy.op_type = "Identity"
            copy.ClearField("attribute")
    graph.output.append(onnx.helper.make_tensor_value_info(names[end], kind, [None, None]))
    return _loaded(proto.SerializeToString())


@functools.lru_cache(maxsize=64)
def _loaded(proto: bytes) -> ort.Session:
    """Loaded once for all layers that it stands behind."""
    return ort.load(onnx.ModelProto.FromString(proto), threads=1, part=True)

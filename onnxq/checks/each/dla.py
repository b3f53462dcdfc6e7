"""What the deep learning accelerator (DLA) of a Jetson leaves to its GPU: the rows of `targets/dla.toml`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from onnxq.checks import Fact, check
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.pairs import is_qdq
from onnxq.graph.view import Node, Tensor
from onnxq.targets import Target, dla_table, version_of
from onnxq.targets.devices import Device

_NOTHING = ("Constant", "Dropout", "Identity")
"""What is no layer of an engine."""


@dataclass(frozen=True, slots=True)
class OnDla:
    """A model that is to run on DLA.

    Attributes:
        model: the model, repaired.
        device: the Jetson.
        target: its TensorRT.
    """

    model: Model
    device: Device
    target: Target

    def refused(self) -> dict[str, Fact]:
        """The nodes that run on the GPU, by name, and why: the first reason of each."""
        found = ((node.name, next(self._why(node), None)) for node in self.layers)
        return {name: why for name, why in found if why is not None}

    @property
    def layers(self) -> list[Node]:
        """Its nodes that compute something at run time, and are no pairs."""
        return [
            node
            for node in self.model.nodes
            if node.op not in _NOTHING and not is_qdq(node)
            if any(tensor is not None and not tensor.is_constant for tensor in node.inputs)
        ]

    def _why(self, node: Node) -> Iterator[Fact]:
        about = (node.name, node.op)
        row = self._row(node)
        if row is None:
            yield Fact("dla.operator", about, {"source": _source("operators")})
            return
        source = _source(row["source"])
        if self.device.sm < row.get("capability", 0):
            yield Fact("dla.capability", about, {"device": self.device.title, "source": source})
        for limit in row["limits"]:
            if self.device.sm >= limit.get("below", 10_000):
                continue
            for value in _MEASURES[limit["of"]](node):
                if not _within(value, limit):
                    values = {"what": limit["of"], "value": value, "taken": taken(limit)}
                    yield Fact(
                        "dla.limit", about, {**values, "source": _source(limit.get("source", row["source"]))}
                    )
        yield from _sizes(node, about)

    def _row(self, node: Node) -> Mapping[str, Any] | None:
        """The layer that a node becomes; None: there is none on DLA of this release."""
        if node.domain:
            return None
        for row in dla_table()["layer"].values():
            first = row.get("since", {}).get(node.op)
            if node.op in row["operators"] or (first and version_of(self.target.name) >= version_of(first)):
                return row  # type: ignore[no-any-return]
        return None


@check("dla", needs="dla")
def dla(subject: OnDla) -> Iterator[Fact]:
    """Each node that falls back to the GPU; then what all of it comes to."""
    refused, layers = subject.refused(), subject.layers
    yield from refused.values()
    for tensor in subject.model.inputs:
        if not all(isinstance(size, int) for size in tensor.shape or ()):
            yield Fact("dla.dynamic", ("", "", tensor.name), {"source": _source("page")})
    pairs = sum(is_qdq(node) for node in subject.model.nodes)
    if pairs and not subject.target.strongly_typed:
        yield Fact("dla.pairs", values={"pairs": pairs, "target": subject.target.title})
    macs = {node.name: _macs(node) for node in layers}
    on = sum(macs[node.name] for node in layers if node.name not in refused)
    parts, crossing = _parts(layers, refused)
    values = {
        "share": 100 * on / max(1, sum(macs.values())),
        "layers": len(layers) - len(refused), "all": len(layers),
        "loadables": parts, "crossings": crossing,
        "types": "".join(f" {one}" for one in subject.target.types[:1]),
    }  # fmt: skip
    most = dla_table()["loadables"]
    if parts > most:
        yield Fact("dla.loadables", values={**values, "most": most, "source": _source("page")})
    else:
        yield Fact("dla.all", values={**values, "severity": "note"})


def _source(name: str) -> str:
    return str(dla_table()["sources"][name])


def _within(value: Any, limit: Mapping[str, Any]) -> bool:
    if "in" in limit:
        return value in limit["in"]
    least, most = limit["between"]
    return bool(least <= value <= most and float(value).is_integer())


def taken(limit: Mapping[str, Any]) -> str:
    """What a limit of `dla.toml` lets pass, in words: `1 to 32`."""
    if "in" in limit:
        return " or ".join(map(str, limit["in"]))
    return "{} to {}".format(*limit["between"])


def _sizes(node: Node, about: tuple[str, str]) -> Iterator[Fact]:
    """What holds of the sizes and types of all layers; a size that is open is fixed by whoever builds."""
    table, source = dla_table(), _source("page")
    for tensor in _tensors(node):
        shape = [size if isinstance(size, int) else 1 for size in tensor.shape or ()]
        batch, sizes = math.prod(shape[:-3]), shape[-3:]
        if batch > table["batch"]:
            values = {"batch": batch, "most": table["batch"], "source": source}
            yield Fact("dla.batch", (*about, tensor.name), values)
        if any(size > table["size"] for size in sizes):
            values = {"size": max(sizes), "most": table["size"], "source": source}
            yield Fact("dla.size", (*about, tensor.name), values)
        if tensor.dtype is not None and tensor.dtype.kind in "iu":
            yield Fact("dla.type", (*about, tensor.name), {"type": str(tensor.dtype), "source": source})


def _tensors(node: Node) -> list[Tensor]:
    found = [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]
    return [*found, *node.outputs]


def _macs(node: Node) -> int:
    layer = layer_of(node, quantized=True)
    sizes = [size if isinstance(size, int) else 1 for size in node.outputs[0].shape or ()]
    return 0 if layer is None else layer.terms * math.prod(sizes)


def _parts(layers: Sequence[Node], refused: Mapping[str, Fact]) -> tuple[int, int]:
    """How many connected parts run on DLA, none of which waits for itself; how many tensors cross."""
    step: dict[str, int] = {}
    part: dict[str, int] = {}
    crossing: set[str] = set()
    for node in layers:
        gpu = node.name in refused
        makers = [(tensor, maker) for tensor in _read(node) if (maker := _maker(tensor, step)) is not None]
        step[node.name] = max((step[m.name] + ((m.name in refused) != gpu) for _, m in makers), default=0)
        crossing |= {tensor.name for tensor, maker in makers if (maker.name in refused) != gpu}
        if not gpu:
            same = {part[m.name] for _, m in makers if m.name in part and step[m.name] == step[node.name]}
            part[node.name] = min(same, default=len(part))
            part.update({name: part[node.name] for name, one in part.items() if one in same})
    return len(set(part.values())), len(crossing)


def _read(node: Node) -> list[Tensor]:
    return [tensor for tensor in node.inputs if tensor is not None and not tensor.is_constant]


def _maker(tensor: Tensor, known: Mapping[str, int]) -> Node | None:
    """The layer that computes a tensor, behind pairs and what is no layer."""
    maker = tensor.producer
    while maker is not None and maker.name not in known:
        tensors = _read(maker)
        maker = tensors[0].producer if tensors else None
    return maker


# -- what is limited ----------------------------------------------------------------------------------


def _rank(tensor: Tensor | None) -> list[int]:
    return [] if tensor is None or tensor.rank is None else [tensor.rank]


def _listed(name: str, usual: int = 1) -> Callable[[Node], Iterable[Any]]:
    return lambda node: list(node.attr(name, None) or [usual])


def _kernel(node: Node) -> Iterable[Any]:
    shape = node.attr("kernel_shape", None)
    if shape is None and node.op.startswith("Conv") and node.inputs[1] is not None:
        shape = (node.inputs[1].shape or ())[2:]
    return shape or ()


def _outputs(node: Node) -> Iterable[Any]:
    layer = layer_of(node, quantized=True)
    return () if layer is None else [layer.outputs]


def _computed(*places: int) -> Callable[[Node], Iterable[Any]]:
    """Whether any of these inputs is computed: 1 or 0; what is dequantized from a constant is not."""

    def found(node: Node) -> Iterable[Any]:
        given = [node.inputs[place] for place in places if place < len(node.inputs)]
        return [int(any(one is not None and one.name and not _is_held(one) for one in given))]

    return found


def _is_held(tensor: Tensor) -> bool:
    maker = tensor.producer
    return tensor.is_constant or (maker is not None and all(t is None or t.is_constant for t in maker.inputs))


def _end(place: int, name: str) -> Callable[[Node], Iterable[Any]]:
    def found(node: Node) -> Iterable[Any]:
        if node.op != "Clip":
            return ()
        tensor = node.inputs[place] if place < len(node.inputs) else None
        value = node.attr(name, None) if tensor is None else tensor.scalar
        return ["none" if value is None else float(value)]

    return found


def _scales(node: Node) -> list[float]:
    before, after = ([size for size in (t and t.shape) or () if isinstance(size, int)] for t in _ends(node))
    if not before or len(before) != len(after) or not all(before):
        return []
    return [large / small for small, large in zip(before, after, strict=True)]


def _ends(node: Node) -> tuple[Tensor | None, Tensor]:
    return node.inputs[0], node.outputs[0]


def _axis(node: Node) -> Iterable[Any]:
    rank = _rank(node.outputs[0])
    return [node.attr("axis", 1) % rank[0]] if rank and rank[0] else ()


def _left_out(node: Node) -> Iterable[Any]:
    padded = any(node.attr("pads", None) or ())
    return [int(node.op == "AveragePool" and padded and not node.attr("count_include_pad", 0))]


def _batch_changed(node: Node) -> Iterable[Any]:
    one, other = node.inputs[0], node.outputs[0]
    if one is None or not one.shape or not other.shape:
        return ()
    moved = node.op == "Transpose" and (node.attr("perm", None) or [1])[0] != 0
    return [int(one.shape[0] != other.shape[0] or moved)]


def _batch_reduced(node: Node) -> Iterable[Any]:
    if node.op == "GlobalMaxPool":
        return [0]
    axes = node.attr("axes", None)
    given = node.inputs[1] if len(node.inputs) > 1 else None
    if axes is None and given is not None and given.constant is not None:
        axes = given.constant.reshape(-1).tolist()
    rank = _rank(node.inputs[0])
    return [int(axes is None or any(rank and axis % rank[0] == 0 for axis in axes))]


_MEASURES: Mapping[str, Callable[[Node], Iterable[Any]]] = {
    "rank": lambda node: _rank(node.inputs[0]),
    "rank behind it": lambda node: _rank(node.outputs[0]),
    "kernel size": _kernel,
    "stride": _listed("strides"),
    "padding": _listed("pads", 0),
    "output padding": _listed("output_padding", 0),
    "dilation": _listed("dilations"),
    "groups": lambda node: [node.attr("group", 1)],
    "output channels": _outputs,
    "computed weights": _computed(1),
    "computed slopes": _computed(1),
    "computed places": _computed(1, 2, 3, 4),
    "excluded padding": _left_out,
    "lower end": _end(1, "min"),
    "upper end": _end(2, "max"),
    "window": lambda node: [node.attr("size", 0)],
    "axis": _axis,
    "number of inputs": lambda node: [len(node.inputs)],
    "mode": lambda node: [node.attr("mode", "nearest")],
    "scale of channels": lambda node: _scales(node)[:2],
    "scale": lambda node: _scales(node)[2:],
    "linear scale": lambda node: _scales(node)[2:] if node.attr("mode", "") == "linear" else (),
    "reduced batch": _batch_reduced,
    "changed batch": _batch_changed,
}
"""What a limit is `of`: the values that a node has of it; none where they are not known."""

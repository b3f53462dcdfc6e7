"""Small nets of a few lines, and what tests of edits ask of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper, parser

from onnxq.base.reason import Reason
from onnxq.body.convert import to_half
from onnxq.compiled.traffic import traffic
from onnxq.graph.model import Model
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap, edited
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.ranges import Range
from onnxq.repair.statistics import channel_axes
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt

RULES = load_rules(())


def net(
    body: str,
    weights: Mapping[str, Sequence[int] | np.ndarray],
    x: str = "float[2, 16, 12, 12]",
    y: str = "y",
    seed: int = 0,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model of these lines; weights of a shape are normal, of variance 1 / terms."""
    model = parser.parse_model(
        f'<ir_version: 8, opset_import: ["" : {opset}, "com.microsoft" : 1]> g ({x} x) => ({y}) {{ {body} }}'
    )
    rng = np.random.default_rng(seed)
    kind = np.float16 if x.startswith("float16") else np.float32
    for name, given in weights.items():
        if not isinstance(given, np.ndarray):
            terms = int(np.prod(given[1:])) if len(given) > 2 else given[0]
            given = (rng.standard_normal(given) / np.sqrt(max(terms, 1))).astype(kind)
        model.graph.initializer.append(numpy_helper.from_array(given, name))
    return onnx.shape_inference.infer_shapes(model)


def samples(model: onnx.ModelProto, count: int = 3, seed: int = 7) -> list[dict[str, np.ndarray]]:
    """Normal inputs."""
    rng = np.random.default_rng(seed)
    kinds = {
        x.name: onnx.helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type) for x in model.graph.input
    }
    shapes = {x.name: [dim.dim_value for dim in x.type.tensor_type.shape.dim] for x in model.graph.input}
    return [
        {name: rng.standard_normal(shape).astype(kinds[name]) for name, shape in shapes.items()}
        for _ in range(count)
    ]


def values_of(
    model: onnx.ModelProto, feeds: Sequence[Mapping[str, np.ndarray]], names: Sequence[str]
) -> list[np.ndarray]:
    """Tensors over samples, float64, stacked."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    del copy.graph.output[:]
    copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names)
    session = ort.load(onnx.shape_inference.infer_shapes(copy), optimize=False)
    runs = [session.run(feed, names) for feed in feeds]
    return [np.stack([np.asarray(run[k], np.float64) for run in runs]) for k in range(len(names))]


def sqnr(reference: np.ndarray, found: np.ndarray) -> float:
    """Of a tensor, dB."""
    error = float(np.sum((reference - found) ** 2))
    return float(10 * np.log10(np.sum(reference**2) / max(error, 1e-300)))


def ranges(amax: Mapping[str, float]) -> dict[str, Range]:
    """Ranges of tensors, by the greatest magnitude."""
    return {name: Range(value, Reason("method", "minmax")) for name, value in amax.items()}


class Case:
    """A model with a plan, the ranges of its tensors and the magnitudes of their channels."""

    def __init__(self, proto: onnx.ModelProto) -> None:
        self.model = Model.open(proto)
        self.proto = self.model.to_proto()
        self.feeds = samples(proto)
        self.plan = make_plan(self.model, RULES)
        axes = channel_axes(self.model, self.plan)
        names = list({**dict.fromkeys(self.plan.measured), **axes})
        measured = dict(zip(names, values_of(self.proto, self.feeds, names), strict=True)) if names else {}
        amax = {name: float(np.abs(measured[name]).max()) for name in self.plan.measured}
        self.channels = {
            name: np.abs(np.moveaxis(measured[name], axis + 1, 0))
            .reshape(measured[name].shape[axis + 1], -1)
            .max(1)
            .astype(np.float32)
            for name, axis in axes.items()
        }
        self.draft = Draft(self.plan, ranges(amax))
        self.outputs = [output.name for output in proto.graph.output]

    def edited(self, draft: Draft) -> onnx.ModelProto:
        """The float model with the edits of a draft."""
        before = self.model.to_proto()
        model, _ = edited(self.model, draft.edits)
        result = model.to_proto()
        onnx.checker.check_model(result, full_check=True)
        assert self.model.to_proto() == before
        assert {node.name for node in before.graph.node} <= {node.name for node in result.graph.node}
        return result

    def quantized(self, draft: Draft) -> onnx.ModelProto:
        """The model that is written."""
        model, _ = edited(self.model, draft.edits)
        result = insert(model, draft.plan, draft.scales, draft.patches).model.to_proto()
        onnx.checker.check_model(result, full_check=True)
        return result

    def close(self, draft: Draft) -> float:
        """The least SQNR of an output of the edited float model, dB."""
        names = self.outputs
        pairs = zip(
            values_of(self.proto, self.feeds, names),
            values_of(self.edited(draft), self.feeds, names),
            strict=True,
        )
        return min(sqnr(*pair) for pair in pairs)

    def noise(self, draft: Draft) -> float:
        """The SQNR of the first output of the quantized model, dB."""
        names = self.outputs[:1]
        (reference,) = values_of(self.proto, self.feeds, names)
        (found,) = values_of(self.quantized(draft), self.feeds, names)
        return sqnr(reference, found)

    def follows_maps(self, draft: Draft) -> float:
        """The least SQNR, dB, of a tensor of both models to what the maps say of it: nothing, if it stays.

        No axis of samples, nor the first one, has as many elements as channels.
        """
        result, maps = edited(self.model, draft.edits)
        own, made = (computed(model) for model in (self.model, result))
        names = [name for name in made if name in own or name in maps]
        least = np.inf
        for name, before, after in zip(
            names,
            values_of(self.proto, self.feeds, [(maps[n].was if n in maps else "") or n for n in names]),
            values_of(result.to_proto(), self.feeds, names),
            strict=True,
        ):
            change = maps.get(name, ChannelMap.of())
            sizes = {part.size for part in (change.scale, change.offset) if part.ndim}
            axes = [axis for axis in range(2, before.ndim) if before.shape[axis] in sizes]
            if change.axis is not None:
                axes = [change.axis + 1]
            told = change.apply(before, axes[0] if axes else 2)
            least = min(least, sqnr(told, after))
        return least


def computed(model: Model) -> list[str]:
    """The float tensors that nodes give."""
    given = [tensor for node in model.graph.nodes for tensor in node.outputs]
    return [tensor.name for tensor in given if tensor.dtype in (np.float32, np.float16)]


def kernels(proto: onnx.ModelProto, folder: Path, *, half: bool = False) -> tuple[int, int]:
    """How many kernels NVIDIA's compiler makes of a model, and how many of them multiply int8."""
    if half:
        proto = to_half(Model.open(proto), "fp16", {}).model.to_proto()
    path = folder / "model.onnx"
    onnx.save(proto, path)
    engine = trt.compile_engine(path)
    assert engine.status == "compiled", engine.reason
    return traffic(engine.layers).kernels, sum(layer.multiplies("int8") for layer in engine.layers)

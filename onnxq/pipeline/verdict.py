"""What quantization does to an engine: the same model in plain float16 is compiled beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.reason import noted, reason
from onnxq.body.convert import to_half
from onnxq.compiled.kernels import kernels_of
from onnxq.compiled.verdict import Form, Verdict, judge
from onnxq.emit import files
from onnxq.formats import INT8, LayerFormat, in_words
from onnxq.graph.layers import multiplies
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ, PairIndex, is_dequantized, own_format
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.graph.types import is_static
from onnxq.graph.unquantized import unquantized
from onnxq.graph.view import Tensor
from onnxq.pipeline.building import Built
from onnxq.quant.plan import PlannedLayer, QuantPlan
from onnxq.run import trt
from onnxq.run.profiles import Profile
from onnxq.targets import Target

NO_LAYERS = "nothing is quantized"


def form_of(target: Target) -> Form:
    """Which engines are the target's: those that TensorRT-RTX builds anywhere, or those built on a GPU."""
    return "built" if target.compiler == "own" else "merged"


@dataclass(frozen=True, slots=True)
class Plain:
    """A model in plain float16, which is what the quantized one is compared with.

    Attributes:
        proto: the model; None where there is none.
        why: why there is none.
        nodes: names of the nodes of the float model.
        sizes: the shapes that inputs are given before both models are compiled for the comparison alone;
            None where the engine of the result tells: it does not where sizes other than 1 are dynamic.
        data_dir: the folder that its external data is relative to.
        halves: whether the builder makes float16 of what is float32 in the result, by its flags: then it is
            compared so.
    """

    proto: onnx.ModelProto | None
    why: str = ""
    nodes: frozenset[str] = frozenset()
    sizes: Mapping[str, Sequence[int]] | None = None
    data_dir: Path | None = None
    halves: bool = False

    @staticmethod
    def of(built: Built, *, profiles: Mapping[str, Profile]) -> Plain:
        """That of a model that is being quantized: as it was sanitized, without what repair edits.

        Of a model that came quantized it is that without its pairs.

        Args:
            built: that model; whether inputs and outputs are float16 too is as in it.
            profiles: of the dynamic inputs.
        """
        job = built.job
        if not built.draft.plan.planned:
            return Plain(None, NO_LAYERS)
        if weight_bytes(built.floats.proto) >= LARGE:
            command = f"onnxq engine {job.model.path or 'MODEL'} --against-fp16"
            return Plain(None, reason("not-compiled-again", command=command))
        model = job.unquantized() or job.model
        plain = plain_of(model, io=built.draft.body.io, profiles=profiles)
        if job.target.strongly_typed:
            return plain
        usual = {name: profile[1] for name, profile in profiles.items()}
        return replace(plain, halves=True, sizes=usual)

    def fixed(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A model with `sizes`."""
        if self.sizes is None:
            return model
        fixed = onnx.ModelProto()
        fixed.CopyFrom(model)
        del fixed.graph.value_info[:]
        for info in fixed.graph.input:
            for dim, size in zip(
                info.type.tensor_type.shape.dim, self.sizes.get(info.name, ()), strict=False
            ):
                dim.dim_value = size
        return fixed


def plain_of(model: Model, *, io: bool, profiles: Mapping[str, Profile]) -> Plain:
    """The plain float16 form of a float model.

    Args:
        model: the model.
        io: whether its inputs and outputs are float16 too.
        profiles: of the dynamic inputs.
    """
    usual = {name: profile[1] for name, profile in profiles.items()}
    dynamic = {
        size
        for one in model.inputs
        for dim, size in zip(one.shape or (), usual.get(one.name, ()), strict=False)
        if not isinstance(dim, int)
    }
    try:
        proto = to_half(model, "fp16", {}, io=io).model.to_proto(handover=True)
    except UserError as error:
        return Plain(None, reason("no-float16-form", error=error))
    nodes = frozenset(node.name for node in model.nodes)
    return Plain(proto, "", nodes, None if dynamic <= {1} else usual, model.data_dir)


def verdict_of(
    plain: Plain,
    fp16: trt.Engine | None,
    int8: trt.Engine,
    quantized: onnx.ModelProto,
    plan: QuantPlan,
    form: Form,
) -> Verdict:
    """Compares what was compiled.

    Args:
        plain: the model in float16.
        fp16: its engine; None where it was not compiled.
        int8: the engine of the quantized model.
        quantized: the quantized model as it is written.
        plan: what is quantized in it.
        form: which engines are the target's.
    """
    format = plan.format_names
    if plain.proto is None or not plan.planned:
        return Verdict(plain.why or NO_LAYERS, form, format=format)
    if plain.sizes is not None and int8.status == "compiled":
        if plain.halves:
            half = to_half(Model(quantized, None, plain.data_dir), "fp16", {})
            quantized = half.model.to_proto(handover=True)
        fp16, int8 = _compiled([plain.fixed(plain.proto), plain.fixed(quantized)], plain.data_dir, int8.sm)
    for what, engine in (("the result", int8), ("the model in plain float16", fp16)):
        if engine is None or engine.status != "compiled":
            why = trt.plain(engine.reason).split("\n")[0] if engine is not None else "not compiled"
            return Verdict(f"{what} does not compile: {why}", form, format=format)
        if engine.unread:
            return Verdict(reason("unread-kernels", engine=what), form, format=format)
    assert fp16 is not None
    operators = {node.name: node.op_type for node in quantized.graph.node}
    verdict = judge(
        kernels_of(fp16.layers, {node.name: node.op_type for node in plain.proto.graph.node}),
        kernels_of(int8.layers, operators),
        form,
        layers=plan.planned,
        nodes=plain.nodes,
    )
    flags = [noted("engines-assumed.flags")] * plain.halves  # of targets that choose types by flags
    return replace(verdict, assumptions=(*verdict.assumptions, *flags), format=format)


def against_fp16(
    model: Path,
    *,
    sm: int = 89,
    profiles: Mapping[str, Profile] | None = None,
    form: Form = "merged",
) -> Verdict:
    """What quantization does to the engine of a file: against the same without its Q/DQ pairs.

    What else its maker changed for it, such as the post-scale form of weights, stays in it.

    Args:
        model: the file.
        sm: the compute capability to compile for, 89 for 8.9.
        profiles: smallest, usual and largest shapes of dynamic inputs; a dynamic size without one is 1.
        form: which engines are those that count: "merged" of TensorRT, "built" of TensorRT-RTX.

    Raises:
        UserError: the file cannot be read, or a profile does not fit.
    """
    opened = Model.open(model)
    if not any(node.op in QDQ for node in opened.nodes):
        return Verdict(NO_LAYERS, form)
    formats = PairIndex.of(opened).formats
    if trt.installed() is None:
        return Verdict(trt.compile_engine(model).reason, form, format=in_words(formats))
    dynamic = {one.name for one in opened.inputs if not is_static(one.shape)}
    usual = {name: profile for name, profile in (profiles or {}).items() if name in dynamic}
    float_model = Model(unquantized(opened.source, opened.data_dir), None, opened.data_dir)
    plain = plain_of(float_model, io=False, profiles=usual)
    if plain.proto is None:
        return Verdict(plain.why, form, format=in_words(formats))
    names = {node.name for node in float_model.nodes}
    products = tuple(
        PlannedLayer(node.name, node.op, None, True, True, cast(LayerFormat, own_format(node) or INT8.name))
        for node in opened.nodes
        if multiplies(node) and node.name in names and all(map(_dequantized, node.operands(2)))
    )
    with interrupts.Folder() as folder:
        path = Path(folder) / "plain.onnx"
        files.save_model(plain.proto, path, None)
        fp16 = int8 = trt.Engine("not-run", "", "", sm)
        if plain.sizes is None:
            int8, fp16 = trt.compile_engines([model, path], sm=sm, profiles=usual)
        else:
            int8 = trt.Engine("compiled", "", "", sm)  # compiled below, with fixed sizes
    return verdict_of(plain, fp16, int8, opened.source, QuantPlan(layers=products), form)


def _dequantized(tensor: Tensor | None) -> bool:
    return tensor is not None and is_dequantized(tensor)


def _compiled(models: Sequence[onnx.ModelProto], data_dir: Path | None, sm: int) -> list[trt.Engine]:
    with interrupts.Folder() as folder:
        paths = []
        for place, model in enumerate(models):
            paths.append(Path(folder) / f"{place}.onnx")
            files.save_model(model, paths[-1], data_dir)
        return trt.compile_engines(paths, sm=sm)

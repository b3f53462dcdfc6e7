"""Whether the compiled engine shows what a finding says: its kernels know more than any rule about it."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnxq.compiled.kernels import Kernel, kernels_of
from onnxq.finding import Finding, finding
from onnxq.quant.lint.subject import Product, Subject
from onnxq.run.trt import Engine

# What NVIDIA's parser and builder say of a mistake. They name the first node that has it, if any.
_WORDS: Mapping[str, str] = {
    "int32-dequantize": r"has type Int32",
    "zero-point": r"Non-zero zero point|unsupported input type of UINT8",
    "16-bit": r"[Uu]nsupported data ?type|convertOnnxWeights",
    "scale-sign": r"Scale coefficients must all be positive",
    "scale-types": r"type mismatch between matmul operand scales",
    "computed-scale": r"the compiler crashed",
}


def confirm(findings: Iterable[Finding], subject: Subject, engine: Engine) -> list[Finding]:
    """The findings with what the engine says of them, and what only the engine shows.

    A finding that the engine contradicts becomes a note that says so; a note that it contradicts goes.

    Args:
        findings: of the lint of the model.
        subject: the model.
        engine: what came of compiling that model as it is.
    """
    known = list(findings)
    if engine.status == "failed":
        return [_of_failure(one, engine) for one in known]
    if engine.status != "compiled" or not engine.layers:
        return known
    seen = _Seen.of(subject, kernels_of(engine.layers))
    judged = [_judged(one, seen) for one in known]
    told = {one.node for one in known}
    return [one for one in judged if one is not None] + _float_layers(seen, told)


def explains(findings: Iterable[Finding], said: str) -> bool:
    """Whether a finding says already what NVIDIA's parser or compiler says, without naming the node."""
    return any(one.confirmed and _says(said, one.check) for one in findings)


def _says(text: str, check: str) -> bool:
    return check in _WORDS and re.search(_WORDS[check], text) is not None


def _of_failure(one: Finding, engine: Engine) -> Finding:
    said = "\n".join([engine.reason, *(error.message for error in engine.errors), *engine.warnings])
    return dataclasses.replace(one, confirmed=True) if _says(said, one.check) else one


def _judged(one: Finding, seen: _Seen) -> Finding | None:
    judge = _JUDGES.get(one.check)
    verdict = judge(one, seen) if judge is not None else None
    if verdict is not False:
        return dataclasses.replace(one, confirmed=verdict)
    if one.severity == "note":
        return None
    consequence = f"the engine compiled here does not show it; elsewhere, {one.consequence}"
    return dataclasses.replace(one, severity="note", confirmed=False, consequence=consequence)


def _float_layers(seen: _Seen, told: set[str]) -> list[Finding]:
    """Products whose pairs ask for int8, which run in float, and nothing in the file says why."""
    found = []
    for product in seen.products.values():
        if not product.is_int8 or product.node.name in told:
            continue
        if told & {pair.node.name for pair in (*product.of_data, *product.of_weight)}:
            continue
        precision = seen.precision(product.node.name)
        if precision not in (None, "int8"):
            one = finding(
                "not-int8", product.node.name, product.node.op,
                f"both of its operands are quantized, and the compiler runs it in {precision}",
                "leave its operands in float, or report the model: no known reason applies",
                tensor=product.data.name, consequence="its pairs cost accuracy and kernels, and save nothing",
            )  # fmt: skip
            found.append(dataclasses.replace(one, confirmed=True))
    return found


@dataclass(frozen=True, slots=True)
class _Seen:
    """An engine by ONNX node.

    Attributes:
        products: the products of the model with quantized operands, by name.
        subject: the model.
        kernels: the kernels that list a node, by its name.
    """

    products: Mapping[str, Product]
    subject: Subject
    kernels: Mapping[str, Sequence[Kernel]]

    @classmethod
    def of(cls, subject: Subject, kernels: Iterable[Kernel]) -> _Seen:
        names = {  # the compiler's for a node without one in the file; the model gives it another
            f"node_of_{node.outputs[0].name}": node.name
            for graph in subject.model.graphs()
            for node in graph.nodes
            if node.outputs
        }
        listing: dict[str, list[Kernel]] = {}
        for kernel in kernels:
            for node in kernel.nodes:
                listing.setdefault(names.get(node, node), []).append(kernel)
        return cls({product.node.name: product for product in subject.products}, subject, listing)

    def product(self, node: str) -> Kernel | None:
        """The kernel that multiplies for a node; of several one that does not in int8."""
        found = [kernel for kernel in self.kernels.get(node, ()) if kernel.is_product]
        return min(found, key=lambda kernel: kernel.precision == "int8", default=None)

    def precision(self, node: str) -> str | None:
        """What a node is multiplied in; None where no kernel multiplies for it."""
        kernel = self.product(node)
        return None if kernel is None else kernel.precision

    def quantizers(self, node: str) -> list[str]:
        """The names of a DequantizeLinear and of the QuantizeLinear in front of it."""
        for pair in self.subject.pairs:
            if pair.node.name == node:
                source = pair.node.operands(1)[0]
                maker = source.producer if source is not None else None
                return [node] if maker is None else [node, maker.name]
        return [node]


# --- a judge says: it shows (True), it contradicts (False), it cannot tell (None) -------------------


def _in_float(one: Finding, seen: _Seen) -> bool | None:
    precision = seen.precision(one.node)
    return None if precision is None else precision != "int8"


def _in_int8(one: Finding, seen: _Seen) -> bool | None:
    precision = seen.precision(one.node)
    return None if precision is None else precision == "int8"


def _readers_in_float(one: Finding, seen: _Seen) -> bool | None:
    """Whether a product that reads a pair runs in float."""
    found = [
        seen.precision(name)
        for name, product in seen.products.items()
        for pair in (*product.of_data, *product.of_weight)
        if one.node in seen.quantizers(pair.node.name)
    ]
    told = [precision != "int8" for precision in found if precision is not None]
    return any(told) if told else None


def _makes_weights(one: Finding, seen: _Seen) -> bool | None:
    """Whether a kernel dequantizes the weights of a product."""
    product = seen.products.get(one.node)
    if product is None or seen.product(one.node) is None:
        return None
    return any(
        kernel.kind == "weights"
        for pair in product.of_weight
        for kernel in seen.kernels.get(pair.node.name, ())
    )


def _larger(one: Finding, seen: _Seen) -> bool | None:
    """Whether a convolution reads more channels than it would in float, or does not run in int8."""
    kernel, product = seen.product(one.node), seen.products.get(one.node)
    if kernel is None or product is None or product.layer is None:
        return None
    if kernel.precision != "int8":
        return True
    shape = kernel.inputs[0].shape if kernel.inputs else ()
    return shape[1] > product.layer.inputs if len(shape) > 1 else None


def _more_kernels(one: Finding, seen: _Seen) -> bool | None:
    product = seen.products.get(one.node)
    if product is None or seen.product(one.node) is None:
        return None
    names = [one.node, *(name for pair in product.of_data for name in seen.quantizers(pair.node.name))]
    return len({kernel.name for name in names for kernel in seen.kernels.get(name, ())}) > 1


def _only_rounds(one: Finding, seen: _Seen) -> bool | None:
    """Whether no kernel writes the codes of a pair."""
    kernels = [kernel for name in seen.quantizers(one.node) for kernel in seen.kernels.get(name, ())]
    if not kernels:
        return False
    return not any(tensor.dtype in ("int8", "uint8") for kernel in kernels for tensor in kernel.outputs)


def _unfused(one: Finding, seen: _Seen) -> bool | None:
    kernels = seen.kernels.get(one.node, ())
    return not any(kernel.kind == "attention" for kernel in kernels) if kernels else None


def _as_int8(one: Finding, seen: _Seen) -> bool | None:
    """Whether codes that are uint8 in the file are not in the engine."""
    kernels = [kernel for name in seen.quantizers(one.node) for kernel in seen.kernels.get(name, ())]
    tensors = [tensor for kernel in kernels for tensor in (*kernel.inputs, *kernel.outputs)]
    return all(tensor.dtype != "uint8" for tensor in tensors) if tensors else None


def _sums_in_half(one: Finding, seen: _Seen) -> bool | None:
    """Whether a product of int8 writes float16, which another kernel scales then."""
    kernel = seen.product(one.node)
    if kernel is None:
        return None
    if kernel.precision != "int8" or not kernel.outputs:
        return False
    others = [other for other in seen.kernels[one.node] if other is not kernel and other.kind != "weights"]
    return kernel.outputs[0].dtype == "fp16" and bool(others)


def _is_built(one: Finding, seen: _Seen) -> bool | None:
    """The engine is there, although the finding says that it is not built."""
    return False


_JUDGES: Mapping[str, Callable[[Finding, _Seen], bool | None]] = {
    "int32-dequantize": _is_built,
    "zero-point": _is_built,
    "16-bit": _is_built,
    "scale-sign": _is_built,
    "scale-types": _is_built,
    "uint8": _as_int8,
    "no-zero-point": _as_int8,
    "computed-scale": _readers_in_float,
    "one-element-scale": _readers_in_float,
    "fp16-product": _sums_in_half,
    "activation-axis": _in_float,
    "weight-axis": _in_float,
    "weight-blocks": _in_int8,
    "weights-only": _makes_weights,
    "input-only": _in_float,
    "half-product": _in_float,
    "concat-scales": _in_float,
    "half-attention": _unfused,
    "attention-size": _unfused,
    "ignored-pairs": _in_float,
    "padded-groups": _larger,
    "few-rows": _more_kernels,
    "idle-pair": _only_rounds,
    "quantized-output": _only_rounds,
}
"""How the engine is asked about each check. Of the others it cannot tell."""

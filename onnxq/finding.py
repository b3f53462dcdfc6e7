"""What a check says against a model: one type and one table of severities for all checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from onnxq.plain import DocumentPart

Severity = Literal["error", "warning", "note"]

SEVERITIES: Mapping[Severity, str] = {
    "error": "the target rejects it, or computes something else than the file says",
    "warning": "it works, but not in the precision or at the speed that the file asks for, or not surely",
    "note": "it gains nothing, or is of interest only",
}
"""In the order in which findings are shown."""


@dataclass(frozen=True, slots=True)
class Check:
    """What is looked for.

    Attributes:
        kind: the group of its findings, `Finding.kind`.
        severity: how bad a finding is.
        what: what is wrong then, in a few words.
        lacks: the feature of the target's table that a repair rule of `onnxq sanitize` makes up for.
    """

    kind: str
    severity: Severity
    what: str
    lacks: str = ""


CHECKS: Mapping[str, Check] = {
    # what the target does not take
    "unsupported": Check("unsupported", "error", "an operator, type or feature that the target lacks"),
    "repairable": Check("repairable", "error", "the same, where a rule of `onnxq sanitize` repairs it"),
    "near-miss": Check("near-miss", "error", "the same, where a rule would if it knew more"),
    "parser": Check("parser", "error", "NVIDIA's parser rejects the file"),
    "compiler": Check("compiler", "error", "NVIDIA's compiler builds no engine"),
    "plugin": Check("plugin", "note", "a plugin of the target's own library"),
    "runtime": Check("runtime", "warning", "onnxruntime does not take the file: nothing can be measured"),
    # pairs that TensorRT rejects, or reads otherwise
    "int32-dequantize": Check("qdq", "error", "int32 codes, as of a bias", "int32-dequantize"),
    "zero-point": Check("qdq", "error", "a zero point other than 0", "asymmetric-quantization"),
    "uint8": Check("qdq", "error", "uint8 codes", "asymmetric-quantization"),
    "no-zero-point": Check("qdq", "error", "a QuantizeLinear without zero point", "asymmetric-quantization"),
    "16-bit": Check("qdq", "error", "codes of 16 bits", "asymmetric-quantization"),
    "scale-sign": Check("qdq", "error", "a scale of 0, or a negative one", "zero-scales"),
    "scale-types": Check("qdq", "error", "scales of two types on the operands of a matrix product"),
    "computed-scale": Check("qdq", "error", "a scale that is computed at run time"),
    "one-element-scale": Check("qdq", "error", "a scale of the shape [1]", "one-element-scales"),
    "weight-blocks": Check("qdq", "error", "int8 weights with a scale a block, and an int8 input"),
    # pairs that do not give the int8 that they ask for
    "fp16-product": Check("qdq", "warning", "float16 scales, one a channel, of a matrix product"),
    "activation-axis": Check("qdq", "warning", "an activation with a scale a channel"),
    "weight-axis": Check("qdq", "warning", "weights with a scale for each input channel"),
    "weights-only": Check("qdq", "warning", "quantized weights, a float input"),
    "input-only": Check("qdq", "warning", "a quantized input, float weights"),
    "half-product": Check("qdq", "warning", "a product of two activations of which one is quantized"),
    "concat-scales": Check("qdq", "warning", "a Concat of different scales and no pair behind it"),
    "half-attention": Check("qdq", "warning", "attention with some of its pairs"),
    "attention-size": Check("qdq", "warning", "int8 attention of a size without an int8 kernel"),
    "ignored-pairs": Check("qdq", "warning", "int8 of an operator that has no int8 kernel"),
    "padded-groups": Check("qdq", "warning", "int8 of a convolution of small groups"),
    "not-int8": Check("qdq", "warning", "pairs of a layer that the engine runs in float"),
    "residual-view": Check("miscompile", "warning", "a residual Add that may read a Concat's buffer wrongly"),
    # what gains nothing, or may be right
    "few-rows": Check("qdq", "note", "int8 of a layer too small for it"),
    "fp16-scale": Check("qdq", "note", "a float16 scale so small that its rounding shows"),
    "idle-pair": Check("qdq", "note", "a pair that only rounds"),
    "quantized-output": Check("qdq", "note", "a pair in front of an output"),
    # what data show: why the scale of a tensor does not suit it
    "boxes-with-scores": Check("data", "warning", "boxes and scores in one Concat, under one scale"),
    "concat-ranges": Check("data", "warning", "inputs of one Concat that need very different scales"),
    "shared-scale": Check("data", "warning", "one scale for several uses that need very different ones"),
    "bimodal": Check("data", "warning", "values of two sizes and none between, under one scale"),
    "outlier-channel": Check("data", "warning", "few channels that have the whole range"),
    "scale-misfit": Check("data", "warning", "a scale that saturates the data, or covers much more"),
    "far-range": Check("data", "warning", "a scale for a range that hardly a value reaches"),
    # what data show of layers
    "unfused": Check("data", "warning", "an activation that could be computed with its layer, and is not"),
    "add-ranges": Check("data", "warning", "an Add whose smaller addend the scale of the sum rounds away"),
    "weight-scale": Check("data", "warning", "one scale for a weight whose channels differ"),
    "heavy-float": Check("data", "warning", "a heavy layer that stays in float"),
    "heavy-ineligible": Check("data", "note", "a heavy layer that int8 does not make faster"),
    "coarse-output": Check("data", "warning", "a quantized output with much rounding noise"),
    "odd-type": Check("data", "warning", "double precision, strings, or arithmetic in int64"),
    # what is doubtful about the data themselves
    "few-samples": Check("data", "warning", "too few samples to settle the scales"),
    "input-units": Check("data", "warning", "an input in other units than the model takes"),
    "input-pixels": Check("data", "note", "pixels from 0 to 255, as far as data tell"),
    "channel-order": Check("data", "warning", "channels, or the mean taken from them, in reverse order"),
    "yuv-input": Check("data", "warning", "images in YUV"),
    "doubtful-data": Check("data", "warning", "samples that are bad, equal or constant"),
    "not-measured": Check("data", "warning", "the data could not be run through the model"),
    "failed-check": Check("data", "note", "a check that failed: a fault of onnxq"),
    "own-check": Check("own", "warning", "what a function of yours finds, where it states no severity"),
    "broken-check": Check("own", "error", "a function of yours that fails, or gives no findings"),
}  # fmt: skip
"""Every check. Its severity stands here and nowhere else."""


@dataclass(frozen=True, slots=True)
class Finding(DocumentPart):
    """What a check says against a model.

    Attributes:
        kind: the group that it belongs to.
        check: the check, a key of `CHECKS`.
        severity: how bad it is.
        node: the node's name, "" where it is about the whole model.
        op: its operator.
        tensor: the tensor that it is about, "" where that is the node.
        reason: what is wrong.
        consequence: what comes of it.
        advice: what to do.
        db: the signal to rounding noise of the tensor under its scale, dB, where it is measured; of a check
            of yours what that states.
        confirmed: whether the compiled engine shows the consequence; None: it was not asked, or cannot tell.
    """

    kind: str
    check: str
    severity: Severity
    node: str
    op: str
    tensor: str
    reason: str
    consequence: str
    advice: str
    db: float | None = None
    confirmed: bool | None = None

    @property
    def lacks(self) -> str:
        """The feature of the target's table that a rule of `onnxq sanitize` makes up for, "" for none."""
        return CHECKS[self.check].lacks


def finding(
    check: str,
    node: str = "",
    op: str = "",
    reason: str = "",
    advice: str = "",
    *,
    tensor: str = "",
    consequence: str = "",
    db: float | None = None,
) -> Finding:
    """A finding of a check, with the severity that the table gives it.

    Raises:
        KeyError: there is no such check.
    """
    known = CHECKS[check]
    return Finding(known.kind, check, known.severity, node, op, tensor, reason, consequence, advice, db)


def exit_code(findings: Iterable[Finding], *, strict: bool = False) -> int:
    """1 where there is an error, or with `strict` a warning; else 0. Notes never count."""
    failing = ("error", "warning") if strict else ("error",)
    return int(any(one.severity in failing for one in findings))


def by_severity(findings: Iterable[Finding]) -> list[Finding]:
    """The worst first, else in their order."""
    order = list(SEVERITIES)
    return sorted(findings, key=lambda one: order.index(one.severity))


def failed_check(name: str, error: Exception) -> Finding:
    """That a check ended in a fault of onnxq, which costs none of the others."""
    return finding(
        "failed-check", reason=f"the check {name!r} failed: {type(error).__name__}: {error}",
        advice="report the model: this is a fault of onnxq", consequence="nothing else is missing",
    )  # fmt: skip

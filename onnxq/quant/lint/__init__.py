"""Mistakes in the Q/DQ pairs of a model, as TensorRT sees them.

Each check is a function of the model (`subject.Subject`) that gives findings; which ones there are stands in
`LINTS`, how bad they are in `onnxq.finding`.
"""

from __future__ import annotations

from collections.abc import Mapping

from onnxq.finding import Finding, failed_check
from onnxq.graph.model import Model
from onnxq.graph.pairs import QDQ
from onnxq.quant.lint import attention, axes, codes, halves, idle, miscompiles, scales, sizes
from onnxq.quant.lint.compiled import confirm, explains
from onnxq.quant.lint.subject import Lint, Subject, subject_of
from onnxq.run.trt import Engine
from onnxq.target import DEFAULT

__all__ = ["LINTS", "confirmed_lint", "explains", "lint_pairs", "lint_qdq"]

LINTS: Mapping[str, Lint] = {
    "int32-dequantize": codes.int32_codes,
    "zero-point": codes.zero_points,
    "uint8": codes.uint8_codes,
    "no-zero-point": codes.no_zero_point,
    "16-bit": codes.sixteen_bits,
    "scale-sign": scales.scale_signs,
    "computed-scale": scales.computed_scales,
    "one-element-scale": scales.one_element,
    "scale-types": scales.scale_types,
    "fp16-scale": scales.fp16_scales,
    "fp16-product": scales.fp16_products,
    "activation-axis": axes.activation_axes,
    "weight-axis": axes.weight_axes,
    "weight-blocks": axes.weight_blocks,
    "weights-only": halves.weights_only,
    "input-only": halves.input_only,
    "half-product": halves.half_products,
    "concat-scales": halves.concat_scales,
    "half-attention": attention.half_attention,
    "attention-size": attention.attention_sizes,
    "ignored-pairs": sizes.ignored_pairs,
    "padded-groups": sizes.padded_groups,
    "few-rows": sizes.few_rows,
    "idle-pair": idle.idle_pairs,
    "quantized-output": idle.quantized_outputs,
    "residual-view": miscompiles.residual_views,
}
"""The check of each name of `onnxq.finding.CHECKS` that looks at the file alone."""

_MISREAD = (
    "int32-dequantize", "zero-point", "uint8", "no-zero-point", "16-bit", "scale-sign", "computed-scale",
    "one-element-scale",
)  # fmt: skip


def lint_qdq(model: Model, target: str = DEFAULT) -> list[Finding]:
    """All mistakes in the pairs of a model, and in what is around them, that can be read from the file.

    Args:
        model: the model; its `limits` are those of the target.
        target: the target's name.
    """
    return _lint(subject_of(model, target))


def confirmed_lint(model: Model, target: str, engine: Engine | None) -> list[Finding]:
    """The same, with what the engine says of it.

    Args:
        model: the model; its `limits` are those of the target.
        target: the target's name.
        engine: what came of compiling that model as it is; None where it was not compiled.
    """
    subject = subject_of(model, target)
    found = _lint(subject)
    return found if engine is None else confirm(found, subject, engine)


def _lint(subject: Subject) -> list[Finding]:
    found: list[Finding] = []
    for name, lint in LINTS.items():
        try:
            found += list(lint(subject))
        except Exception as error:  # of ours: it costs none of the others
            found.append(failed_check(name, error))
    return found


def lint_pairs(model: Model) -> list[Finding]:
    """Those of them about the Q/DQ nodes themselves that TensorRT refuses or misreads."""
    subject = subject_of(model, DEFAULT)
    return [found for name in _MISREAD for found in LINTS[name](subject) if found.op in QDQ]

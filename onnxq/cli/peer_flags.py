"""Flags that users of other tools type, and what they are called here.

Of Model-Optimizer, onnxruntime, AIMET, polygraphy, trtexec and Ultralytics. What means the same, with one
value a flag, is taken as it is; of the others the line to type is said.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

SAME: Mapping[str, str] = {
    "--calibration-method": "--method", "--calibration_method": "--method", "--calib-method": "--method",
    "--exclude-nodes": "--keep-float", "--exclude": "--keep-float", "--exclude-ops": "--keep-float-op",
    "--input-shape": "--shape", "--batch-size": "--batch",
    "--calibration-data": "--calib", "--calibration_data": "--calib",
    "--calibration-data-path": "--calib", "--calibration_data_path": "--calib",
    "--output-path": "--output", "--output_path": "--output",
    "--compute-capability": "--sm",
}  # fmt: skip

_IN_INT8 = "leave it out: onnxq quantize writes int8, onnxq sanitize the model in float"
_MODEL = "give the model without a flag: onnxq quantize MODEL --calib DATA"
_BODY = "give --body fp16, bf16 or fp32: the type of what is not quantized"
_PER_CHANNEL = "leave it out: weights have a scale a channel; --scale-form says of what form"
_INPUTS = "give --shape INPUT=1x3x224x224 for each input"
_SHAPES = (
    "give --profile 'INPUT=1x3x224x224:4x3x224x224:8x3x224x224': the smallest, the usual, the largest shape"
)

OTHERS: Mapping[str, str] = {
    "--nodes_to_exclude": "give --keep-float NAME for each of them",
    "--op_types_to_exclude": "give --keep-float-op TYPE for each of them",
    "--op_types_to_quantize": "give --keep-float-op TYPE for each of the others",
    "--layerPrecisions": "give --keep-fp32 NAME for each layer in fp32",
    "--int8": _IN_INT8, "--quantize_mode": _IN_INT8,
    "--fp16": _BODY, "--bf16": _BODY, "--high_precision_dtype": _BODY,
    "--per-channel": _PER_CHANNEL, "--per_channel": _PER_CHANNEL,
    "--onnx_path": _MODEL, "--onnx": _MODEL, "--model": _MODEL,
    "--calibration_shapes": _INPUTS, "--input_shapes": _INPUTS, "--input-shapes": _INPUTS,
    "--minShapes": _SHAPES, "--optShapes": _SHAPES, "--maxShapes": _SHAPES,
    "--imgsz": "give --shape INPUT=1x3x640x640: images are resized to the input's size",
    "--data": "give --calib DATA: a folder or a file of samples; labels are --labels PATH",
    "--saveEngine": "leave it out: the line for trtexec is printed at the end",
}  # fmt: skip
"""What to do about those that have no like here."""

METHODS: Mapping[str, str] = {
    "max": "minmax", "min_max": "minmax", "MinMax": "minmax", "CalibrationMethod.MinMax": "minmax",
    "Entropy": "entropy", "CalibrationMethod.Entropy": "entropy", "kl": "entropy", "hist_entropy": "entropy",
    "Percentile": "percentile", "CalibrationMethod.Percentile": "percentile", "hist_percentile": "percentile",
    "sqnr": "mse", "tf_enhanced": "mse", "tf": "minmax",
}  # fmt: skip
"""What is called so, behind a flag of the same tools, is called so here."""


def in_our_words(words: list[str], unknown: str, ours: Collection[str]) -> list[str] | None:
    """A command line with a flag that is not known by the name that it has here.

    Args:
        words: the command line.
        unknown: the flag.
        ours: the flags that there are.

    Returns:
        None where it is not one that means the same.
    """
    known = SAME.get(unknown)
    if known is None or known not in ours:
        return None
    said, value_next = list[str](), False
    for word in words:
        flag, is_joined, value = word.partition("=")
        if flag == unknown:
            said.append(f"{known}={_value(known, value)}" if is_joined else known)
        else:
            said.append(_value(known, word) if value_next else word)
        value_next = word == unknown
    return said


def _value(flag: str, value: str) -> str:
    return METHODS.get(value, value) if flag == "--method" else value

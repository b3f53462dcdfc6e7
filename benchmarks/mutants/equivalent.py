"""Mutants that say the same in other words."""

from __future__ import annotations

_BOTH = "an Add has both its inputs"
_LENGTHS = "lengths are only compared: what all have more makes no difference"
EQUIVALENT: dict[tuple[str, str], str] = {
    (
        "fold_constants",
        "not more and node.op in COMPUTED and (not node.domain) and (str(out... -> "
        "node.op in COMPUTED and (not node.domain) and (str(out.dtype) in TY...",
    ): "none of these operators has several outputs",
    ("scatter_into_cache", "3 -> 4"): "an operand more is not looked at",
    ("deconv3d_symmetric", "3 -> 4 #6"): "an axis more is not looked at, and all have the same number",
    ("deconv3d_symmetric", "1 -> 2 #15"): "numpy takes any negative size of a reshape as the one to find",
    ("unfuse_qlinear_matmul", "1 -> 2 #9"): "numpy takes any negative size of a reshape as the one to find",
    ("affine_batchnorm", "1 -> 2 #3"): "numpy takes any negative size of a reshape as the one to find",
    (
        "gather_elements_to_gather",
        "_known(data, 0) or 1 -> _known(data, 0) or _known(data, 0)",
    ): "None counts as NaN, which is not too many either",
    (
        "gather_elements_to_gather",
        "isinstance(value, np.ndarray) and isinstance(offsets, np.ndarray) -> "
        "isinstance(value, np.ndarray) and isinstance(value, np.ndarray)",
    ): "of a constant index all sizes are known, so that its offsets are constants",
    (
        "movement_keeps_scale",
        "node.op == 'Pad' and node.attr('mode') == 'constant' -> "
        "node.attr('mode') == 'constant' and node.attr('mode') == 'constant'",
    ): "none of the other operators has a mode of that name",
    (
        "movement_keeps_scale",
        "filled is None or bool(filled != 0) -> bool(filled != 0) or bool(filled != 0)",
    ): "None is not 0 either",
    (
        "quantize_weighted",
        "not user.domain and (moves or biased or cut) -> "
        "(moves or biased or cut) and (moves or biased or cut)",
    ): "onnxruntime has no operator of another domain of these names",
    (
        "residual_add",
        "one is None or other is None or one.is_constant or other.is_constant -> "
        "other is None or one.is_constant or other.is_constant",
    ): _BOTH,
    (
        "residual_add",
        "one is None or other is None or one.is_constant or other.is_constant -> "
        "one is None or one.is_constant or other.is_constant",
    ): _BOTH,
    ("residual_add", "0 -> 1 #6"): _LENGTHS,
    ("residual_add", "1 -> 2 #11"): _LENGTHS,
}
"""Mutants that do what their rule does, and why."""

"""What the rules of quantized values share."""

from __future__ import annotations

import numpy as np

from onnxq.rule import MOVES, Node, Pair, Skip, Tensor, Value, constant, is_static, made_by, op, required

FLOAT, FLOAT16, INT32 = 1, 10, 6  # onnx.TensorProto
TYPES = {
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "uint4": 21,
    "int4": 22,
    "uint2": 25,
    "int2": 26,
}
"""The ONNX types of codes, by numpy's name."""

SHARED = (*MOVES, "Concat")
"""What reads codes and gives some of them again."""

MOVED = (*SHARED, "Pad", "Resize")
"""Those, and what does so with some attributes."""


def is_zero(zero: Tensor | None) -> bool:
    """Whether a zero point is left out or a constant of zeros."""
    values = constant(zero)
    return zero is None or (values is not None and not values.astype(np.int32).any())


def is_128(zero: Tensor | None) -> bool:
    """Whether a zero point is a constant uint8, 128 in all channels."""
    values = constant(zero)
    return values is not None and values.dtype == np.uint8 and bool((values == 128).all())


def becomes_int8(node: Node) -> bool:
    """Whether a DequantizeLinear around 128 reads codes that can be int8 (`int8_zero_point`)."""
    codes, _, zero = node.operands(3)
    if node.op != "DequantizeLinear" or node.domain or codes is None or codes.is_constant or not is_128(zero):
        return False
    return why_not_int8(codes) is None


def waits(codes: Tensor) -> bool:
    """Whether codes come from a quantized operator that is still to end with a QuantizeLinear."""
    before = codes.producer
    if before is not None and before.op in SHARED and not before.domain:
        return any(
            waits(tensor) for tensor in before.inputs[: None if before.op == "Concat" else 1] if tensor
        )
    return before is not None and before.op.startswith(("QLinear", "QGemm"))


def why_not_int8(codes: Tensor) -> str | None:
    """Why uint8 codes around 128 have to stay uint8; None where all that reads them takes int8 ones."""
    for user in codes.users:
        if user.domain or user.op not in (*SHARED, "DequantizeLinear"):
            return f"{user.op} {user.name!r} reads the uint8 tensor {codes.name!r} too"
    if codes.is_output:
        return f"{codes.name!r} is an output of the model"
    before = made_by(codes, *SHARED)
    if before is not None:
        moved = before.inputs if before.op == "Concat" else before.inputs[:1]
        reasons = [why_not_int8(tensor) if tensor is not None else "" for tensor in moved]
        return next((reason for reason in reasons if reason is not None), None)
    before = made_by(codes, "QuantizeLinear")
    if before is None:
        return f"{codes.name!r} is not what a QuantizeLinear gives"
    if not is_128(before.operands(3)[2]) or not is_positive(before.operands(2)[1]):
        return f"the QuantizeLinear {before.name!r} has another zero point, or a scale that is not positive"
    return None


def is_positive(scale: Tensor | None) -> bool:
    """Whether no scale is known to be 0 or negative."""
    numbers = constant(scale)
    return numbers is None or bool((numbers > 0).all())


def spread(numbers: Tensor | None, source: Tensor, node: Node) -> Value | np.ndarray | None:
    """A scale or a zero point of a Q/DQ node as float32, in a shape that broadcasts with what it quantizes.

    Args:
        numbers: one for all, one a channel of `axis`, or one a block of `block_size` of them.
        source: what is quantized or dequantized.
        node: the QuantizeLinear or DequantizeLinear.

    Returns:
        A constant, or a value; None where there are none.

    Raises:
        Skip: a rank or a size that decides is not known.
    """
    if numbers is None:
        return None
    values, block = numbers.constant, Pair(node).block
    if numbers.shape is None:
        raise Skip(f"the shape of {numbers.name!r} is not known")
    if not block and (numbers.rank == 0 or numbers.shape == (1,)):
        return as_float(numbers if values is None else values.reshape(()))
    rank, axis = source.rank, Pair(node).axis
    if rank is None or source.shape is None:
        raise Skip(f"the rank of {source.name!r} is not known")
    axis = axis + rank if axis < 0 else axis
    if block:
        if values is None or not is_static(source.shape):
            raise Skip("its blocks have a scale that is computed, or a size that is dynamic")
        repeated: np.ndarray = np.repeat(values.astype(np.float32), block, axis)
        return np.take(repeated, np.arange(int(source.shape[axis] or 0)), axis)
    if numbers.rank != 1:
        raise Skip(f"the shape of {numbers.name!r} is {numbers.shape}")
    shape = np.array([-1] + [1] * (rank - 1 - axis), np.int64)
    return op.Reshape(as_float(numbers), shape) if values is None else as_float(values.reshape(shape))


def quantized(node: Node) -> Value:
    """The codes of a QuantizeLinear, as float32.

    Where a scale is 0 they are those of the scale 1: dequantized with 0 they are 0, whatever they are.

    Raises:
        Skip: a type, a rank or a size that decides is not known.
    """
    (x, scale), zero = required(node, 2), node.operands(3)[2]
    if (x.dtype or scale.dtype) not in (np.float32, np.float16):
        raise Skip(f"the type of {x.name!r} is {x.dtype}, not float32 or float16")
    steps = spread(scale, x, node)
    if isinstance(steps, np.ndarray):
        steps = np.where(steps == 0, np.float32(1), steps)
    codes = rounded(op.Div(as_float(x), steps), node.opset)
    if not is_zero(zero):
        codes = op.Add(codes, spread(zero, x, node))
    format = Pair(node).format
    assert format is not None
    return clipped(codes, *format.ends, node.opset)


def limits_of(name: str) -> tuple[int, int]:
    """The lowest and the highest code of a type."""
    bits, signed = int(name.lstrip("uint")), not name.startswith("u")
    low = -(1 << (bits - 1)) if signed else 0
    return low, low + (1 << bits) - 1


def clipped(value: Value, low: float, high: float, opset: int) -> Value:
    """A float32 value within bounds."""
    if opset < 11:
        return op.Clip(value, min=float(low), max=float(high))
    return op.Clip(value, np.float32(low), np.float32(high))


def rounded(value: Value, opset: int) -> Value:
    """A float32 value rounded to a whole number, halves to the even one."""
    if opset >= 11:
        return op.Round(value)
    half, whole = np.float32(0.5), op.Floor(value)
    rest, odd = op.Sub(value, whole), op.Sub(whole, op.Mul(op.Floor(op.Mul(whole, half)), np.float32(2)))
    up = op.Or(op.Greater(rest, half), op.And(op.Not(op.Less(rest, half)), op.Greater(odd, half)))
    return op.Add(whole, op.Cast(up, to=FLOAT))


def as_float(numbers: Value | np.ndarray) -> Value | np.ndarray:
    """Codes, a zero point or a scale as float32."""
    if isinstance(numbers, np.ndarray):
        return numbers.astype(np.float32)
    return numbers if numbers.dtype == np.float32 else op.Cast(numbers, to=FLOAT)


def less(codes: Value | np.ndarray, zero: Value | np.ndarray | None) -> Value | np.ndarray:
    """Float codes less their float zero point."""
    if zero is None or (isinstance(zero, np.ndarray) and not zero.any()):
        return codes
    if isinstance(codes, np.ndarray) and isinstance(zero, np.ndarray):
        difference: np.ndarray = codes - zero
        return difference
    return op.Sub(codes, zero)


STEP = "rounding to codes, where a float sum lies between two of them"
"""Why a quantized result may be one step off that is summed in float."""


def real(codes: Tensor, scale: Tensor, zero: Tensor | None, node: Node, axis: int = 1) -> Value | np.ndarray:
    """What codes stand for: a DequantizeLinear of them, or the values of constants that it cannot read.

    Args:
        codes: uint8 or int8.
        scale: one for all, or one for each index of an axis.
        zero: the zero point, None for 0.
        node: the node that reads them.
        axis: the axis of the scales, where there are several.

    Raises:
        Skip: the scales have another shape, or this opset has no axis.
    """
    if scale.shape is None:
        raise Skip(f"the shape of {scale.name!r} is not known")
    alone = scale.rank == 0 or scale.shape == (1,)
    if alone and (zero is None or zero.rank == 0 or zero.shape == (1,)):
        return op.DequantizeLinear(codes, *(_scalar(one) for one in (scale, zero) if one is not None))
    if axis < 0:
        if codes.rank is None:
            raise Skip(f"the rank of {codes.name!r} is not known, and it has several scales")
        axis += codes.rank
    values, scales, zeros = codes.constant, scale.constant, constant(zero)
    if node.opset >= 13 and scale.rank == 1 and (zero is None or zero.shape == scale.shape):
        return op.DequantizeLinear(codes, scale, *(() if zero is None else (zero,)), axis=axis)
    if values is None or scales is None or (zero is not None and zeros is None):
        raise Skip(f"{codes.name!r} has scales of the shape {scale.shape}, which opset {node.opset} lacks")
    numbers: np.ndarray = values.astype(np.float32)
    if zeros is not None:
        numbers = numbers - along(zeros.astype(np.float32), axis, values.ndim)
    product: np.ndarray = numbers * along(scales, axis, values.ndim)
    return product


def read_out(codes: Tensor, scale: Tensor, zero: Tensor | None, node: Node) -> Value | np.ndarray:
    """The same with one scale, for an operand that broadcasts: TensorRT reads no quantized constant of one."""
    values, steps, zeros = codes.constant, scale.constant, constant(zero)
    if values is None or steps is None or steps.size != 1 or (zero is not None and zeros is None):
        return real(codes, scale, zero, node)
    floats: np.ndarray = values.astype(np.float32)
    if zeros is not None:
        floats = floats - zeros.reshape(()).astype(np.float32)
    product: np.ndarray = floats * steps.reshape(())
    return product


def along(numbers: np.ndarray, axis: int, rank: int) -> np.ndarray:
    """One number, or one for each index of an axis, in a shape that broadcasts; others as they are."""
    if numbers.size == 1:
        return numbers.reshape(())
    return numbers.reshape([-1 if i == axis else 1 for i in range(rank)]) if numbers.ndim == 1 else numbers


def coded(value: Value, scale: Tensor, zero: Tensor | None, like: Tensor | None = None) -> Value:
    """A QuantizeLinear of a value, with one scale.

    Args:
        value: what it quantizes.
        scale: the scale.
        zero: the zero point, None for 0.
        like: codes of the same type, where there is no zero point.

    Raises:
        Skip: there are several scales, or nothing tells the type of the codes.
    """
    if any(one is not None and one.shape not in ((), (1,)) for one in (scale, zero)):
        raise Skip(f"{scale.name!r}, of the shape {scale.shape}, is not one scale")
    if zero is not None:
        return op.QuantizeLinear(value, _scalar(scale), _scalar(zero))
    if like is None or like.dtype is None:
        raise Skip("it has no zero point that tells the type of its codes")
    return op.QuantizeLinear(value, _scalar(scale), np.zeros((), like.dtype))


def _scalar(number: Tensor) -> Tensor | np.ndarray:
    """A scale or a zero point of one element without a dimension, where it is a constant."""
    values = number.constant
    return number if values is None else values.reshape(())


def stated(*scales: Tensor | None) -> None:
    """Refuses scales that are computed at run time.

    Raises:
        Skip: one is.
    """
    for scale in scales:
        if scale is not None and scale.constant is None:
            advice = f"; state it: --freeze {scale.name}=VALUE" if scale.is_input else ""
            raise Skip(f"the scale {scale.name!r} is computed at run time{advice}")


def dynamic_codes(x: Value, opset: int) -> tuple[Value, Value, Value]:
    """What a DynamicQuantizeLinear computes of float32 values: float codes from 0 to 255, the scale, the zero point.

    The range is that of the values and of 0; where it is empty, the scale is 1, as in onnxruntime.
    """
    zero, one, most = np.float32(0), np.float32(1), np.float32(255)
    low, high = op.Min(op.ReduceMin(x, keepdims=0), zero), op.Max(op.ReduceMax(x, keepdims=0), zero)
    span = op.Sub(high, low)
    scale = op.Where(op.Greater(span, zero), op.Div(span, most), one)
    shift = rounded(clipped(op.Sub(zero, op.Div(low, scale)), 0, 255, opset), opset)
    codes = clipped(op.Add(rounded(op.Div(x, scale), opset), shift), 0, 255, opset)
    return codes, scale, shift


def are_pairs(node: Node, codes: Tensor, zero: Tensor | None) -> bool:
    """Whether codes that a node reads or gives become Q/DQ pairs.

    TensorRT's int8 has them around 0: int8, or uint8 around 128. Others do where pairs may be of any codes.
    """
    dtype = codes.dtype if zero is None else zero.dtype
    around_zero = (dtype == np.int8 and is_zero(zero)) or is_128(zero)
    return around_zero or not node.lacks("asymmetric-quantization")


def recoded(
    sums: Value,
    steps: np.ndarray | None,
    zero: Tensor | None,
    like: Tensor,
    opset: int,
    *,
    inside: bool = False,
) -> Value:
    """Codes of whole numbers of another step, as onnxruntime computes them.

    Args:
        sums: float32 numbers.
        steps: the size of one of them, in steps of the codes; None for 1.
        zero: the zero point, a constant; None for 0.
        like: codes of the same type, where there is no zero point.
        opset: the model's.
        inside: whether the zero point is added before what comes out is rounded.

    Raises:
        Skip: the zero point is computed, or nothing tells the type of the codes.
    """
    zeros, dtype = constant(zero), like.dtype if zero is None else zero.dtype
    if zero is not None and (zeros is None or zeros.size != 1):
        raise Skip(f"{zero.name!r} is computed at run time, or not one zero point")
    if dtype is None:
        raise Skip("it has no zero point that tells the type of its codes")
    shift = None if zeros is None or not zeros.any() else zeros.reshape(()).astype(np.float32)
    codes = sums if steps is None else op.Mul(sums, steps)
    if shift is not None and inside:
        codes = op.Add(codes, shift)
    codes = rounded(codes, opset)
    if shift is not None and not inside:
        codes = op.Add(codes, shift)
    return op.Cast(clipped(codes, *limits_of(dtype.name), opset), to=TYPES[dtype.name])

"""Built-in rules, broken in small ways by hand: their examples or the proof must notice every one."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxq.base.errors import OnnxqError, UserError
from onnxq.inspection.examples import check_example
from onnxq.rule.api import Rule
from onnxq.rule.load import builtin_dir, load_rules

RULES = load_rules()

# rule: pairs of a piece of its file (which must be there once) and a wrong one.
MUTANTS: dict[str, list[tuple[str, str]]] = {
    "explicit_same_pads": [
        ("less + more if mode", "more + less if mode"),
        ("total // 2 for total in totals], [", "0 for total in totals], ["),
        ("(kernel - 1) * node", "kernel * node"),
        ('* node.attrs["dilations"][axis]', ""),
        ("if stride == 1:", "if True:"),
        ("(-(-size // stride) - 1)", "(size // stride - 1)"),
        ("x.shape[axis + 2]", "x.shape[axis + 1]"),
        ("4 if node.op", "2 if node.op"),
        ("pads=pads)", "pads=pads, dilations=None)"),
    ],
    "explicit_clip_bounds": [
        ("lowest if low is None else low", "highest if low is None else low"),
        ("highest if high is None else high", "lowest if high is None else high"),
        ("node.opset < 11 or ", ""),
    ],
    "crop_to_slice": [
        ("starts=[top, left]", "starts=[left, top]"),
        ("-bottom or _TO_THE_END", "-bottom"),
        ("top + size[0]", "size[0]"),
    ],
    "expand_image_scaler": [('node.attr("scale", 1.0)', "1.0"), ("reshape(-1, 1, 1)", "reshape(1, 1, -1)")],
    "expand_affine": [('node.attr("alpha", 1.0)', "1.0"), ('node.attr("beta", 0.0)', "0.0")],
    "expand_hardswish": [("1 / 6", "1 / 5"), ("1 / 6, beta=0.5", "1 / 6, beta=0.25"), ("op.Mul", "op.Add")],
    "gather_elements_to_gather": [
        ("sizes[axis:]", "sizes[axis + 1 :]"),
        ("if other != axis]", "]"),
        ("op.Less(given, np.int64(0))", "op.Less(np.int64(0), given)"),
        ("wide + size", "wide"),
        ("strides[axis]), offsets", "strides[0]), offsets"),
        ("np.arange(leading) * strides[0]", "np.arange(leading)"),
    ],
    "deconv3d_symmetric": [
        ("pads=pads * 2", "pads=[0] * 6"),
        ("max(begin[axis], 0) for axis in axes", "0 for axis in axes"),
        ("padding - padding // 2", "padding // 2"),
        ("op.Add(y, _spread(bias)) if lacking", "op.Add(y, _spread(bias)) if not lacking"),
        ('group=node.attr("group")', "group=1"),
        ('strides=node.attr("strides")', "strides=None"),
    ],
    "dead_code": [
        ("{} if not any(", "{} if any("),
        ("{} if not any(tensor.users for tensor in node.outputs) else None", "None"),
    ],
    "drop_identity": [
        ("source.dtype == node.outputs[0].dtype", "True"),
        ("if len(node.inputs) == 1 else None", ""),
        ("len(node.inputs) == 1", "len(node.inputs) == 2"),
    ],
    "drop_noop_arithmetic": [
        ('"Mul": 1', '"Mul": 0'),
        ('"Div": 1', '"Div": 2'),
        ('"Sub": 0', '"Sub": 1'),
        ("values == NEUTRAL[op]", "values >= NEUTRAL[op]"),
        ("(values == NEUTRAL[op]).all()", "(values == NEUTRAL[op]).any()"),
        ("set(other) <= {1}", "True"),
        ("one if _keeps_shape(one, values.shape, node.outputs[0]) else None", "one"),
        ('if node.op in ("Mul", "Add") and', 'if node.op in ("Mul", "Add", "Sub", "Div") and'),
    ],
    "drop_noop_movement": [
        ("len(shape) == 2 and node.attr", "node.attr"),
        ("in (1, -1)", "in (0, 1)"),
        ("not any(list(pads))", "True"),
        ("shape == node.outputs[0].shape and _is_plain(node)", "shape == node.outputs[0].shape"),
        ("shape == node.outputs[0].shape and", "True and"),
        ("None not in shape and shape ==", "shape is not None or shape =="),
        ("(values > 0).all()", "(values < 0).all()"),
    ],
    "fold_constants": [
        ("if node.op in RANDOM | KEPT", "if node.op in RANDOM"),
        ("dict(zip(written, arrays, strict=True))", "{i: a + a for i, a in zip(written, arrays)}"),
        ("{0: elements.astype(out.dtype)}", "{0: elements.astype(out.dtype) + 1}"),
        ("{0: elements.astype(out.dtype)}", "{0: elements.astype('int32')}"),
        ("{0: elements.astype(out.dtype)}", "{0: elements.astype(out.dtype).reshape(-1, 1)}"),
        ("any(e is None or isinstance(e, str)", "any(e is None and isinstance(e, str)"),
        ("after > SMALL", "after > 0"),
        ("SMALL, LARGE, HUGE = 1 << 14", "SMALL, LARGE, HUGE = 1 << 15"),
        ("and not _is_weight(node)", ""),
        ("if _stays_computed(node):", "if False:"),
        ("if after > LARGE:", "if False:"),
        ("if after > LARGE:", "if True:"),
        (" or _is_taken_up(user)", ""),
        ("        and node.op in COMPUTED\n", ""),
        ("if all(tensor is None or is_computed(tensor)", "if all(tensor is None or tensor.is_constant"),
    ],
    "affine_batchnorm": [
        ("scale / np.sqrt", "scale * np.sqrt"),
        ('np.sqrt(variance + node.attr("epsilon"))', "np.sqrt(variance)"),
        ("offset - mean * factor", "offset + mean * factor"),
        ("offset - mean * factor", "offset"),
        ("scale, offset, mean, variance = ", "scale, mean, offset, variance = "),
        ("scale, offset, mean, variance = ", "offset, scale, mean, variance = "),
    ],
    "drop_broadcast": [
        ("slots == [ONE_WAY[node.op]]", "True"),
        ("dim != 1 and count != 1", "False"),
        ("dim != 1 and count != 1", "count != 1"),
        ("tensor.nbytes > SMALL", "tensor.nbytes > 0"),
        ("(bits == first).all()", "(bits == first).any()"),
        ("shape[-2:] != tensor.shape[-2:]", "False"),
        ("size in (now, *rest)", "True"),
        ("size in (now, *rest)", "size in (now,)"),
        ("size in (now, *rest)", "size in rest"),
        ("(size == 1 and rest)", "size == 1"),
        ("operand != tensor]", "True]"),
    ],
    "inline_if": [
        ("if condition.scalar else", "if not condition.scalar else"),
        ('"then_branch" if condition.scalar else "else_branch"', '"then_branch"'),
        ('"then_branch" if condition.scalar else "else_branch"', '"else_branch"'),
    ],
    "scalar_range_operands": [
        ("op.Reshape(n, scalar)", "op.Neg(op.Reshape(n, scalar))"),
        ("for n in numbers)", "for n in numbers[::-1])"),
    ],
    "squeeze_to_slice": [
        ("op.Gather(source, 0, axis=axis)", "op.Gather(source, 0, axis=0)"),
        ("op.Gather(source, 0, axis=axis)", "op.Gather(source, 1, axis=axis)"),
        ("op.Gather(source, 0, axis=axis)", "op.Gather(source, -1, axis=axis - 1)"),
        ("op.Gather(source, 0, axis=axis)", "op.Squeeze(source)"),
        ("op.Gather(source, 0, axis=axis)", "op.Gather(source, [0], axis=axis)"),
        ("[0], dim, 1, proof", "[0], dim, 2, proof"),
        ('node.body("then_branch")[0], dim', 'node.body("else_branch")[0], dim'),
        ("_needed_rank(user, value) == rank", "True"),
        ("len(source.shape) - 1)", "len(source.shape))"),
        ("1 in found and source.shape[axis] in found", "True"),
    ],
    "fold_batchnorm": [
        ("scale / np.sqrt(stretch)", "scale * np.sqrt(stretch)"),
        ("variance + node.attr", "variance - node.attr"),
        ("scale / np.sqrt(", "1 / np.sqrt("),
        ("(bias - mean) * factor + offset", "(bias + mean) * factor + offset"),
        ("(bias - mean) * factor + offset", "(bias - mean) + offset"),
        ("(bias - mean) * factor + offset", "(bias - mean) * factor"),
        ("(bias - mean) * factor + offset", "(0 - mean) * factor + offset"),
        ("layer.scaled(factor), ", "layer.weight, "),
        ("layer.scaled(factor), ", "layer.scaled(factor[::-1]), "),
        ("layer.scaled(factor), ", "layer.scaled(factor.mean(keepdims=True)), "),
        ("scale, offset, mean, variance = ", "scale, mean, offset, variance = "),
        ("scale, offset, mean, variance = ", "scale, offset, variance, mean = "),
        ("if len(source.users) != 1 or source.is_output:", "if False:"),
        (" or source.is_output", ""),
        ("len(source.users) != 1 or ", ""),
        ('raise Skip("it is in training mode")', "pass"),
        ("if bias is None:", "if False:"),
    ],
    "fold_scale": [
        ("return number, zero\n    if", "return 1 / number, zero\n    if"),
        ("return one / number, zero", "return number, zero"),
        ("return one, number\n", "return one, -number\n"),
        ("return (-one, number) if reverse", "return (one, number) if reverse"),
        ("return (-one, number) if reverse", "return (-one, -number) if reverse"),
        ("else (one, -number)", "else (one, number)"),
        ('if node.op == "Div" and source is not first:', "if False:"),
        ('before.op == "MatMul" and (node.op', 'before.op == "Nothing" and (node.op'),
        ("bias * factor + offset", "bias + offset"),
        ("bias * factor + offset", "bias * factor"),
        ("bias * factor + offset", "offset"),
        ("layer.scaled(factor) if", "layer.scaled(-factor) if"),
        ("layer.scaled(factor) if", "layer.scaled(factor.reshape(-1)[::-1]) if"),
        ("layer.scaled(factor) if np.any(factor != 1)", "layer.scaled(factor) if np.any(factor == 7)"),
        ('axis = source.rank - 1 if layer.node.op == "MatMul" else 1', "axis = 1"),
        ('axis = source.rank - 1 if layer.node.op == "MatMul" else 1', "axis = source.rank - 1"),
        ("if padded == wanted else None", ""),
        ("if len(source.users) != 1 or source.is_output:", "if False:"),
        (" or source.is_output", ""),
        ("len(source.users) != 1 or ", ""),
        ("if bias is None:", "if False:"),
    ],
    "cancel_transposes": [
        (
            "[(first or turned)[axis] for axis in second or turned]",
            "[(second or turned)[axis] for axis in first or turned]",
        ),
        ("[(first or turned)[axis] for axis in second or turned]", "second or turned"),
        ("if order == sorted(order)", "if order == order[::-1]"),
    ],
    "merge_reshapes": [
        ("and source.shape == out.shape and", "and"),
        ("        return source\n", "        return None\n"),
        ("wanted.all() or", "True or"),
        ('node.attr("allowzero", 0)', "False"),
        ('raise Skip("it holds for one size of the dynamic dimensions only")', "pass"),
        ('raise Skip("a dimension has the size 0")', "pass"),
        ("0 if copied else -1", "0"),
        ("source.shape[axis : axis + 1] == (dim,)", "True"),
        ("if len(missing) > 1:", "if False:"),
        ("and missing[0] not in found", "and False"),
        ("and missing[0] not in found", ""),
        ("if size == -1]", "if size == 0]"),
        ("{*_found(node), *_found(before)}", "{*_found(node)}"),
    ],
    "pad_into_conv": [
        ('raise Skip(f"it pads with', 'print(f"it pads with'),
        ('raise Skip("it does not pad with a constant 0")', "pass"),
        ("and not np.signbit(number)", ""),
        ('pad.attr("value", 0.0)', "0.0"),
        ('raise Skip(f"the convolution pads', 'print(f"the convolution pads'),
        ("widths[:, :2].any() or", ""),
        ("or (widths < 0).any()", ""),
        ("(own + widths[:, 2:])", "widths[:, 2:]"),
        ("(own + widths[:, 2:])", "(own + widths[::-1, 2:])"),
        (".reshape(-1).tolist()", ".T.reshape(-1).tolist()"),
        ("auto_pad=None, ", ""),
        ('("NOTSET", "VALID")', '("NOTSET",)'),
        ("widths[:, places] = pairs", "widths[:, 2:] = pairs.mean()"),
    ],
    "drop_unused_optional_outputs": [
        ("read[-1] == len(node.outputs) - 1", "len(read) == len(node.outputs)"),
        ("count = read[-1] + 1", "count = len(read)"),
        (" or tensor.is_output", ""),
        ("tensor.users or ", ""),
        ('"MaxPool", ', ""),
    ],
    "fold_dq_int32_bias": [
        ("codes.dtype != np.int32", "False"),
        ("return arrays[0]", "return arrays[0] * 2"),
        ("return arrays[0]", "return None"),
        ("if arrays is None:", "if False:"),
    ],
    "symmetric_weights": [
        ("name not in INTEGERS or", ""),
        ('("int8", "int4") and', '("uint8", "int4") and'),
        ("(zero is None or _are_zero(zeros))", "zero is None"),
        ("(zero is None or _are_zero(zeros))", "_are_zero(zeros)"),
        ("or not scale.is_constant", ""),
        ("last = last - zeros.astype(np.int32)", "pass"),
        ("last.min() >= -128 and", ""),
        ("and last.max() <= 127", ""),
        ("np.moveaxis(last, -1, axis)", "last"),
    ],
    "int8_zero_point": [
        ("or not is_128(zero)", ""),
        ("if codes.is_constant or zero is None", "if zero is None"),
        ("_signed(codes), scale", "codes, scale"),
        ("np.zeros_like(zero.constant, np.int8)", "np.ones_like(zero.constant, np.int8)"),
        ("        raise Skip(reason)", "        pass"),
        ("_signed(required(before, 1)[0])", "required(before, 1)[0]"),
        ("before.outputs.index(codes)", "0"),
    ],
    "positive_scales": [
        ("numbers.dtype.type(1)", "numbers.dtype.type(0)"),
        ("np.where(numbers == 0,", "np.where(numbers > 0,"),
        ("(numbers > 0).all()", "(numbers >= 0).all()"),
        ("np.abs(numbers))", "numbers)"),
        (
            'raise Skip("a scale is 0 or negative, and its zero point',
            'print("a scale is 0 or negative, and its zero point',
        ),
        ("np.int64(0) if zeros is None else zeros.astype(np.int64)", "np.int64(0)"),
        ("zero + (last - zero)", "(last - zero)"),
        ("np.sign(scales).astype(np.int64)", "1"),
        ("last.min() < info.min", "last.min() < -1e9"),
        ("last.max() > info.max", "last.max() > 1e9"),
        ('None if node.attr("block_size", 0) else', ""),
        ('node.attr("axis", 1)', "1"),
    ],
    "scalar_scales": [
        ("value.shape == (1,)", "value.shape == ()"),
        ("value.shape == (1,)", "value.shape == (2,)"),
        ("numbers.reshape(())", "numbers"),
        ('raise Skip(f"{value.name!r} is computed', 'print(f"{value.name!r} is computed'),
    ],
    "explicit_slice_axes": [
        ("np.arange(count,", "np.zeros(count,"),
        ("np.ones(count, starts.dtype)", "np.full(count, 2, starts.dtype)"),
        (" if axes is None else axes", ""),
        (" if steps is None else steps", ""),
        ("starts.dtype != np.int32", "False"),
        ("starts.dtype != np.int32", "True"),
        ("None in node.inputs", "False"),
        ("steps is not None or", ""),
        ("data.rank == count", "False"),
    ],
    "dq_before_gather": [
        ("*node.inputs[1:]", "*node.inputs[1:2]"),
        ("remake(gather, remake(node", "op.Gather(remake(node"),
    ],
    "unfuse_conv": [
        ("if added is not None:", "if False:"),
        ("op.Add(y, added)", "op.Sub(y, added)"),
        ("*([] if bias is None else [bias])", ""),
        (", **attributes)", ")"),
        ("op.Clip(y, *(", "op.Clip(y, *reversed("),
        ('"Clip" and node.opset >= 11', '"Clip" and node.opset >= 99'),
        ('"Clip" and node.opset >= 11', '"Clip" and node.opset >= 7'),
        ('("alpha", "beta")', '("beta", "alpha")'),
        ("**dict(zip(_PARAMETERS[name], numbers, strict=True))", ""),
        ("if not name:", "if True:"),
    ],
    "unfuse_gemm": [
        ("getattr(op, name)(y, **parameters) if name else y", "y"),
        ("(y, **parameters)", "(y)"),
        ("*node.inputs, **attributes", "*node.inputs"),
        ("*node.inputs, **attributes", "*node.inputs[:2], **attributes"),
    ],
    "unfuse_matmul": [
        ('_oriented(a, node.attr("transA"), node.attr("transBatchA"))', "a"),
        ('_oriented(b, node.attr("transB"), node.attr("transBatchB"))', "b"),
        ("if alpha != 1:", "if False:"),
        ('node.attr("alpha", 1.0)', '2 * node.attr("alpha", 1.0)'),
        ("or operand.rank == 1:", ":"),
        ("if not (transposed or rows_first)", "if not transposed"),
        ("np.ascontiguousarray(operand.constant.transpose(order))", "operand.constant"),
        ("[*order[1:-1], 0, order[-1]]", "[0, *order[1:]]"),
        ("order[-1], order[-2]", "order[-2], order[-1]"),
    ],
    "unfuse_gelu": [
        ("op.Add(x, bias)", "x"),
        ('node.attr("alpha", 1.702)', "1.702"),
        ('node.attr("alpha", 1.702)', 'node.attr("alpha", 1.6)'),
        ("0.044715 * root", "0.045 * root"),
        ("np.sqrt(2 / np.pi)", "np.sqrt(0.64)"),
        ("np.sqrt(0.5)", "0.7"),
        ("kind(0.5)", "kind(1)"),
        ("op.Add(bent, kind(1))", "bent"),
        ('node.op == "FastGelu"', 'node.op != "QuickGelu"'),
    ],
    "unfuse_layer_normalization": [
        ("_sum(short, x, skip, bias)", "_sum(short, x, skip)"),
        ("{3: _narrow(total, short)}", "{3: _narrow(skip, short)}"),
        ("op.Gather(places, positions)", "_first(places, ids)"),
        ("None if segments is None else op.Gather(kinds, segments)", "None"),
        ("{2: _narrow(total, short)}", "{2: _narrow(place, short)}"),
        ('{"float16": 10', '{"float16": 1'),
        ("_none(ids) if mask is None else", ""),
        ("op.Mul(centered, centered), [-1]", "centered, [-1]"),
        ("np.array([1]), np.array([2]))", "np.array([0]), np.array([1]))"),
        ("np.array(1, np.int32)", "np.array(0, np.int32)"),
        ("axes=[1], keepdims=0", "axes=[0], keepdims=0"),
        ("op.ReduceSum(ones, np.array([1]), keepdims=0)", "op.ReduceSum(ones, np.array([1]))"),
        ("epsilon=epsilon", "epsilon=0.0"),
        ("np.array(epsilon,", "np.array(0,"),
        ("[gamma] if beta is None else [gamma, beta]", "[gamma]"),
        ("y if beta is None else op.Add(y, beta)", "y"),
        ("op.Sub(total, op.ReduceMean(total, axes=[-1]))", "total"),
        ("op.Div(centered, op.Sqrt(", "op.Div(centered, ("),
    ],
    "unfuse_attention": [
        ("3, heads, size]", "3, size, heads]"),
        ("perm=[2, 0, 3, 1, 4]", "perm=[2, 0, 1, 3, 4]"),
        ("np.array([1]), np.array([3])", "np.array([0]), np.array([2])"),
        ("op.Concat(_wide(past, short), new, axis=3)", "op.Concat(new, _wide(past, short), axis=3)"),
        ("(present, 0), (present, 1)", "(present, 1), (present, 0)"),
        ('node.attr("scale", 0) or 1 / np.sqrt(size)', "1 / np.sqrt(size)"),
        ('node.attr("scale", 0) or 1 / np.sqrt(size)', "1.0"),
        ("(added if added is None else _wide(added, short), _pen", "(None, _pen"),
        ("_penalty(node, scores, mask)):", "None):"),
        ("results[1] = present", "results[1] = new"),
        ("results = {index: op.Cast(result, to=_FLOAT16) for index, result in results.items()}", "pass"),
        ("op.Softmax(scores, axis=3)", "op.Softmax(scores, axis=2)"),
        ("op.MatMul(x, weights), bias", "op.MatMul(x, weights), 0.0"),
        ('if node.attr("do_rotary", 0):', "if False:"),
        ("mask.rank not in (2, 3)", "False"),
        (' or len(set(node.attr("qkv_hidden_sizes", []))) > 1', ""),
        ("op.Greater(mask, np.array(0, np.int32))", "op.Less(mask, np.array(1, np.int32))"),
        ("if mask.rank == 2:  #", "if False:  #"),
        ("[1, 2] if mask.rank == 2 else [1]", "[1, 2]"),
        ('node.attr("mask_filter_value", -10000.0)', "-10000.0"),
        ("op.Where(is_read, np.float32(0), closed)", "op.Where(is_read, closed, np.float32(0))"),
        ('if node.attr("unidirectional", 0):', "if False:"),
        ("np.float32(0) if penalty is None else penalty)", "np.float32(0))"),
        ("op.Range(op.Sub(keys, queries), keys, 1)", "op.Range(0, queries, 1)"),
        ("op.Greater(op.Range(0", "op.GreaterOrEqual(op.Range(0"),
        ("if node.opset < 13", "if True"),
        ("if node.opset < 13", "if False"),
    ],
}
CASES = [(rule, number) for rule, mutants in MUTANTS.items() for number in range(len(mutants))]


def mutated(name: str, number: int, folder: Path) -> Rule:
    """A built-in rule with one of its mutations, which may be in a helper that it imports."""
    old, new = MUTANTS[name][number]
    text = (builtin_dir() / f"{name}.py").read_text("utf-8")
    code, examples = text.split("EXAMPLES = [", 1)
    for helper in () if old in code else builtin_dir().glob("_*.py"):
        if f"from {helper.stem} import" in code and old in (helped := helper.read_text("utf-8")):
            assert helped.count(old) == 1, f"{old!r} is in {helper.name} {helped.count(old)} times"
            (folder / f"{helper.stem}_broken.py").write_text(helped.replace(old, new))
            old, new = f"from {helper.stem} import", f"from {helper.stem}_broken import"
            break
    assert code.count(old) == 1, f"{old!r} is in {name} {code.count(old)} times"
    (folder / f"{name}_broken.py").write_text(
        code.replace(old, new).replace(f"def {name}(", f"def {name}_broken(") + "EXAMPLES = [" + examples
    )
    (rule,) = [rule for rule in load_rules([folder]) if rule.id == f"{name}_broken"]
    return rule


def test_mutants_are_of_rules_that_there_are() -> None:
    assert set(MUTANTS) < {rule.id for rule in RULES}


@pytest.mark.parametrize(("name", "number"), CASES, ids=[f"{n}-{i}" for n, i in CASES])
def test_a_broken_rule_is_noticed(name: str, number: int, tmp_path: Path) -> None:
    try:
        rule = mutated(name, number, tmp_path)
    except UserError:
        return  # it does not even load
    for example in rule.examples:
        try:
            check_example(rule, example, RULES)
        except OnnxqError:
            return
    pytest.fail(f"nothing notices {MUTANTS[name][number]}")

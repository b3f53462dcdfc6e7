"""Sequences and optional values, as torch's exporters write lists, chunks and stacks."""

from __future__ import annotations

import numpy as np

from .build import Constructs, TensorProto, b, f, f32, given, graph, helper, i64, net, weights

FLOATS = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))


def constructs() -> Constructs:
    for name, split, axis, keep in (
        ("rows", None, 0, 1), ("rows_squeezed", None, 0, 0), ("scalar", i64(2), 1, 1), ("uneven", i64(1, 3, 2), 1, 1),
        ("last_axis", i64(4), -1, 1),
    ):  # fmt: skip

        def third(n, split=split, axis=axis, keep=keep):
            parts = n(
                "SplitToSequence",
                f(3, 6, 8),
                split,
                axis=axis,
                **({} if split is not None else {"keepdims": keep}),
            )
            return n("Add", n("SequenceAt", parts, i64(0)), n("SequenceAt", parts, i64(1)) if split is None or
                     split.ndim == 0 else f32(1))  # fmt: skip

        yield net(f"split_{name}", third)

    def last(n):
        return n("SequenceAt", n("SplitToSequence", f(3, 6), i64(2), axis=1), i64(-1))

    yield net("split_last", last)

    def computed_position(n):
        return n("SequenceAt", n("SplitToSequence", f(4, 6), i64(1), axis=0), given(i64(2)))

    yield net("at_computed_position", computed_position)

    def dynamic_rows(n):
        return n("SequenceAt", n("SplitToSequence", f("N", 6), i64(2), axis=1), i64(1))

    yield net("split_dynamic_batch", dynamic_rows, sizes=[{"N": 2}, {"N": 5}])

    def split_dynamic(n):  # how many there are is not known
        return n("ConcatFromSequence", n("SplitToSequence", f("N", 4), i64(1), axis=0), axis=1)

    yield net("split_dynamic_axis", split_dynamic, sizes=[{"N": 2}, {"N": 3}])
    for name, axis, new in (
        ("concat", 1, 0),
        ("stack", 0, 1),
        ("stack_last", -1, 1),
        ("concat_negative", -2, 0),
    ):

        def joined(n, axis=axis, new=new):
            x = n("Relu", f(2, 3))
            parts = n("SequenceConstruct", x, n("Neg", x), n("Exp", x))
            return n("ConcatFromSequence", parts, axis=axis, new_axis=new)

        yield net(f"construct_{name}", joined)

    def inserted(n):
        x = f("N", 3)
        x = n("Relu", x)
        parts = n("SequenceEmpty", dtype=TensorProto.FLOAT)
        for value in (x, n("Neg", x), n("Exp", x)):
            parts = n("SequenceInsert", parts, value)
        return n("ConcatFromSequence", parts, axis=1)

    yield net("empty_insert_concat", inserted, sizes=[{"N": 2}, {"N": 4}])

    def inserted_first(n):
        x = n("Relu", f(2, 3))
        parts = n("SequenceInsert", n("SequenceConstruct", x, n("Exp", x)), n("Neg", x), i64(0))
        return n("ConcatFromSequence", parts, axis=0)

    yield net("insert_at_front", inserted_first)

    def inserted_negative(n):
        x = n("Relu", f(2, 3))
        parts = n("SequenceInsert", n("SequenceConstruct", x, n("Exp", x)), n("Neg", x), i64(-1))
        return n("ConcatFromSequence", parts, axis=0)

    yield net("insert_before_last", inserted_negative)

    def erased(n):
        x = n("Relu", f(2, 3))
        parts = n("SequenceConstruct", x, n("Neg", x), n("Exp", x))
        return n("ConcatFromSequence", n("SequenceErase", parts, i64(1)), axis=1)

    yield net("erase", erased)

    def erased_last(n):
        parts = n("SplitToSequence", f(3, 6), i64(2), axis=1)
        return n("ConcatFromSequence", n("SequenceErase", parts), axis=1)

    yield net("erase_last", erased_last)

    def counted(n):
        parts = n("SplitToSequence", f(3, 6), i64(2), axis=1)
        length = n("Cast", n("SequenceLength", parts), to=TensorProto.FLOAT)
        return n("Mul", n("SequenceAt", parts, i64(0)), length)

    yield net("length", counted)

    def length_dynamic(n):  # len(list) of a batch
        parts = n("SplitToSequence", f("N", 6), i64(1), axis=0)
        return n("SequenceLength", parts)

    yield net("length_dynamic", length_dynamic, sizes=[{"N": 2}, {"N": 5}])

    def unbind(n):  # torch.unbind, each worked on, then torch.stack
        parts = n("SplitToSequence", f(3, 4, 5), i64(1), axis=0)
        made = [n("Squeeze", n("SequenceAt", parts, i64(k)), i64([0])) for k in range(3)]
        made = [n("Mul", m, f32(k + 1)) for k, m in enumerate(made)]
        return n("ConcatFromSequence", n("SequenceConstruct", *made), axis=0, new_axis=1)

    yield net("unbind_work_stack", unbind)

    def chunk(n):  # torch.chunk of a gated unit
        parts = n("SplitToSequence", n("MatMul", f("N", 8), weights(8, 12)), i64(6), axis=1)
        return n("Mul", n("SequenceAt", parts, i64(0)), n("Sigmoid", n("SequenceAt", parts, i64(1))))

    yield net("chunk_gate", chunk, sizes=[{"N": 1}, {"N": 3}])

    def integers(n):
        parts = n("SequenceConstruct", n("Shape", f("N", 3)), i64(7, 8))
        return n("ConcatFromSequence", parts, axis=0)

    yield net("shape_list", integers, sizes=[{"N": 2}, {"N": 3}])

    def identity(n):
        parts = n("Identity", n("SequenceConstruct", f(2, 3), f(2, 1)))
        return n("ConcatFromSequence", parts, axis=1)

    yield net("identity", identity)

    def mapped(n):
        body = graph(
            "map", [("item", np.float32, [2, 3])], [(np.float32, [2, 3])], lambda g: g("Tanh", "item")
        )
        parts = n("SequenceMap", n("SplitToSequence", f(4, 3), i64(2), axis=0), body=body)
        return n("ConcatFromSequence", parts, axis=1)

    yield net("map", mapped)

    def mapped_with_more(n):
        body = graph("map", [("item", np.float32, [1, 3]), ("more", np.float32, [3])], [(np.float32, [1, 3])],
                     lambda g: g("Add", "item", "more"))  # fmt: skip
        parts = n("SequenceMap", n("SplitToSequence", f(4, 3), i64(1), axis=0), f(3), body=body)
        return n("ConcatFromSequence", parts, axis=0)

    yield net("map_with_a_tensor", mapped_with_more)

    def loop_list(n):  # a list that grows in a loop, stacked behind it
        x = n("Relu", f(2, 3))
        body = helper.make_graph(
            [
                helper.make_node("Cast", ["k"], ["kf"], to=TensorProto.FLOAT),
                helper.make_node("Mul", [x, "kf"], ["scaled"]),
                helper.make_node("SequenceInsert", ["list", "scaled"], ["grown"]),
                helper.make_node("Identity", ["go"], ["again"]),
            ],
            "body",
            [helper.make_tensor_value_info("k", TensorProto.INT64, []),
             helper.make_tensor_value_info("go", TensorProto.BOOL, []), helper.make_value_info("list", FLOATS)],
            [helper.make_tensor_value_info("again", TensorProto.BOOL, []), helper.make_value_info("grown", FLOATS)],
        )  # fmt: skip
        parts = n("Loop", i64(3), np.array(True), n("SequenceEmpty", dtype=TensorProto.FLOAT), body=body)
        return n("ConcatFromSequence", parts, axis=0)

    yield net("list_in_a_loop", loop_list)

    def branches(n):  # a list from either branch
        x = n("Relu", f(2, 3))
        n("Neg", x)
        nodes = [helper.make_node("SequenceConstruct", [x, "neg1"], ["t"])]
        other = [helper.make_node("SequenceConstruct", ["neg1", x], ["e"])]
        then = helper.make_graph(nodes, "then", [], [helper.make_value_info("t", FLOATS)])
        els = helper.make_graph(other, "else", [], [helper.make_value_info("e", FLOATS)])
        return n(
            "ConcatFromSequence", n("If", given(np.array([True])), then_branch=then, else_branch=els), axis=1
        )

    yield net("list_from_branches", branches)

    # optional values
    def has(n):
        return n("Cast", n("OptionalHasElement", n("Relu", f(2))), to=TensorProto.FLOAT)

    yield net("optional_has_element", has)

    def wrapped(n):
        return n("OptionalGetElement", n("Optional", n("Relu", f(2, 3))))

    yield net("optional_get_element", wrapped)

    def asked(n):
        x = n("Relu", f(2, 3))
        there = n("OptionalHasElement", n("Optional", x))
        then = graph("then", [], [(np.float32, [2, 3])], lambda g: g("Neg", x))
        els = graph("else", [], [(np.float32, [2, 3])], lambda g: g("Exp", x))
        return n("If", there, then_branch=then, else_branch=els)

    yield net("optional_decides", asked)

    def of_sequence(n):
        parts = n("OptionalGetElement", n("Optional", n("SequenceConstruct", f(2, 3), f(2, 3))))
        return n("ConcatFromSequence", parts, axis=0)

    yield net("optional_sequence", of_sequence)

    def none(n):
        there = n("OptionalHasElement")
        return n("Where", there, f(2), f32(0))

    yield net("optional_without_input", none)

    def tensors_of_bool(n):
        return n("ConcatFromSequence", n("SequenceConstruct", b(2, 3), b(2, 3)), axis=0)

    yield net("construct_bool", tensors_of_bool)

    def half_parts(n):
        parts = n("SplitToSequence", f(4, 6, dtype=np.float16), i64(3), axis=1)
        return n("Sub", n("SequenceAt", parts, i64(1)), n("SequenceAt", parts, i64(0)))

    yield net("split_half", half_parts)

    def different(n):  # of other sizes, only read again
        parts = n("SequenceConstruct", f(2, 3), f(2, 5), f(1, 1))
        return n(
            "MatMul",
            n("SequenceAt", parts, i64(0)),
            n("Transpose", n("SequenceAt", parts, np.int32(0)), perm=[1, 0]),
        )

    yield net("at_int32", different)

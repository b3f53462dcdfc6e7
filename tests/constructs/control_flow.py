"""Loops and scans of known and unknown length, branches of other shapes, and conditions that an input decides."""

from __future__ import annotations

import numpy as np

from .build import Constructs, Net, TensorProto, b, codes, f, f32, given, graph, i, i64, net, weights

GO, KEEP = ("k", np.int64, []), ("go", np.bool_, [])
TRUE = np.array(True)


def loop(n: Net, trip, condition, x, build, *, dims=(2, 3), scan=(), carried=1, dtype=np.float32):
    """A Loop that carries x; `build` gives condition, carried values and what is collected."""
    body = graph(
        "loop", [GO, KEEP, *[(f"state{c}", dtype, list(dims)) for c in range(carried)]],
        [(np.bool_, []), *[(dtype, list(dims))] * carried, *scan], build,
    )  # fmt: skip
    return n.several(carried + len(scan), "Loop", trip, condition, *x, body=body)


def constructs() -> Constructs:
    def power(g):
        return g("Identity", "go"), g("Tanh", g("Add", "state0", f32(0.25)))

    yield net("loop_constant_trip", lambda n: loop(n, i64(3), TRUE, [n("Relu", f(2, 3))], power))
    yield net("loop_vector_trip", lambda n: loop(n, i64([3]), TRUE, [n("Relu", f(2, 3))], power))
    yield net("loop_no_condition", lambda n: loop(n, i64(4), None, [n("Relu", f(2, 3))], power))
    yield net("loop_input_trip", lambda n: loop(n, given(i64(3)), TRUE, [n("Relu", f(2, 3))], power))
    yield net("loop_input_trip_two_runs", lambda n: loop(n, i(low=2, high=6), TRUE, [n("Relu", f(2, 3))], power),
              sizes=[{}, {}])  # fmt: skip

    def collecting(g):
        y = g("Mul", "state0", f32(1.5))
        return g("Identity", "go"), y, g("ReduceSum", y, i64([1]), keepdims=0)

    yield net(
        "loop_collects",
        lambda n: loop(n, i64(3), TRUE, [n("Relu", f(2, 3))], collecting, scan=[(np.float32, [2])]),
    )

    def counting(g):
        return g("Identity", "go"), g("Add", "state0", g("Cast", "k", to=TensorProto.FLOAT))

    yield net("loop_uses_counter", lambda n: loop(n, i64(4), TRUE, [n("Relu", f(2, 3))], counting))

    def stopping(g):
        y = g("Mul", "state0", f32(2))
        return g("Less", g("ReduceMax", y, keepdims=0), f32(50)), y

    yield net("loop_stops_by_value", lambda n: loop(n, i64(20), TRUE, [n("Abs", f(2, 3))], stopping))
    yield net("loop_while", lambda n: loop(n, None, TRUE, [n("Abs", f(2, 3, low=1))], stopping))

    def known_stop(g):
        return g("Less", "k", i64(2)), g("Exp", g("Neg", "state0"))

    yield net("loop_stops_by_counter", lambda n: loop(n, i64(10), TRUE, [n("Relu", f(2, 3))], known_stop))

    def two(g):
        return g("Identity", "go"), "state1", g("Add", "state0", "state1")

    yield net(
        "loop_fibonacci",
        lambda n: loop(n, i64(6), TRUE, [n("Relu", f(2)), n("Relu", f(2))], two, dims=(2,), carried=2),
    )
    yield net(
        "loop_dynamic_batch", lambda n: loop(n, i64(3), TRUE, [n("Relu", f("N", 3))], power, dims=("N", 3)),
        sizes=[{"N": 1}, {"N": 4}],
    )  # fmt: skip

    def growing(g):  # the carried tensor grows
        return g("Identity", "go"), g("Concat", "state0", np.ones((1, 3), np.float32), axis=0)

    yield net("loop_grows", lambda n: loop(n, i64(3), TRUE, [n("Relu", f(1, 3))], growing, dims=("R", 3)))

    def outer(n):  # a weight from outside
        w = n("Relu", f(3, 3))
        x = n("Relu", f(2, 3))
        return loop(
            n, i64(3), TRUE, [x], lambda g: (g("Identity", "go"), g("Tanh", g("MatMul", "state0", w)))
        )

    yield net("loop_reads_outside", outer)

    def by_length(n):  # for t in range(x.shape[0])
        x = n("Relu", f("T", 4))
        count = n("Squeeze", n("Slice", n("Shape", x), i64([0]), i64([1])), i64([0]))

        def step(g):
            row = g("Gather", x, "k", axis=0)
            y = g("Tanh", g("Add", "state0", row))
            return g("Identity", "go"), y, g("Identity", y)

        return loop(n, count, TRUE, [np.zeros(4, np.float32)], step, dims=(4,), scan=[(np.float32, [4])])

    yield net("loop_over_rows", by_length, sizes=[{"T": 3}, {"T": 5}])

    def nested(n):
        x = n("Relu", f(2, 2))

        def inner(g):
            body = graph("inner", [("q", np.int64, []), ("qgo", np.bool_, []), ("u", np.float32, [2, 2])],
                         [(np.bool_, []), (np.float32, [2, 2])],
                         lambda h: (h("Identity", "qgo"), h("Sin", h("Add", "u", f32(0.1)))))  # fmt: skip
            return g("Identity", "go"), g("Loop", i64(2), TRUE, "state0", body=body)

        return loop(n, i64(2), TRUE, [x], inner, dims=(2, 2))

    yield net("loop_in_loop", nested)
    yield net("loop_integers", lambda n: loop(
        n, i64(3), TRUE, [n("Abs", i(2, 3))], lambda g: (g("Identity", "go"), g("Mul", "state0", i64(2))), dtype=np.int64))  # fmt: skip
    yield net("loop_zero_trips", lambda n: loop(n, i64(0), TRUE, [n("Relu", f(2, 3))], power))
    yield net("loop_never", lambda n: loop(n, i64(3), np.array(False), [n("Relu", f(2, 3))], power))
    yield net("loop_many", lambda n: loop(n, i64(40), TRUE, [n("Relu", f(2, 3))], power))

    def branch_in_loop(g):
        then = graph("then", [], [(np.float32, [2, 3])], lambda h: h("Neg", "state0"))
        els = graph(
            "else", [], [(np.float32, [2, 3])], lambda h: h("Exp", h("Clip", "state0", f32(-1), f32(1)))
        )
        even = g("Equal", g("Mod", "k", i64(2)), i64(0))
        return g("Identity", "go"), g("If", even, then_branch=then, else_branch=els)

    yield net("loop_with_branch", lambda n: loop(n, i64(3), TRUE, [n("Relu", f(2, 3))], branch_in_loop))

    # what the target does not take, inside a body
    def turning(g):
        return g("Identity", TRUE), g("Transpose", "state0", perm=[1, 0])

    yield net("loop_turns", lambda n: loop(n, i64(2), TRUE, [n("Relu", f(2, 3))], turning, dims=("A", "B")))

    def scattering(g):
        rows = i64([0, 1, 0], [2, 2, 2])
        return g("Identity", "go"), g(
            "ScatterElements", "state0", rows, np.ones((2, 3), np.float32), reduction="add"
        )

    yield net("loop_scatters", lambda n: loop(n, i64(3), TRUE, [n("Relu", f(4, 3))], scattering, dims=(4, 3)))

    def mixing(g):
        return g("Identity", "go"), g("BitwiseXor", g("Add", "state0", i64(5)), i64(9))

    yield net("loop_bitwise", lambda n: loop(n, i64(3), TRUE, [n("Abs", i(2, 3))], mixing, dtype=np.int64))
    yield net(
        "loop_no_condition_collects",
        lambda n: loop(n, i64(3), None, [n("Relu", f(2, 3))], collecting, scan=[(np.float32, [2])]),
    )

    def scan_best(n, length):
        body = graph(
            "scan", [("state", np.float32, [3]), ("row", np.float32, [3])], [(np.float32, [3]), (np.int64, [])],
            lambda g: (g("Add", "state", "row"), g("ArgMax", "state", axis=0, keepdims=0)),
        )  # fmt: skip
        return n.several(2, "Scan", np.zeros(3, np.float32), f(length, 3), num_scan_inputs=1, body=body)

    yield net("scan_best", lambda n: scan_best(n, 4))
    yield net("scan_best_dynamic", lambda n: scan_best(n, "T"), sizes=[{"T": 3}, {"T": 5}])

    # scans
    def scan(
        n, length, reverse=None, axes=None, out_reverse=None, dims=(3,), dtype=np.float32, out_axes=None
    ):
        body = graph("scan", [("state", dtype, list(dims)), ("row", dtype, list(dims))],
                     [(dtype, list(dims)), (dtype, list(dims))],
                     lambda g: (lambda s: (s, g("Tanh", s)))(g("Add", "state", "row")))  # fmt: skip
        more = {"scan_input_directions": reverse, "scan_input_axes": axes, "scan_output_directions": out_reverse,
                "scan_output_axes": out_axes}  # fmt: skip
        x = f(*length, dtype=dtype)
        return n.several(2, "Scan", np.zeros([3], dtype), x, body=body, num_scan_inputs=1,
                         **{key: value for key, value in more.items() if value is not None})  # fmt: skip

    yield net("scan", lambda n: scan(n, (4, 3)))
    yield net("scan_backwards", lambda n: scan(n, (4, 3), reverse=[1]))
    yield net("scan_output_backwards", lambda n: scan(n, (4, 3), out_reverse=[1]))
    yield net("scan_axis", lambda n: scan(n, (3, 4), axes=[1]))
    yield net("scan_output_axis", lambda n: scan(n, (4, 3), out_axes=[1]))
    yield net("scan_dynamic", lambda n: scan(n, ("T", 3)), sizes=[{"T": 3}, {"T": 6}])
    yield net("scan_half", lambda n: scan(n, (4, 3), dtype=np.float16))

    # branches
    def branch(n, condition, then, els, outs=((np.float32, [2, 3]),), dims=(2, 3)):
        x = n("Relu", f(*dims))
        parts = [
            graph(name, [], list(outs), lambda g, build=build: build(g, x))
            for name, build in (("then", then), ("else", els))
        ]
        return n.several(len(outs), "If", condition(n, x), then_branch=parts[0], else_branch=parts[1])

    def neg(g, x):
        return g("Neg", x)

    def exp(g, x):
        return g("Exp", x)

    flag = [{}, {}, {}]
    yield net("if_input", lambda n: branch(n, lambda n, x: b(), neg, exp), sizes=flag)
    yield net("if_input_vector", lambda n: branch(n, lambda n, x: b(1), neg, exp), sizes=flag)
    yield net(
        "if_computed",
        lambda n: branch(n, lambda n, x: n("Greater", n("ReduceMean", x, keepdims=0), f32(0.4)), neg, exp),
    )
    yield net("if_by_size", lambda n: branch(
        n, lambda n, x: n("Greater", n("Squeeze", n("Slice", n("Shape", x), i64([0]), i64([1]))), i64(2)), neg, exp,
        outs=((np.float32, ["N", 3]),), dims=("N", 3)), sizes=[{"N": 2}, {"N": 5}])  # fmt: skip
    yield net(
        "if_number_decides",
        lambda n: branch(n, lambda n, x: n("Equal", i(low=0, high=2), i64(1)), neg, exp),
        sizes=flag,
    )
    yield net("if_other_shapes", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Slice", x, i64([0]), i64([1]), i64([0])), exp,
        outs=((np.float32, ["R", 3]),)), sizes=flag)  # fmt: skip
    yield net("if_other_ranks", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("ReduceSum", x, i64([1]), keepdims=0), exp, outs=((np.float32, None),)), sizes=[{}])  # fmt: skip
    yield net("if_squeeze", lambda n: branch(  # torch.squeeze(x, 1) of an unknown size
        n, lambda n, x: n("Equal", n("Gather", n("Shape", x), i64(1)), i64(1)), lambda g, x: g("Squeeze", x, i64([1])),
        lambda g, x: g("Identity", x), outs=((np.float32, None),), dims=("N", "C", 3)), sizes=[{"N": 2, "C": 1}])  # fmt: skip
    yield net("if_two_outputs", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: (g("Neg", x), g("Exp", x)), lambda g, x: (g("Exp", x), g("Identity", x)),
        outs=((np.float32, [2, 3]),) * 2), sizes=flag)  # fmt: skip
    yield net("if_constants", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Identity", weights(2, 3)), lambda g, x: g("Identity", weights(2, 3, seed=1))),
        sizes=flag)  # fmt: skip
    yield net("if_integers", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Shape", x), lambda g, x: g("Identity", i64(7, 8)), outs=((np.int64, [2]),)), sizes=flag)  # fmt: skip
    yield net("if_bool_output", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Greater", x, f32(1)), lambda g, x: g("Less", x, f32(0.5)),
        outs=((np.bool_, [2, 3]),)), sizes=flag)  # fmt: skip
    yield net("if_convolutions", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Conv", x, weights(2, 2, 3, 3), pads=[1, 1, 1, 1]),
        lambda g, x: g("MaxPool", x, kernel_shape=[3, 3], pads=[1, 1, 1, 1]), outs=((np.float32, [1, 2, 5, 5]),), dims=(1, 2, 5, 5)),
        sizes=flag)  # fmt: skip
    yield net("if_topk_inside", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g.several(2, "TopK", x, i64([3]), axis=1)[0], neg), sizes=flag)  # fmt: skip
    yield net("if_determinant", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Det", x), lambda g, x: g("ReduceMax", x, i64(1, 2), keepdims=0),
        outs=((np.float32, [2]),), dims=(2, 3, 3)), sizes=flag)  # fmt: skip
    yield net("if_bitwise", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("BitwiseAnd", g("Cast", x, to=TensorProto.INT32), np.int32(1)),
        lambda g, x: g("Cast", x, to=TensorProto.INT32), outs=((np.int32, [2, 3]),)), sizes=flag)  # fmt: skip
    yield net("if_uint8", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g("Cast", x, to=TensorProto.UINT8),
        lambda g, x: g("Identity", codes(2, 3, dtype=np.uint8)), outs=((np.uint8, [2, 3]),)), sizes=flag)  # fmt: skip
    yield net("if_nested", lambda n: branch(
        n, lambda n, x: b(), lambda g, x: g(
            "If", b_of(g, x), then_branch=graph("in1", [], [(np.float32, [2, 3])], lambda h: h("Sin", x)),
            else_branch=graph("in2", [], [(np.float32, [2, 3])], lambda h: h("Cos", x))), neg), sizes=flag)  # fmt: skip


def b_of(g: Net, x: str) -> str:
    """Whether the mean of x is above 0.5."""
    return g("Greater", g("ReduceMean", x, keepdims=0), f32(0.5))

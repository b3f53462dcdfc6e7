"""TopK and sorting: over the limit, smallest first, ties, other types, a K that an input states."""

from __future__ import annotations

import numpy as np

from .build import Constructs, f, f32, given, i, i64, net, one


def constructs() -> Constructs:
    yield one("small", "TopK", f(2, 9), i64([3]), outputs=2)
    yield one("smallest", "TopK", f(2, 9), i64([3]), outputs=2, largest=0)
    yield one("axis_0", "TopK", f(9, 2), i64([3]), outputs=2, axis=0)
    yield one("axis_middle", "TopK", f(2, 9, 3), i64([3]), outputs=2, axis=1)
    yield net("values_only", lambda n: n.several(2, "TopK", f(2, 9), i64([4]))[0])
    ties = given(np.random.default_rng(0).integers(0, 4, (2, 12)).astype(np.float32))
    yield one("ties", "TopK", ties, i64([7]), outputs=2)
    yield one("ties_smallest", "TopK", ties, i64([7]), outputs=2, largest=0)
    yield one("over_limit", "TopK", f(1, 5000), i64([4000]), outputs=2)
    yield one("over_limit_smallest", "TopK", f(1, 4500), i64([3900]), outputs=2, largest=0)
    yield one("over_limit_axis", "TopK", f(4400, 2), i64([3841]), outputs=2, axis=0)
    yield net("over_limit_values_only", lambda n: n.several(2, "TopK", f(2, 4200), i64([4000]))[0])
    many = given(np.random.default_rng(1).integers(0, 50, (1, 4300)).astype(np.float32))
    yield one("over_limit_ties", "TopK", many, i64([4000]), outputs=2)
    yield one("over_limit_half", "TopK", f(1, 4100, dtype=np.float16), i64([4000]), outputs=2)
    yield one("over_limit_dynamic", "TopK", f("N", 4100), i64([4000]), outputs=2, sizes=[{"N": 1}, {"N": 2}])
    yield one("sort_all", "TopK", f(1, 4096), i64([4096]), outputs=2)
    yield one("computed_k", "TopK", f(2, 9), given(i64([4])), outputs=2)
    yield one("computed_k_smallest", "TopK", f(2, 9), given(i64([4])), outputs=2, largest=0)
    yield one("rank_1", "TopK", f(9), i64([3]), outputs=2)
    yield one("rank_5", "TopK", f(1, 2, 1, 2, 9), i64([3]), outputs=2)
    yield one("int32", "TopK", i(2, 9, dtype=np.int32, high=999), i64([3]), outputs=2)
    yield one("uint8", "TopK", i(2, 9, dtype=np.uint8, high=200), i64([3]), outputs=2)
    yield one("double", "TopK", f(2, 9, dtype=np.float64), i64([3]), outputs=2)
    yield one("opset_1", "TopK", f(2, 9), outputs=2, k=3, opset=9)
    yield one("opset_10", "TopK", f(2, 9), i64([3]), outputs=2, opset=10)
    yield one("infinities", "TopK", given(f32([1, 5, 3, -np.inf, np.inf, 0])), i64([3]), outputs=2)

    def minimum(n):  # K = min(300, rows): detectors of torchvision
        x = f("R", 4)
        x = n("Relu", x)
        scores = n("Squeeze", n("Slice", x, i64([0]), i64([1]), i64([1])), i64([1]))
        rows = n("Slice", n("Shape", x), i64([0]), i64([1]))
        k = n("Min", rows, i64([6]))
        _, places = n.several(2, "TopK", scores, k)
        return n("Gather", x, places, axis=0)

    yield net("k_is_minimum_of_rows", minimum, sizes=[{"R": 9}, {"R": 12}])

    def argsort(n):  # torch.argsort of all
        x = f(2, 9)
        x = n("Relu", x)
        k = n("Slice", n("Shape", x), i64([1]), i64([2]))
        return n.several(2, "TopK", x, k, largest=0)[1]

    yield net("argsort", argsort)

    def argsort_dynamic(n):
        x = n("Relu", f(2, "S"))
        k = n("Slice", n("Shape", x), i64([1]), i64([2]))
        return n.several(2, "TopK", x, k)

    yield net("argsort_dynamic", argsort_dynamic, sizes=[{"S": 5}, {"S": 9}])

    def median(n):
        values, _ = n.several(2, "TopK", f(3, 9), i64([5]))
        return n("Slice", values, i64([4]), i64([5]), i64([1]))

    yield net("median", median)
    yield one("arg_max_last_index", "ArgMax", ties, axis=1, select_last_index=1)
    yield one("arg_min_last_index", "ArgMin", ties, axis=1, select_last_index=1, keepdims=0)
    yield one("arg_max_ties", "ArgMax", ties, axis=1)
    yield one("arg_max_rank_1", "ArgMax", f(9), axis=0, keepdims=0)
    yield one("arg_max_double", "ArgMax", f(2, 9, dtype=np.float64), axis=-1)
    yield one("arg_max_bool_as_uint8", "ArgMax", i(2, 9, high=2, dtype=np.uint8), axis=-1)

    def percentile(n):
        x = n("Relu", f(1, 4000))
        values, _ = n.several(2, "TopK", x, i64([3900]), largest=0)
        return n("Clip", x, f32(0), n("Squeeze", n("Slice", values, i64([3899]), i64([3900]), i64([1]))))

    yield net("percentile_clip", percentile)
    yield one("k_one", "TopK", f(2, 9), i64([1]), outputs=2)

"""Scatter with reductions, of all types and ranks; the old Scatter; TensorScatter."""

from __future__ import annotations

import numpy as np

from .build import Constructs, b, f, f32, given, i, i64, net, one, tensor, weights


def _rows(n: int, high: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, high, (n, 1))


def constructs() -> Constructs:
    twice = i64([1], [3], [1])
    index = np.array([[0, 1, 0], [2, 2, 2]])
    for reduction in ("add", "mul", "max", "min"):
        yield one(f"nd_{reduction}", "ScatterND", f(5, 4), twice, f(3, 4), reduction=reduction)
        yield one(f"elements_{reduction}", "ScatterElements", f(3, 3), index, f(2, 3), reduction=reduction)
    for reduction in ("add", "max"):
        yield one(
            f"nd_{reduction}_dynamic", "ScatterND", f("N", 4), given(twice), f(3, 4),
            reduction=reduction, sizes=[{"N": 5}, {"N": 9}],
        )  # fmt: skip
        yield one(
            f"elements_{reduction}_int", "ScatterElements", i(4, 3, low=-5, high=5), i(6, 3, high=4),
            i(6, 3, low=-5, high=5), reduction=reduction,
        )  # fmt: skip
    for reduction in ("mul", "min"):
        yield one(
            f"elements_{reduction}_axis", "ScatterElements", f(3, 4, 2), i(3, 4, 2, high=4), f(3, 4, 2),
            reduction=reduction, axis=-2,
        )  # fmt: skip
        yield one(
            f"nd_{reduction}_computed_indices",
            "ScatterND",
            f(5, 4),
            given(twice),
            f(3, 4),
            reduction=reduction,
        )
    yield one("elements_max_half", "ScatterElements", f(4, 3, dtype=np.float16), index, f(2, 3, dtype=np.float16),
              reduction="max")  # fmt: skip
    yield one(
        "nd_add_elements",
        "ScatterND",
        f(3, 4),
        i64([[0, 1], [2, 3]], [[0, 1], [1, 1]]),
        f(2, 2),
        reduction="add",
    )
    yield one("nd_add_rank_1", "ScatterND", f(7), i64([2], [2], [6]), f(3), reduction="add")
    yield one("nd_add_negative_indices", "ScatterND", f(5, 2), i64([-1], [0], [-1]), f(3, 2), reduction="add")
    yield one(
        "nd_add_int32", "ScatterND", i(5, 2, dtype=np.int32), twice, i(3, 2, dtype=np.int32), reduction="add"
    )
    yield one("nd_none_bool", "ScatterND", b(5, 2), i64([1], [3]), b(2, 2))
    yield one("nd_none_uint8", "ScatterND", i(5, 2, dtype=np.uint8), i64([1], [3]), i(2, 2, dtype=np.uint8))
    yield one(
        "nd_none_double", "ScatterND", f(5, 2, dtype=np.float64), i64([1], [3]), f(2, 2, dtype=np.float64)
    )
    yield one("nd_none", "ScatterND", f(5, 2), i64([1], [3]), f(2, 2))
    yield one("nd_none_dynamic_updates", "ScatterND", f("N", 2), i("K", 1, high=3), f("K", 2),
              sizes=[{"N": 5, "K": 1}, {"N": 3, "K": 1}])  # fmt: skip
    yield one("nd_add_dynamic_updates", "ScatterND", f(6, 2), i("K", 1, high=6), f("K", 2), reduction="add",
              sizes=[{"K": 3}, {"K": 7}])  # fmt: skip
    yield one("elements_add_dynamic", "ScatterElements", f("N", 3), i("N", 3, high=2), f("N", 3), reduction="add",
              sizes=[{"N": 4}, {"N": 2}])  # fmt: skip
    yield one("elements_none_bool", "ScatterElements", b(3, 3), i64([0, 1, 2]).reshape(1, 3), b(1, 3))
    yield one("elements_none_uint8", "ScatterElements", i(3, 3, dtype=np.uint8), i64([[0, 1, 2]]),
              i(1, 3, dtype=np.uint8))  # fmt: skip
    yield one("elements_none", "ScatterElements", f(3, 3), i64([0, 2, 1]).reshape(1, 3), f(1, 3))
    yield one("elements_none_last_axis", "ScatterElements", f(2, 5), i64([[1, 3], [0, 4]]), f(2, 2), axis=-1)
    yield one("elements_none_int32_indices", "ScatterElements", f(2, 5), np.array([[1, 3], [0, 4]], np.int32),
              f(2, 2), axis=1)  # fmt: skip
    yield one("scatter_9", "Scatter", f(3, 3), i64([0, 2, 1]).reshape(1, 3), f(1, 3), opset=9)
    yield one("scatter_10_axis", "Scatter", f(2, 5), i64([[1, 3], [0, 4]]), f(2, 2), opset=10, axis=1)
    yield one(
        "elements_opset_11", "ScatterElements", f(3, 3), i64([-1, 2, 1]).reshape(1, 3), f(1, 3), opset=11
    )
    yield one("elements_add_opset_16", "ScatterElements", f(3, 3), i64([[0, 2, 1], [0, 0, 1]]), f(2, 3), opset=16,
              reduction="add")  # fmt: skip
    yield one("elements_add_uint8", "ScatterElements", i(4, dtype=np.uint8), i64(0, 0, 3), i(3, dtype=np.uint8),
              reduction="add")  # fmt: skip
    yield one("elements_max_rank_4", "ScatterElements", f(2, 2, 3, 4), i(2, 2, 3, 6, high=4), f(2, 2, 3, 6),
              reduction="max", axis=3)  # fmt: skip
    for mode, start in (("linear", [1, 3]), ("circular", [2, 4])):
        yield one(f"tensor_scatter_{mode}", "TensorScatter", f(2, 3, 6, 4), f(2, 3, 2, 4), given(i64(*start)),
                  opset=24, mode=mode)  # fmt: skip
    yield one("tensor_scatter_no_indices", "TensorScatter", f(2, 3, 6, 4), f(2, 3, 2, 4), None, opset=24)

    def histogram(n):  # torch.bincount, torch.scatter_add of ones
        zeros = n("ConstantOfShape", i64([8]), value=tensor(f32([0]), "zero"))
        return n("ScatterElements", zeros, i(12, high=8), np.ones(12, np.float32), reduction="add")

    yield net("histogram", histogram)

    def pooled(n):  # message passing: torch_geometric's scatter mean
        rows = n("Gather", f(6, 3), given(i64(0, 1, 2, 3, 4, 5, 0, 2)), axis=0)
        into = n("Expand", n("Unsqueeze", given(i64(1, 0, 3, 2, 5, 4, 5, 5)), i64([1])), i64(8, 3))
        sums = n("ScatterElements", np.zeros((6, 3), np.float32), into, rows, axis=0, reduction="add")
        counts = n("ScatterElements", np.zeros((6, 3), np.float32), into, np.ones((8, 3), np.float32), axis=0,
                   reduction="add")  # fmt: skip
        return n("Div", sums, n("Max", counts, f32(1)))

    yield net("message_passing_mean", pooled)

    def voxels(n):  # PointPillars: points into a canvas
        return n("ScatterND", np.zeros((16, 4), np.float32), given(_rows(9, 16)), n("MatMul", f(9, 3), weights(3, 4)),
                 reduction="max")  # fmt: skip

    yield net("voxel_max", voxels)

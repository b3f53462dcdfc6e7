"""Channels that are all but zero get scales that floats hold, and nothing else changes."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from edit_nets import Case, kernels, net, sqnr, values_of
from onnx import numpy_helper
from said import is_said

from onnxq.repair import degenerate
from onnxq.run import trt


def case_of(*sizes: float) -> Case:
    w = (np.random.default_rng(0).standard_normal((32, 16, 3, 3)) / 12).astype(np.float32)
    for place, size in enumerate(sizes):
        w[place] *= np.float32(size)
    return Case(net("s = Conv (x, w, b)  y = Relu (s)", {"w": w, "b": (32,)}))


def scales(case: Case, draft: object) -> np.ndarray:
    proto = case.quantized(draft)  # type: ignore[arg-type]
    (found,) = (t for t in proto.graph.initializer if t.name == "w_scale")
    return numpy_helper.to_array(found)


def test_scales_have_a_floor() -> None:
    case = case_of(1e-14, 0.0, 1e-36, 1e-5)
    found = degenerate.find(case.model, case.draft)
    assert set(found.told) == {"w"}
    assert is_said(found.told["w"], "all-but-zero", small=2, channels=32)
    draft = dataclasses.replace(case.draft, patches=found.patches)
    before, after = scales(case, case.draft), scales(case, draft)
    assert before[0] < 1e-14
    assert np.median(after) * 0.5e-8 < after[0] == after[2] < np.median(after) * 2e-8
    rest = np.delete(np.arange(32), [0, 2])
    assert np.array_equal(before[rest], after[rest])
    (one,), (other,) = (values_of(case.quantized(d), case.feeds, ["y"]) for d in (case.draft, draft))
    assert sqnr(one, other) > 130


def test_small_layers_and_even_ones_are_left() -> None:
    assert degenerate.find(*(lambda c: (c.model, c.draft))(case_of())) == degenerate.Degenerate()
    small = case_of(*[1e-12] * 32)
    assert degenerate.find(small.model, small.draft) == degenerate.Degenerate()


def test_a_stated_range_is_raised_too() -> None:
    case = case_of(1e-14)
    stated = np.full(32, 0.2, np.float32)
    stated[5] = 1e-20
    patches = degenerate.Patches(amax={("w", 0): stated})
    found = degenerate.find(case.model, dataclasses.replace(case.draft, patches=patches))
    raised = found.patches.amax["w", 0]
    assert raised[5] == pytest.approx(2e-9)
    assert np.array_equal(np.delete(raised, 5), np.delete(stated, 5))


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("half", [False, True])
def test_the_compiler_takes_both(tmp_path: Path, half: bool) -> None:
    case = case_of(1e-14, 0.0, 1e-36)
    found = degenerate.find(case.model, case.draft)
    draft = dataclasses.replace(case.draft, patches=found.patches)
    before = kernels(case.quantized(case.draft), tmp_path, half=half)
    assert kernels(case.quantized(draft), tmp_path, half=half) == before
    assert before[1] == 1

"""Each construct is a model that onnxruntime runs; a part is compiled, as `make constructs` does with all."""

from __future__ import annotations

import re
import zlib
from collections import Counter
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from constructs import chosen, constructs, judge
from constructs.build import Construct
from constructs.judge import difference, expected, flags_of, outcome, refusal
from constructs.verdicts import stored

import onnxq
from onnxq.run import trt

needs_compiler = pytest.mark.skipif(
    trt.installed() is None, reason="tensorrt-rtx is not installed: pip install 'onnxq[trt]'"
)

EVERY = 16
"""One of so many is compiled, by the hash of its name, so that none depends on which others there are."""

SUBJECTS = sorted({one.subject for one in constructs().values()})
PART = [key for key in constructs() if zlib.crc32(key.encode()) % EVERY == 0]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_constructs_are_models_that_onnxruntime_runs(subject: str) -> None:
    verdicts = stored()
    for one in chosen([subject]):
        assert not complaint(one), one.key
        assert verdicts[one.key].model == one.digest, f"{one.key} is another model: make constructs"
        runs = expected(one)
        assert len(runs) == len(one.sizes)
        for output, value in zip(one.model.graph.output, runs[0], strict=True):
            dims = output.type.tensor_type.shape.dim
            assert len(dims) == value.ndim, one.key
            for size, dim in zip(value.shape, dims, strict=True):
                assert not dim.HasField("dim_value") or dim.dim_value == size, one.key


def complaint(one: Construct) -> str:
    """What ONNX's checker has against a construct, but for operators of other domains and withdrawn ones."""
    try:
        onnx.checker.check_model(one.model)
    except onnx.checker.ValidationError as error:
        known = {"", "ai.onnx.ml"} | {function.domain for function in one.model.functions}
        foreign = {node.domain for node in one.model.graph.node} - known
        return "" if foreign or re.search("deprecated|No Op registered", str(error)) else str(error)
    return ""


def test_there_are_enough_of_them() -> None:
    verdicts = Counter(verdict.verdict for verdict in stored().values())
    assert verdicts["rejected"] >= 300
    assert verdicts["accepted"] >= 300
    assert set(stored()) >= set(constructs())
    assert len(PART) >= len(constructs()) // EVERY // 2


@needs_compiler
@pytest.mark.parametrize("key", PART)
def test_a_part_is_as_stored(key: str) -> None:
    """What was repaired stays repaired, what the compiler takes stays as it is, and nothing becomes wrong."""
    one, verdict = constructs()[key], stored()[key]
    why = refusal(one.model, one.feeds())
    assert ("rejected" if why else "accepted") == verdict.verdict, why
    now = outcome(one, verdict.verdict == "rejected")
    if now["outcome"] in ("wrong", "raised", "rejected"):
        assert now["outcome"] == verdict.outcome, now["why"]


def test_a_difference_is_one() -> None:
    """The comparison sees what it must: values, types, shapes, NaN; and lets pass what it may."""
    one = constructs()["scatter/nd_add"]
    was = [np.array([1, -2, np.nan], np.float32)]
    assert not difference(one, was, [np.array([1 + 2e-5, -2, np.nan], np.float32)])
    assert difference(one, was, [np.array([1 + 9e-5, -2, np.nan], np.float32)])
    assert difference(one, was, [np.array([1, -2, 0], np.float32)])
    assert difference(one, was, [np.array([1, -2, np.nan], np.float64)])
    assert difference(one, was, [np.array([[1, -2, np.nan]], np.float32)])
    assert not difference(one, was, [np.array([[1, -2, np.nan]], np.float64)], interface=True)
    assert difference(one, [np.array([7])], [np.array([8])])
    quantized = constructs()["qlinear/add_uint8"]
    assert not difference(quantized, [np.array([7], np.uint8)], [np.array([8], np.uint8)])
    assert difference(quantized, [np.array([7], np.uint8)], [np.array([9], np.uint8)])


def test_only_flags_that_the_report_names_are_followed() -> None:
    one = constructs()["exporters/tile_by_input"]
    name = next(name for name, entry in one.inputs.items() if entry.dtype == np.int64)
    assert flags_of({"notes": ["give values with --freeze or --shape"]}, one) == {}
    assert flags_of({"notes": ["--freeze other=1"], "commands": [f"--freeze {name}=1"]}, one) == {}
    flags = flags_of({"near_misses": [{"why": f"state its value: --freeze {name}=VALUE"}]}, one)
    assert list(flags) == ["freeze"]
    assert flags["freeze"][name].tolist() == [2, 2]


class Told:
    """A `sanitize` whose first report names a flag; with it, it gives the test's model or what it makes."""

    def __init__(self, says: str, model: onnx.ModelProto | None = None) -> None:
        self.says, self.model, self.flags = says, model, {}

    def __call__(self, model: onnx.ModelProto, target: str, **flags: object) -> SimpleNamespace:
        self.flags = flags
        report = {"near_misses": [] if flags else [{"why": self.says}]}
        told = SimpleNamespace(to_dict=lambda: report)
        if self.model is not None:
            return SimpleNamespace(model=self.model if flags else model, report=told)
        return SimpleNamespace(model=onnxq.sanitize(model, target=target, **flags).model, report=told)


@needs_compiler
def test_a_flag_that_the_report_names_repairs(monkeypatch: pytest.MonkeyPatch) -> None:
    one = constructs()["exporters/tile_by_input"]
    sanitize = Told("x1 is only known at run time: --freeze x1=VALUE")
    monkeypatch.setattr(judge, "sanitize", sanitize)
    now = outcome(one, rejected=True)
    assert (now["outcome"], now["flags"]) == ("fixed", {"freeze": {"x1": [2, 2]}}), now
    monkeypatch.setattr(judge, "sanitize", Told("give a value"))
    assert outcome(one, rejected=True)["outcome"] == "rejected"


@needs_compiler
def test_another_interface_is_compared_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    one = constructs()["dtypes/uint8_transpose"]
    wide = onnx.ModelProto()
    wide.CopyFrom(one.model)
    for entry in (*wide.graph.input, *wide.graph.output):
        entry.type.tensor_type.elem_type = onnx.TensorProto.INT32
    monkeypatch.setattr(judge, "sanitize", Told("(onnxq sanitize --allow-interface-changes)", wide))
    now = outcome(one, rejected=True)
    assert (now["outcome"], now["flags"]) == ("fixed", {"allow_interface_changes": True}), now
    wide.graph.node[0].attribute[0].ints[:] = [0, 1, 2]
    assert outcome(one, rejected=True)["outcome"] == "wrong"

"""Who reads which samples: what verifies decides nothing, in any mode."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent / "noise"))

from noise_nets import outlier_channel

import onnxq
from onnxq.base.errors import Fault
from onnxq.data.samples import Sample
from onnxq.data.sources import _Indexed
from onnxq.data.split import _IndexSplit
from onnxq.pipeline.job import Job
from onnxq.pipeline.sampling import SampleUses, Sampling

MODEL, _ = outlier_channel()
SAMPLES = np.random.default_rng(5).standard_normal((96, 1, 16, 8, 8)).astype(np.float32)
DATA = [{MODEL.graph.input[0].name: sample} for sample in SAMPLES]
COMMON: dict[str, Any] = {"compile": False, "prove": "never", "body": "fp32"}

DECIDES = {"calibrate", "choose", "repair", "loud", "goal", "sources", "confirm", "body", "insert"}
"""The steps of a run in which samples decide something."""


class Watch:
    """What a run reads, and when.

    Attributes:
        read: of each sample the steps that were open when it was read.
        samplings: who handed the samples out.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.read: dict[int, set[str]] = {}
        self.samplings: list[Sampling] = []
        opened: list[str] = []
        step, good, begin = Job.step, _Indexed.good, Sampling.__init__

        @contextlib.contextmanager
        def stepping(job: Job, name: str) -> Iterator[None]:
            opened.append(name)
            try:
                with step(job, name):
                    yield
            finally:
                opened.pop()

        def reading(source: _Indexed, indices: Any) -> Iterator[Sample]:
            for sample in good(source, indices):
                self.read.setdefault(sample.index, set()).update(opened)
                yield sample

        def beginning(sampling: Sampling, *args: Any, **options: Any) -> None:
            begin(sampling, *args, **options)
            self.samplings.append(sampling)

        patch.setattr(Job, "step", stepping)
        patch.setattr(_Indexed, "good", reading)
        patch.setattr(Sampling, "__init__", beginning)


def with_plan(folder: Path) -> None:
    made = onnxq.plan(MODEL, DATA, repair=("bias", "shift"), prove="never", body="fp32")
    made.save(folder / "plan.toml")
    onnxq.quantize(MODEL, DATA, plan=folder / "plan.toml", **COMMON)


def with_statistics(folder: Path) -> None:
    onnxq.calibrate(MODEL, DATA, folder / "model.stats.npz", samples=32)
    onnxq.quantize(MODEL, DATA, stats=folder / "model.stats.npz", **COMMON)


MODES: dict[str, Callable[[Path], Any]] = {
    "default": lambda _: onnxq.quantize(MODEL, DATA, **COMMON),
    "repair": lambda _: onnxq.quantize(MODEL, DATA, repair=("bias", "shift", "gptq"), **COMMON),
    "goal": lambda _: onnxq.quantize(MODEL, DATA, min_sqnr=20.0, method="mse", repair="none", **COMMON),
    "loud": lambda _: onnxq.quantize(MODEL, DATA, loud="auto", **COMMON),
    "plan": with_plan,
    "sensitivity": lambda _: onnxq.sensitivity(MODEL, DATA, prove="never"),
    "stats": with_statistics,
}


@pytest.mark.parametrize("mode", MODES)
def test_what_verifies_decides_nothing(mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    MODES[mode](tmp_path)
    assert watch.samplings
    held = {index for one in watch.samplings if one.parts for index in one.parts.held_indices or ()}
    assert len(held) == (28 if mode == "stats" else 12)  # 16 are left over beside those that confirm
    assert {
        index: steps & DECIDES for index, steps in watch.read.items() if index in held and steps & DECIDES
    } == {}
    assert any(steps & DECIDES for steps in watch.read.values())
    for one in watch.samplings:
        verified = one.uses.indices.get("verify", set())
        assert verified <= held
        assert all(verified.isdisjoint(read) for use, read in one.uses.indices.items() if use != "verify")


@pytest.mark.parametrize("part", ["choice", "confirmation"])
def test_a_step_that_decides_on_what_verifies_ends_the_run(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_IndexSplit, part, _IndexSplit.held_out)
    with pytest.raises(Fault, match="its figures would be too good"):
        onnxq.quantize(MODEL, DATA, min_sqnr=20.0, method="auto", **COMMON)


def test_few_samples_may_do_both() -> None:
    result = onnxq.quantize(MODEL, DATA[:1], **COMMON)
    assert result.report.calibration.held_out_code == "shared"


def test_what_was_read_to_verify_does_not_decide_later() -> None:
    sample, uses = Sample(3, "data[3]", {}), SampleUses()
    for use in ("choose", "fit", "calibrate"):  # which may be the same
        assert list(uses.noted(use, [sample], lambda: False)) == [sample]
    with pytest.raises(
        Fault, match="data\\[3\\] was read to calibrate and to choose and to fit and to verify"
    ):
        list(uses.noted("verify", [sample], lambda: False))
    other = Sample(4, "data[4]", {})
    assert list(uses.noted("verify", [other], lambda: False)) == [other]
    with pytest.raises(Fault, match="to confirm and to verify"):
        list(uses.noted("confirm", [other], lambda: False))
    assert list(uses.noted("confirm", [other], lambda: True)) == [other]

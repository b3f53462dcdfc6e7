"""Decoders: what keeps keys and values is found, and the file serves prefill and decode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from command import run
from said import is_said

import onnxq
from benchmarks.nets.transformer import decoder, renamed
from onnxq.base.errors import UserError
from onnxq.run import ort, trt

Feeds = dict[str, np.ndarray]
COUNT = 16
QUICK: dict[str, Any] = {"compile": False, "repair": "none", "prove": "never", "layer_samples": 0}


def text(random: np.random.Generator, past: int, new: int, more: int = 0) -> Feeds:
    """A sample for `decoder()`; `more`: by how many tokens its mask is too long."""
    caches = {
        f"past_{n}_{kind}": random.standard_normal((1, 4, past, 16))
        for n in (0, 1)
        for kind in ("key", "value")
    }
    return {
        "input_ids": random.integers(0, 500, (1, new)),
        "attention_mask": np.ones((1, past + new + more), np.int64),
        **{name: array.astype(np.float32) for name, array in caches.items()},
    }


@pytest.fixture(scope="module")
def model() -> onnx.ModelProto:
    return decoder()


@pytest.fixture(scope="module")
def steps() -> list[Feeds]:
    random = np.random.default_rng(0)
    return [text(random, int(random.integers(15, 40)), 1) for _ in range(COUNT)]


@pytest.fixture(scope="module")
def prompts() -> list[Feeds]:
    random = np.random.default_rng(1)
    return [text(random, 0, int(random.integers(17, 40))) for _ in range(COUNT)]


def deployments(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    return {one["name"]: one for one in report["deployments"]}


def test_a_prompt_and_then_its_steps_give_what_all_at_once_gives(model: onnx.ModelProto) -> None:
    """The net is what it is said to be: what is past counts, what comes later does not."""
    session, sample = ort.load(model), text(np.random.default_rng(2), 0, 12)
    whole, *_ = session.run(sample)
    first = {
        **sample,
        "input_ids": sample["input_ids"][:, :11],
        "attention_mask": sample["attention_mask"][:, :11],
    }
    some, *presents = session.run(first)
    np.testing.assert_allclose(some, whole[:, :11], rtol=0, atol=1e-4)
    pasts = dict(zip([name for name in sample if name.startswith("past")], presents, strict=True))
    last, *_ = session.run({**sample, **pasts, "input_ids": sample["input_ids"][:, 11:]})
    np.testing.assert_allclose(last, whole[:, 11:], rtol=0, atol=1e-4)


@pytest.mark.parametrize("letters", [False, True])
def test_what_a_model_holds_says_what_it_keeps(model: onnx.ModelProto, letters: bool) -> None:
    own = onnx.ModelProto()
    own.CopyFrom(model)
    names = [info.name for info in own.graph.input]
    if letters:
        renamed(own, dict(zip(names, "abcdef", strict=True)))
        names = list("abcdef")
    found = onnxq.describe(own)
    assert [one.past for one in found.caches] == names[2:]
    assert [one.present for one in found.caches] == [info.name for info in own.graph.output][1:]
    assert found.lengths is not None
    assert (found.lengths.past, found.lengths.new, found.lengths.whole) == (("P",), ("S",), ("T",))
    assert "; 4 caches" in repr(found)


def test_inspect_shows_it(model: onnx.ModelProto, tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    shown = run(tmp_path, "inspect", "m.onnx", columns=None).out
    assert is_said(shown, "model.caches", count=4)
    assert "past_0_key -> present_0_key, along axis 2" in shown
    assert "S: new tokens; " in shown


def test_of_steps_alone_the_layers_are_in_int8_for_the_prefill(
    model: onnx.ModelProto, steps: Sequence[Feeds]
) -> None:
    """A decoder whose samples were steps got no int8 at all."""
    report = onnxq.quantize(model, list(steps), **QUICK).report
    found = deployments(report)
    assert list(found) == ["decode", "prefill"]
    assert (found["decode"]["samples"], found["prefill"]["samples"]) == (COUNT, 0)
    assert all(one["is_weight_assumed"] and one["weight"] == 0.5 for one in found.values())
    assert report["plan"]["int8_share_of_eligible_macs"] == 1.0
    assert found["prefill"]["profiles"]["past_0_key"] == [[1, 4, 0, 16]] * 3
    waits = found["decode"]["worth"][0]
    assert (waits["share"], waits["reads_weights"]) == (0.0, True)
    assert 0.9 < waits["weights"] < 1
    assert found["prefill"]["worth"][0]["reads_weights"] is False


def test_of_prompts_alone_steps_have_a_profile(model: onnx.ModelProto, prompts: Sequence[Feeds]) -> None:
    found = deployments(onnxq.quantize(model, list(prompts), **QUICK).report)
    assert list(found) == ["prefill", "decode"]
    lengths = [sample["input_ids"].shape[1] for sample in prompts]
    assert found["decode"]["profiles"]["input_ids"] == [[1, 1]] * 3
    low, _, high = found["decode"]["profiles"]["past_1_value"]
    assert (low[2], high[2]) == (min(lengths) - 1, max(lengths) - 1)


def test_a_layer_of_one_row_says_so(model: onnx.ModelProto, steps: Sequence[Feeds]) -> None:
    """Where decode is most of the work."""
    weights = {"decode": 9.0, "prefill": 1.0}
    plan = onnxq.quantize(model, list(steps), profile_weights=weights, **QUICK).report["plan"]
    kept = [entry for entry in plan["kept_float"] if entry["code"] == "few-rows"]
    assert len(kept) == 13
    assert {entry["by"] for entry in kept} == {"quantize_weighted"}
    assert plan["int8_share_of_all_macs"] == 0.0


def test_a_model_of_one_row_that_is_static_says_so_too() -> None:
    proto = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[1, 64] x) => (float[1, 64] y) { y = MatMul (x, w) }"""
    )
    weights = np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)
    proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    data = [{"x": np.ones((1, 64), np.float32)}]
    (worth,) = onnxq.quantize(proto, data, **QUICK).report["deployment"]["worth"]
    assert worth["reads_weights"] is True
    assert worth["weights"] == pytest.approx(64 * 64 / (64 * 64 + 2 * 64))


def test_the_screen_says_what_helps(model: onnx.ModelProto, steps: Sequence[Feeds], tmp_path: Path) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    for number, sample in enumerate(steps[:4]):
        np.savez(tmp_path / f"data/{number}.npz", **sample)  # type: ignore[arg-type]
    done = run(tmp_path, "quantize", "m.onnx", "--calib", "data", "--no-engine", "--repair", "none", "-v")
    shown = " ".join(done.out.split())
    assert is_said(shown, "worth.reading")
    assert is_said(shown, "worth.helps-reading")
    assert (
        "prefill: 50 % of the work (assumed; to state it: profile_weight prefill=W), no sample is of it"
        in shown
    )


def test_sizes_that_another_profile_has_are_not_said_to_be_all(
    model: onnx.ModelProto, steps: Sequence[Feeds], tmp_path: Path
) -> None:
    """Steps have one token each; the prefill, whose profile is printed, has more."""
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    for number, sample in enumerate(steps[:4]):
        np.savez(tmp_path / f"data/{number}.npz", **sample)  # type: ignore[arg-type]
    done = run(tmp_path, "quantize", "m.onnx", "--calib", "data", "--no-engine", "--repair", "none")
    assert "--maxShapes" in done.out
    assert "no other size" not in " ".join(done.out.split())


def test_a_mask_of_another_length_is_refused(model: onnx.ModelProto, steps: Sequence[Feeds]) -> None:
    bad = text(np.random.default_rng(3), 20, 1, more=3)
    with pytest.raises(UserError, match="attention_mask is of 24 tokens; past_0_key has 20 tokens") as caught:
        onnxq.quantize(model, [*steps, bad], **QUICK)
    assert "for 21 tokens" in (caught.value.hint or "")
    assert "--skip-bad" in (caught.value.hint or "")
    report = onnxq.quantize(model, [*steps, bad], skip_bad=True, **QUICK).report
    assert deployments(report)["decode"]["profiles"]["attention_mask"][2][1] <= 40


def test_stated_lengths_that_do_not_fit_are_refused_with_the_line_to_type(
    model: onnx.ModelProto, tmp_path: Path
) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    (tmp_path / "data").mkdir()
    np.savez(tmp_path / "data/0.npz", **text(np.random.default_rng(4), 15, 1))  # type: ignore[arg-type]
    done = run(
        tmp_path, "quantize", "m.onnx", "--calib", "data", "--profile=input_ids=1x1:1x1:1x1",
        "--profile=attention_mask=1x7:1x15:1x31", "--profile=past_0_key=1x4x7x16:1x4x15x16:1x4x31x16",
    )  # fmt: skip
    assert done.code == 2
    assert "--profile attention_mask=1x8:1x16:1x32" in done.err
    assert "Traceback" not in done.err


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_file_builds_with_both_profiles_and_is_near_the_float_model(
    model: onnx.ModelProto, prompts: Sequence[Feeds], steps: Sequence[Feeds]
) -> None:
    result = onnxq.quantize(model, [*prompts, *steps], repair="none", prove="never", layer_samples=0)
    assert result.report["engine"]["status"] == "compiled"
    found = deployments(result.report)
    assert list(found) == ["prefill", "decode"]
    for one in found.values():
        assert one["verdict"]["reason"] == ""
        assert one["activation_mb"] > 0
    ours, floats = ort.load(result.model), ort.load(model)
    for sample in (prompts[0], steps[0]):
        for mine, theirs in zip(ours.run(sample), floats.run(sample), strict=True):
            noise = np.sqrt(np.mean(np.square(mine - theirs)) / np.mean(np.square(theirs)))
            assert noise < 10 ** (-25 / 20)


def test_what_was_assumed_stays_in_statistics_and_plans(
    model: onnx.ModelProto, steps: Sequence[Feeds], tmp_path: Path
) -> None:
    """A run that obeys the plan has the same deployments, from the data and from nothing."""
    plan = onnxq.plan(model, list(steps), repair="none", prove="never")
    plan.save(tmp_path / "p.toml")
    first = deployments(plan.report)
    for data in (list(steps), None):
        again = deployments(onnxq.quantize(model, data, plan=tmp_path / "p.toml", **QUICK).report)
        assert {name: one["profiles"] for name, one in again.items()} == {
            name: one["profiles"] for name, one in first.items()
        }
    onnxq.calibrate(model, list(steps), tmp_path / "s.stats.npz")
    report = onnxq.quantize(model, stats=tmp_path / "s.stats.npz", **QUICK).report
    assert [one["profiles"] for one in report["deployments"]] == [one["profiles"] for one in first.values()]

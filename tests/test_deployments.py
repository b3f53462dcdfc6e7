"""A run decides for the sizes of the deployment, not for those of the sample that is read first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import onnxq
from benchmarks.nets.mobile import mobilenet_v2
from benchmarks.nets.transformer import bert
from onnxq.errors import UserError

COUNT = 40
QUICK: dict[str, Any] = {"compile": False, "repair": "none", "prove": "never", "layer_samples": 0}


@pytest.fixture(scope="module")
def encoder() -> onnx.ModelProto:
    """Three layers; texts of any length up to 32 tokens."""
    return bert(small=True)


@pytest.fixture(scope="module")
def texts() -> list[dict[str, np.ndarray]]:
    random = np.random.default_rng(0)
    lengths = random.integers(3, 33, COUNT)
    return [
        {"input_ids": random.integers(0, 1000, (1, n)), "attention_mask": np.ones((1, n), np.int64)}
        for n in lengths
    ]


def written(folder: Path, samples: list[dict[str, np.ndarray]], seed: int) -> Path:
    """A folder of the samples under names in a random order."""
    folder.mkdir()
    for name, index in enumerate(np.random.default_rng(seed).permutation(len(samples))):
        np.savez(folder / f"{name:02}.npz", **samples[index])  # type: ignore[arg-type]
    return folder


def made(model: onnx.ModelProto, data: Any, **options: Any) -> bytes:
    result = onnxq.quantize(model, data, **{**QUICK, **options})
    return result.model.SerializeToString(deterministic=True) + repr(result.profiles).encode()


@pytest.mark.parametrize("repair", ["none", "auto"])
def test_the_order_of_the_samples_changes_no_byte(
    encoder: onnx.ModelProto, texts: list[dict[str, np.ndarray]], tmp_path: Path, repair: str
) -> None:
    """In two orders here; in twenty: `test_twenty_orders`."""
    one, other = (
        made(encoder, written(tmp_path / f"{seed}", texts, seed), repair=repair, samples=24)
        for seed in (1, 2)
    )
    assert one == other


def test_twenty_orders(texts: list[dict[str, np.ndarray]], encoder: onnx.ModelProto, tmp_path: Path) -> None:
    found = {made(encoder, written(tmp_path / f"{seed}", texts, seed)) for seed in range(20)}
    assert len(found) == 1


def test_samples_of_an_iterator_are_in_the_order_given_and_that_is_said(
    encoder: onnx.ModelProto, texts: list[dict[str, np.ndarray]]
) -> None:
    report = onnxq.quantize(encoder, iter(texts), **QUICK).report
    assert any("decided by their order" in note for note in report["calibration"]["data"]["notes"])


def share(model: onnx.ModelProto, data: Any, **options: Any) -> float | None:
    plan = onnxq.quantize(model, data, **{**QUICK, **options}).report["plan"]
    found: float | None = plan["int8_share_of_all_macs"]
    return found


def test_what_is_in_int8_is_decided_for_the_batch(tmp_path: Path) -> None:
    """And by a profile as by a shape."""
    model = mobilenet_v2(small=True, size=64)
    images = [{"x": np.random.default_rng(n).random((1, 3, 64, 64), np.float32)} for n in range(8)]
    assumed = onnxq.quantize(model, images, **QUICK)
    plan, deployment = assumed.report["plan"], assumed.report["deployment"]
    (batch,) = deployment["dimensions"]
    assert batch == {
        "name": "N", "smallest": 1, "usual": 1, "largest": 1, "origin": "assumed", "batch": True,
    }  # fmt: skip
    profile = ((1, 3, 64, 64), (16, 3, 64, 64), (32, 3, 64, 64))
    by_batch = share(model, images, batch=(1, 16, 32))
    assert by_batch == share(model, images, profiles={"x": profile})
    stated = onnxq.quantize(model, images, batch=(8, 8, 8), **QUICK)
    assert stated.profiles == {"x": ((8, 3, 64, 64),) * 3}  # not the 1 of the samples
    assert by_batch is not None
    assert by_batch > plan["int8_share_of_all_macs"] + 0.05
    usual, at_16 = deployment["worth"]
    assert (usual["at"], at_16["at"]) == ("the usual sizes", "a batch of 16")
    assert usual["share"] == pytest.approx(plan["int8_share_of_all_macs"], abs=0.02)
    assert at_16["share"] == pytest.approx(by_batch, abs=0.02)


def test_sizes_that_nobody_stated_and_at_which_the_model_does_not_run_are_left_out() -> None:
    """Those of one input do not go with those of the other."""
    model = onnx.parser.parse_model(
        """<ir_version: 8, opset_import: ["" : 17]>
        g (float[a, 32] x, float[b, 32] y) => (float[c, 32] z) { s = Add (x, y)  z = MatMul (s, w) }"""
    )
    weights = np.random.default_rng(0).standard_normal((32, 32)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    random = np.random.default_rng(1)
    data = [
        {"x": random.random((a, 32), np.float32), "y": random.random((b, 32), np.float32)}
        for a, b in [(1, 9), (9, 1), (9, 9), (5, 5), (5, 1)]
    ]
    result = onnxq.quantize(model, data, **QUICK)
    assert result.profiles["x"][0] == (1, 32)  # 1 and 1 run
    stated = {"x": ((1, 32), (1, 32), (4, 32)), "y": ((1, 32), (1, 32), (3, 32))}
    with pytest.raises(UserError, match="the model does not run at the largest sizes, x=4x32, y=3x32"):
        onnxq.quantize(model, data, profiles=stated, **QUICK)


@pytest.mark.parametrize(
    ("options", "says", "hint"),
    [
        ({"batch": (1, 2, 3), "shapes": {"input_ids": (1, "S"), "attention_mask": (1, "S")}},
         "--batch 1:2:3: no input has a dynamic batch", "--shape"),
        ({"profiles": {"input_ids": ((1, 4), (1, 8), (1, 2))}}, "is not min <= opt <= max", "MIN:OPT:MAX"),
        ({"profiles": {"ids": ((1, 4),) * 3}}, "no input 'ids'", "did you mean 'input_ids'"),
        ({"batch": "many"}, "batch", ""),
    ],
)  # fmt: skip
def test_sizes_that_make_no_sense_are_refused_before_the_data_are_read(
    encoder: onnx.ModelProto, options: dict[str, Any], says: str, hint: str
) -> None:
    def data() -> Any:
        raise AssertionError
        yield {}

    with pytest.raises(UserError, match=says) as caught:
        onnxq.quantize(encoder, data(), **QUICK, **options)
    assert hint in (caught.value.hint or "")

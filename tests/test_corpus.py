"""The whole job on real models that this project did not write (the folder that ONNXQ_CORPUS names)."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import onnxq
from onnxq.run import ort, trt

CORPUS = Path(os.environ.get("ONNXQ_CORPUS", ""))
MANIFEST = CORPUS / "manifest.json"
TYPES = {"FLOAT": np.float32, "INT32": np.int32, "INT64": np.int64, "FLOAT16": np.float16, "BOOL": np.bool_}
# Ten seconds and more each.
SLOW = {"light_vgg19", "light_densenet121", "agllnet_256", "light_resnet50"}

if not os.environ.get("ONNXQ_CORPUS"):
    pytest.skip("ONNXQ_CORPUS names no folder of models", allow_module_level=True)

ENTRIES = [
    entry
    for entry in json.loads(MANIFEST.read_text("utf-8"))
    if entry["onnxruntime"] == "ok" and entry["tensorrt_rtx"]["builds"] and entry["name"] not in SLOW
]


def samples(entry: dict[str, Any], count: int) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    found = []
    for _ in range(count):
        feeds = {}
        for info in entry["inputs"]:
            shape, dtype = entry["run_shapes"][info["name"]], TYPES[info["dtype"]]
            if np.issubdtype(dtype, np.floating):
                feeds[info["name"]] = rng.standard_normal(shape).astype(dtype)
            elif info["name"] == "sr":  # a sampling rate
                feeds[info["name"]] = np.array(16000, dtype)
            else:
                feeds[info["name"]] = rng.integers(0, 2, shape).astype(dtype)
        found.append(feeds)
    return found


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("entry", ENTRIES[::4], ids=[entry["name"] for entry in ENTRIES[::4]])
def test_quantized_and_compiled(entry: dict[str, Any], tmp_path: Path) -> None:
    data = samples(entry, 3)
    profiles = {
        info["name"]: (entry["run_shapes"][info["name"]],) * 3
        for info in entry["inputs"]
        if any(not isinstance(dim, int) or dim < 0 for dim in info["shape"])
    }
    path = CORPUS / "models" / f"{entry['name']}.onnx"
    result = onnxq.quantize(path, data, profiles=profiles)
    report = result.report
    assert report["rejected"] == []
    assert report["engine"]["status"] == "compiled", report["engine"]["reason"]
    assert report["engine"]["not_int8"] == []
    share = report["plan"]["int8_share_of_eligible_macs"]
    assert share is None or share >= 0.95
    result.save(tmp_path / "out.onnx")
    session = ort.load(tmp_path / "out.onnx")
    outputs = session.run({name: array for name, array in data[0].items() if name in session.inputs})
    assert all(np.isfinite(out).all() for out in outputs if out.dtype.kind == "f")


def test_changes_wait_until_types_are_inferred_again() -> None:
    """A change whose types an earlier one made is proved after the next inference, not kept unproved."""
    report = onnxq.sanitize(CORPUS / "models" / "osf_landmarks0.onnx").report
    assert report["proved"] == {"exact": 0, "close": 29, "unproven": 0}


DYNAMIC = [
    entry
    for entry in json.loads(MANIFEST.read_text("utf-8"))
    if entry["onnxruntime"] == "ok"
    and any(not isinstance(dim, int) or dim < 0 for info in entry["inputs"] for dim in info.get("shape", ()))
]
REFUSED = {"silero_vad", "sklearn_randomforest", "tract_qlstm", "tract_xgboost_classifier"}


def of_several_sizes(entry: dict[str, Any]) -> list[dict[str, np.ndarray]]:
    """Samples of the sizes that are known to run, and of twice each dynamic dimension, where that runs.

    But for the batch: it is taken apart.
    """
    session = ort.load(CORPUS / "models" / f"{entry['name']}.onnx")
    usual = {info["name"]: tuple(entry["run_shapes"][info["name"]]) for info in entry["inputs"]}
    dims = {info["name"]: info["shape"] for info in entry["inputs"]}
    places = [(name, axis, dim) for name, shape in dims.items() for axis, dim in enumerate(shape)]
    batch = {dim for _, axis, dim in places if axis == 0}
    free = [
        dim if isinstance(dim, str) else (name, axis)
        for name, axis, dim in places
        if axis and dim not in batch and (not isinstance(dim, int) or dim < 0)
    ]
    found = samples(entry, 2)
    for key in dict.fromkeys(free):
        shapes = {
            name: tuple(
                size * 2 if dims[name][axis] == key or (name, axis) == key else size
                for axis, size in enumerate(shape)
            )
            for name, shape in usual.items()
        }
        feeds = samples({**entry, "run_shapes": shapes}, 1)[0]
        try:
            session.run({name: array for name, array in feeds.items() if name in session.inputs})
        except ort.RunError:
            continue
        found.append(feeds)
    return found


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("entry", DYNAMIC, ids=[entry["name"] for entry in DYNAMIC])
def test_the_profile_that_is_printed_builds_and_takes_each_sample(entry: dict[str, Any]) -> None:
    data = of_several_sizes(entry)
    options: dict[str, Any] = {
        "repair": "none",
        "layer_samples": 0,
        "method": "minmax",
        "prove": "never",
        "skip_bad": True,
    }
    result = onnxq.quantize(CORPUS / "models" / f"{entry['name']}.onnx", data, **options)
    engine = result.report["engine"]
    assert (engine["status"] == "compiled") == (entry["name"] not in REFUSED), engine["reason"]
    assert {name: [list(s) for s in sizes] for name, sizes in result.profiles.items()} == engine["profiles"]
    for sample in data:
        for name, (low, _, high) in result.profiles.items():
            assert all(a <= b <= c for a, b, c in zip(low, sample[name].shape, high, strict=True)), name

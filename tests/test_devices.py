"""Devices: what each runs is asked before the long work; the compiler makes the nearest."""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run

import onnxq
from onnxq.base.errors import UserError
from onnxq.options.settings import Compilation
from onnxq.run import trt
from onnxq.targets import device_table, load_target
from onnxq.targets.devices import device_of, devices

NET = """<ir_version: 8, opset_import: ["" : 17]> net (float[N, 3, 8, 8] x) => (float[N, 16, 8, 8] y)
    <float[16, 3, 1, 1] w = {W}> { y = Conv (x, w) }"""

NAMED = {
    "orin-nx": ["Jetson Orin NX", "jetson-orin-nx", "orin_nx", "NX Orin"],
    "agx-orin": ["orin-agx", "NVIDIA Jetson AGX Orin"],
    "thor": ["jetson-thor", "Jetson Thor"],
    "rtx-40": ["RTX 4090", "rtx4070ti", "GeForce RTX 4060"],
    "l4": ["L4", "NVIDIA L4"],
    "87": ["8.7", "sm_87", "sm87", "compute-87"],
    "90": ["90", "9.0", "sm_90a"],
}


@pytest.fixture
def net(tmp_path: Path) -> Path:
    weights = np.random.default_rng(0).standard_normal(48)
    text = NET.replace("W", ", ".join(f"{one:.4f}" for one in weights))
    onnx.save(onnx.parser.parse_model(text), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=np.random.default_rng(1).standard_normal((8, 3, 8, 8)).astype("f4"))
    return tmp_path


@pytest.mark.parametrize(("name", "written"), [(name, one) for name, some in NAMED.items() for one in some])
def test_a_device_has_many_spellings(name: str, written: str) -> None:
    assert device_of(written).name == name


@pytest.mark.parametrize("name", ["nano", "orin", "gtx-1080", "61", "cuda", "0", ""])
def test_what_is_no_device_is_refused_with_those_that_are(name: str) -> None:
    with pytest.raises(UserError, match="there is no") as told:
        device_of(name)
    assert "X.toml" in str(told.value.hint)


def test_each_is_compiled_as_one_that_the_compiler_has() -> None:
    known = device_table()["compiler"]["capabilities"]
    target, own = load_target("tensorrt-11"), load_target("rtx")
    near = {one.name: one.compiled_as(target) for one in devices()}
    assert {*near.values()} <= {*known}
    some = {"orin-nx": 86, "xavier-nx": 80, "t4": 80, "h100": 89, "l4": 89, "b200": 120, "thor": 120}
    assert {name: near[name] for name in some} == some
    assert all(device_of(one).compiled_as(own) == one for one in known)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_the_table_is_what_the_compiler_says() -> None:
    with pytest.raises(UserError) as told:
        trt.check_sm(61)
    assert [int(one) for one in re.findall(r"\d+", str(told.value.hint))] == device_table()["compiler"][
        "capabilities"
    ]


# Of NVIDIA's support matrices: what has tensor cores for fp8 and for bfloat16.
FP8 = {"l4", "l40s", "h100", "h200", "b200", "thor", "dgx-spark", "rtx-40", "rtx-50"}
NO_BF16 = {"t4", "v100", "rtx-20", "xavier-nx", "agx-xavier"}
# And which releases serve it.
SERVED = {
    "agx-xavier": {"8.0": True, "8.5": True, "8.6": False, "10": False, "11": False},
    "orin-nano": {"8.2": False, "8.5": True, "8.6": True, "10.3": True, "10.13": True, "11": False},
    "agx-orin": {"8.6": True, "10.3": True, "11.1": False, "11.3": False, "11.4": True, "11": True},
    "thor": {"8.6": False, "10.3": False, "10.13": True, "11.3": False, "11.4": True, "rtx": False},
    "v100": {"8.6": True, "10.3": True, "10.13": False, "11.1": False},
    "t4": {"7": True, "8.6": True, "11.5": True},
    "l4": {"8.2": False, "8.5": True, "11": True},
    "rtx-20": {"rtx": True, "11": True},
    "h100": {"rtx": False, "8.0": False, "8.6": True, "10": True},
    "b200": {"8.6": False, "10.3": False, "10.13": True, "11": True},
    "rtx-50": {"10.3": False, "10.9": True, "rtx": True},
}
COMBINATIONS = [
    (device, release, served) for device, row in SERVED.items() for release, served in row.items()
]


@pytest.mark.parametrize(("device", "release", "served"), COMBINATIONS)
def test_a_release_that_does_not_serve_it_is_refused_first(device: str, release: str, served: bool) -> None:
    asked = {"device": device, "target": release, "compile": False}
    with pytest.raises(UserError) as told:  # of a model that is not there: before it is read
        onnxq.quantize("none.onnx", [], **asked)
    with pytest.raises(UserError, match=re.escape(str(told.value))):
        onnxq.plan("none.onnx", device=device, target=release)
    assert ("does not run on" in str(told.value)) is not served
    if not served:
        target = str(told.value.hint).split()[-1]
        assert device_of(device).serves(load_target(target))


@pytest.mark.parametrize("device", [one.name for one in devices()])
@pytest.mark.parametrize("asked", [{"number_format": "fp8"}, {"body": "bf16"}])
def test_a_format_that_it_does_not_multiply_is_refused(device: str, asked: dict[str, str], net: Path) -> None:
    target = device_of(device).target if not device_of(device).serves(load_target("11")) else "tensorrt-11"
    given = {
        **asked,
        "device": device,
        "target": target,
        "compile": False,
        "method": "minmax",
        "repair": "none",
    }
    lacks = device not in FP8 if "number_format" in asked else device in NO_BF16
    if "number_format" in asked and "fp8" not in load_target(target).formats:
        pytest.skip("the release has no fp8 either")
    told = pytest.raises(UserError, match="multiplies nothing in") if lacks else contextlib.nullcontext()
    with told:
        onnxq.quantize(net / "net.onnx", net / "data.npz", **given)


def test_a_jetpack_is_a_target() -> None:
    assert load_target("jetpack-6.2").name == load_target("JetPack 6.2.1").name == "tensorrt-10.3"
    assert (load_target("jp4.6").name, load_target("jetpack-4.6.1").name) == ("tensorrt-8.0", "tensorrt-8.2")
    with pytest.raises(UserError, match="JetPack 6 ") as told:
        load_target("jetpack-6")
    assert told.value.hint == "known: jetpack-6.0, jetpack-6.1, jetpack-6.2"


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@pytest.mark.parametrize("flag", ["--device", "--sm", "--gpu"])
def test_the_screen_names_the_device(flag: str, net: Path) -> None:
    asked = ("--repair", "none", "--method", "minmax", "--target", "jetpack-6.2", flag, "orin-nx")
    ran = run(net, "quantize", "net.onnx", "--calib", "data.npz", *asked)
    assert ran.code == 0
    words = " ".join(ran.out.split())
    assert "tensorrt-10.3 on Jetson Orin NX, compiled for compute capability 8.6, the nearest" in words
    (written,) = net.glob("*.report.json")
    assert json.loads(written.read_text("utf-8"))["device"] == "orin-nx"


def test_a_device_of_ones_own(tmp_path: Path) -> None:
    path = tmp_path / "board.toml"
    path.write_text('title = "My board"\nsm = 87\nfirst = "8.5"\nlast = "10"\n')
    mine = device_of(str(path))
    assert (mine.title, mine.compiled_as(load_target("10")), mine.releases) == ("My board", 86, "8.5 to 10.x")
    assert Compilation(device=str(path)).sm(load_target("10")) == 86
    assert not mine.serves(load_target("11"))
    path.write_text('title = "My board"\nsm = 87\nlast = "new"\n')
    with pytest.raises(UserError, match="line 3: last is 'new', not a release of TensorRT"):
        device_of(str(path))
    path.write_text('title = "My board"\n')
    with pytest.raises(UserError, match="it says no sm"):
        device_of(str(path))


def test_the_former_name_of_the_option(net: Path) -> None:
    with pytest.raises(TypeError, match="give device="):
        onnxq.quantize("none.onnx", [], sm=86)
    (net / "onnxq.toml").write_text("[engine]\nsm = 86\n")
    ran = run(net, "quantize", "net.onnx", "--calib", "data.npz", "--repair", "none", "--method", "minmax")
    assert "'sm' is called 'device' now" in " ".join(ran.err.split())
    (written,) = net.glob("*.report.json")
    assert json.loads(written.read_text("utf-8"))["device"] == "86"


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
def test_what_the_compiler_of_rtx_alone_refuses_is_no_error_of_tensorrt(tmp_path: Path) -> None:
    """Its kernels for Turing multiply nothing in float32."""
    text = '<ir_version: 8, opset_import: ["" : 17]> net (float[4, 8] x, float[8, 8] w) => (float[4, 8] y) {'
    onnx.save(onnx.parser.parse_model(text + " y = MatMul (x, w) }"), tmp_path / "net.onnx")
    found = {
        target: onnxq.check(tmp_path / "net.onnx", target=target, device="t4") for target in ("11", "rtx")
    }
    assert {one.severity for one in found["rtx"].findings} == {"error"}
    assert found["11"].findings == ()

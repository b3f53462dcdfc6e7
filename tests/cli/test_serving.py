"""`--deploy`: what Triton, DeepStream and a shell are told is what the written file and the data say."""

from __future__ import annotations

import configparser
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from command import net
from PIL import Image
from said import is_said

import onnxq as package
from onnxq.base.errors import UserError
from onnxq.base.remarks import heard
from onnxq.data.image_options import PRESETS
from onnxq.data.understood import ImagesRead
from onnxq.emit.serving import Binding, Served, deepstream, triton

QUICK: dict[str, Any] = {"method": "minmax", "repair": "none", "prove": "never", "compile": False}
PICTURES = """<ir_version: 8, opset_import: ["" : 17]>
    net (float[N, 3, 16, 24] image) => (float[N, 16, 16, 24] y, float[N] score) {
        y = Conv <pads = [1, 1, 1, 1]> (image, w)  m = ReduceMean <axes = [1, 2, 3], keepdims = 0> (y)
        score = Sigmoid (m) }"""


def pictures(folder: Path) -> onnx.ModelProto:
    """A model of pictures, and some in `photos`."""
    (folder / "photos").mkdir()
    random = np.random.default_rng(0)
    for place in range(8):
        pixels = random.integers(0, 256, (20, 30, 3), np.uint8)
        Image.fromarray(pixels).save(folder / "photos" / f"{place}.png")
    model = onnx.parser.parse_model(PICTURES)
    weights = random.standard_normal((16, 3, 3, 3)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    return model


def saved(
    folder: Path, servers: str, images: dict[str, Any], **options: Any
) -> tuple[package.Result, list[str]]:
    """A model of pictures, quantized and saved with what is written for servers; and what is remarked."""
    result = package.quantize(pictures(folder), folder / "photos", images=images, **QUICK, **options)
    with heard() as remarks:
        result.save(folder / "x.int8.onnx", page=False, deploy=servers)
    return result, list(remarks)


def fields(text: str) -> dict[str, str]:
    """The keys of DeepStream's file, as a key file is read."""
    read = configparser.ConfigParser(interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string(text)
    return dict(read["property"])


def test_what_is_written_is_what_the_file_says(tmp_path: Path) -> None:
    result, remarks = saved(tmp_path, "trtexec,triton, deepstream", {"preset": "yolo"}, batch=(1, 4, 8))
    names = ["x.int8.build.sh", "x.int8.config.pbtxt", "x.int8.deepstream.txt"]
    assert [Path(name).name for name in result.report.files[1:4]] == [names[1], names[2], names[0]]
    config = (tmp_path / names[1]).read_text("utf-8")
    written = onnx.load(tmp_path / "x.int8.onnx")
    for one in (*written.graph.input, *written.graph.output):
        dims = [dim.dim_value for dim in one.type.tensor_type.shape.dim][1:]
        told = f"dims: [ {', '.join(map(str, dims))} ]" if dims else "dims: [ 1 ] reshape: { shape: [ ] }"
        assert f'{{ name: "{one.name}" data_type: TYPE_FP32 {told} }}' in config
    assert "max_batch_size: 8\n" in config
    assert 'name: "x.int8"\n' in config
    build = (tmp_path / names[0]).read_text("utf-8").splitlines()[-1]
    folder = str(tmp_path) + "/"
    assert build == result.report.commands[0].replace(folder, "")
    assert 'cd "$(dirname "$0")"' in (tmp_path / names[0]).read_text("utf-8")
    assert "--saveEngine=x.int8.engine" in shlex.split(build)
    assert 'default_model_filename: "x.int8.engine"' in config
    told = fields((tmp_path / names[2]).read_text("utf-8"))
    assert told["infer-dims"] == "3;16;24"
    assert (told["batch-size"], told["model-color-format"], told["network-input-order"]) == ("8", "0", "0")
    assert (told["maintain-aspect-ratio"], told["symmetric-padding"]) == ("1", "1")
    assert told["output-blob-names"] == "y;score"
    assert told["model-engine-file"] == "x.int8.engine"
    assert remarks == [
        "DeepStream: padding is black in DeepStream, and was gray 114 where the model was calibrated"
    ]


def test_a_file_of_the_users_beside_the_model_is_not_replaced(tmp_path: Path) -> None:
    result, _ = saved(tmp_path, "triton", {"preset": "yolo"})
    mine = tmp_path / "x.int8.build.sh"
    mine.write_text("my own\n", "utf-8")
    with pytest.raises(UserError, match=r"x\.int8\.build\.sh' exists, and onnxq did not write it"):
        result.save(tmp_path / "x.int8.onnx", page=False, deploy="triton,trtexec")
    assert mine.read_text("utf-8") == "my own\n"
    mine.unlink()
    result.save(tmp_path / "x.int8.onnx", page=False, deploy="triton,trtexec")
    result.save(tmp_path / "x.int8.onnx", page=False, deploy="triton,trtexec")


@pytest.mark.parametrize("preset", [*PRESETS, "mine"])
def test_pixels_become_what_they_were_in_calibration(tmp_path: Path, preset: str) -> None:
    """By DeepStream's formula, of each pixel and channel; or it is said why not."""
    mine = {"scale": 0.5, "mean": (1.0, 2.0, 3.0), "std": (4.0,), "color": "bgr"}
    result, remarks = saved(tmp_path, "deepstream", mine if preset == "mine" else {"preset": preset})
    (images,) = result.report.calibration.data.images
    told = fields((tmp_path / "x.int8.deepstream.txt").read_text("utf-8"))
    if preset == "imagenet":
        assert "net-scale-factor" not in told
        assert is_said(remarks, "deepstream.divided", by="0.229, 0.224, 0.225")
        return
    offsets = [float(part) for part in told.get("offsets", "0;0;0").split(";")]
    pixels = np.arange(256)[:, None]
    theirs = float(told["net-scale-factor"]) * (pixels - offsets)
    ours = (pixels * images.scale - np.array(images.mean)) / np.array(images.std)
    np.testing.assert_allclose(theirs, np.broadcast_to(ours, theirs.shape), rtol=1e-12, atol=1e-12)
    assert told["model-color-format"] == ("1" if preset == "mine" else "0")


def served(**other: Any) -> Served:
    image = ImagesRead(
        "x", "float32", "NCHW", "rgb", "stretched to 8x8", 1 / 255, (0.0,), (1.0,), (0.0, 1.0), None
    )
    usual = Served(
        Path("m.onnx"),
        (Binding("x", 1, ("N", 3, 8, 8)),),
        (Binding("y", 1, ("N", 10)),),
        ({"x": ((1, 3, 8, 8), (2, 3, 8, 8), (4, 3, 8, 8))},),
        frozenset({"N"}),
        (image,),
        "trtexec --onnx=m.onnx",
    )
    return replace(usual, **other)


def test_the_batch_of_triton() -> None:
    """It is none where an input has none, or another symbol: then all dimensions are stated."""
    assert "max_batch_size: 4\n" in triton(served())
    assert "max_batch_size: 4\n" in triton(served(batch=frozenset()))
    for shape in ((1, 10), ("M", 10), (), None):
        text = triton(served(outputs=(Binding("y", 1, shape),)))
        assert "max_batch_size: 0\n" in text
        assert "dims: [ -1, 3, 8, 8 ]" in text
    text = triton(served(batch=frozenset({"other"})))
    assert "max_batch_size: 0\n" in text
    varying = triton(served(inputs=(Binding("x", 10, ("N", 3, "H", None)),)))
    assert "data_type: TYPE_FP16 dims: [ 3, -1, -1 ]" in varying
    two = served().profiles * 2
    assert 'profile: [ "0", "1" ]' in triton(served(profiles=two))


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"images": ()}, "x was not calibrated on images"),
        ({"inputs": served().inputs * 2}, "feeds one input, and the model has 2"),
        ({"inputs": (Binding("x", 10, ("N", 3, 8, 8)),)}, "feeds float32, and x has another type"),
        ({"images": (replace(served().images[0], layout="CHW"),)}, "x has no batch"),
        ({"images": (replace(served().images[0], size="shorter side resized to 9, center 8x8 cut out"),)},
         "calibrated was with: shorter side resized to 9, center 8x8 cut out"),
        ({"outputs": (Binding("a;b", 1, ("N",)),)}, "a name cannot stand in such a file: 'a;b'"),
        ({"inputs": (Binding("x", 1, ("N", 3, "H", "W")),), "profiles": ()}, "the size of the images is not"),
    ],
)  # fmt: skip
def test_what_deepstream_cannot_say_is_said(other: dict[str, Any], said: str) -> None:
    text, open_ = deepstream(served(**other))
    assert any(said in one for one in open_)
    assert f"# {open_[-1]}" in text
    fields(text)


def test_nothing_is_open_where_all_is_exact() -> None:
    text, open_ = deepstream(served())
    assert open_ == ()
    assert fields(text)["net-scale-factor"] == repr(1 / 255)
    rows = deepstream(served(images=(replace(served().images[0], layout="NHWC"),),
                             profiles=({"x": ((1, 8, 6, 3),) * 3},)))[0]  # fmt: skip
    assert fields(rows)["infer-dims"] == "3;8;6"
    assert fields(rows)["network-input-order"] == "1"


def test_triton_reads_what_is_written(tmp_path: Path) -> None:
    """By the protobuf of its client: also names that a text has to escape."""
    pytest.importorskip("tritonclient.grpc.model_config_pb2", reason="tritonclient is not installed")
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    name = 'a "b"\\c\n\x01ü\N{SNOWMAN}'
    one = served(inputs=(Binding(name, 7, ("N", 3)),), profiles=served().profiles * 2)
    config = text_format.Parse(triton(one), model_config_pb2.ModelConfig())
    assert config.input[0].name == name
    assert config.input[0].data_type == model_config_pb2.TYPE_INT64
    assert list(config.input[0].dims) == [3]
    assert (config.max_batch_size, config.backend, config.default_model_filename) == (
        4,
        "tensorrt",
        "m.engine",
    )
    assert list(config.instance_group[0].profile) == ["0", "1"]
    row = text_format.Parse(
        triton(served(outputs=(Binding("y", 1, ("N",)),))), model_config_pb2.ModelConfig()
    )
    assert list(row.output[0].dims) == [1]
    assert row.output[0].HasField("reshape")


def test_wishes_that_cannot_be(tmp_path: Path, onnxq: Any) -> None:
    onnx.save(net(), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=np.ones((8, 32, 8), np.float32))
    for flags, said in (
        (("--deploy", "kserve"), "there is no server 'kserve'"),
        (("--deploy", "triton", "--target", "tensorrt-rtx"), "a file for triton is asked for"),
    ):
        ran = onnxq("quantize", "net.onnx", "--calib", "data.npz", *flags)
        assert ran.code == 2
        assert said in ran.err
        assert not (tmp_path / "net.int8.onnx").exists()
    (tmp_path / "o.config.pbtxt").write_text("mine")
    ran = onnxq("sanitize", "net.onnx", "-o", "o.onnx", "--deploy", "triton")
    assert ran.code == 2
    assert "'o.config.pbtxt' exists" in ran.err
    assert (tmp_path / "o.config.pbtxt").read_text() == "mine"
    assert onnxq("sanitize", "net.onnx", "-o", "o.onnx", "--deploy", "triton", "--force").code == 0
    assert 'name: "o"' in (tmp_path / "o.config.pbtxt").read_text("utf-8")
    ran = onnxq("sanitize", "net.onnx", "-o", "r.onnx", "--deploy", "trtexec", "--target", "tensorrt-rtx")
    assert ran.code == 0
    assert re.search(
        r"^tensorrt_rtx --onnx=r\.onnx", (tmp_path / "r.build.sh").read_text("utf-8"), re.MULTILINE
    )
    with pytest.raises(UserError, match="there is no server 'x'"):
        package.sanitize(tmp_path / "net.onnx").save(tmp_path / "s.onnx", deploy="x")

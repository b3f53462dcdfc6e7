"""A target of the user's own: a table in a file."""

from __future__ import annotations

import json
from pathlib import Path

import onnx.parser
import pytest

import onnxq
from onnxq.base.errors import UserError
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.view import Node
from onnxq.targets import load_target

NET = """<ir_version: 8, opset_import: ["" : 17]> net (float[1, 4, 8, 8] x) => (float[1, 4, 8, 8] y)
    { a = HardSwish (x) y = Relu (a) }"""

MINE = """\
title = "The board's TensorRT"
source = "our own trials"
like = "tensorrt-10"
unsupported = ["HardSwish"]
supported = ["Attention"]
has = ["scatter-nd-reduction"]
limits = {}
advice = {HardSwish = "ask the board's makers"}
"""


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(MINE)
    onnx.save(onnx.parser.parse_model(NET), tmp_path / "net.onnx")
    return tmp_path / "mine.toml"


def test_it_is_like_another_but_for_what_it_says(mine: Path) -> None:
    target, other = load_target(mine), load_target("tensorrt-10")
    assert target.title == "The board's TensorRT"
    assert target.unsupported == (other.unsupported | {"HardSwish"}) - {"Attention"}
    assert target.lacks == other.lacks - {"scatter-nd-reduction"}
    assert (target.max_opset, target.cache, target.tool) == (other.max_opset, other.cache, other.tool)


def test_what_it_does_not_take_is_rewritten(mine: Path) -> None:
    """The rule's name is that of no target: it goes by what the table says."""
    net = mine.with_name("net.onnx")
    report = onnxq.sanitize(net, target=mine).report
    assert [change["rule"] for change in report["changes"]] == ["expand_hardswish"]
    assert report["target"] == str(mine)
    assert onnxq.sanitize(net, target="tensorrt-10").report["changes"] == []


def test_the_command_line_and_the_file_of_settings(mine: Path, onnxq) -> None:
    """In a file the path is relative to that file."""
    ran = onnxq("check", "net.onnx", "--target", "./mine.toml", "--json")
    assert json.loads(ran.out)["target"] == "mine.toml"
    (mine.parent / "settings").mkdir()
    mine.rename(mine.parent / "settings" / "mine.toml")
    (mine.parent / "settings" / "onnxq.toml").write_text('target = "mine.toml"\n')
    ran = onnxq("sanitize", "net.onnx", "--config", "settings/onnxq.toml", "-o", "out.onnx")
    assert ran.code == 0, ran.err
    assert json.loads((mine.parent / "out.report.json").read_text())["target"].endswith("settings/mine.toml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('title = "x"', "it says not which target it is like"),
        ('like = "tensorrt-12"', "there is no target 'tensorrt-12'"),
        ('like = "tensorrt-11"\nlacks = ["dense-residal"]', "there is no feature 'dense-residal'"),
        ('like = "tensorrt-11"\nlakcs = ["a"]', "there is no key 'lakcs'"),
        ('like = "tensorrt-11"\nmax_opset = "20"', "max_opset is '20', not a whole number"),
        ('like = "tensorrt-11"\nlimits = {speed = 3}', "speed is 3, not a limit"),
        ('like = "tensorrt-11"\nformats = {int9 = ["Conv"]}', "there is no key 'int9'"),
        ('like = "tensorrt-11"\nformats = {int8 = 3}', "int8 is 3, not a string"),
        ('like = "tensorrt-11"\ncompiler = "mine"', "there is no compiler 'mine'"),
        ("like = ", "is not TOML"),
    ],
)
def test_mistakes_say_where(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as caught:
        load_target(path)
    assert "mine.toml" in str(caught.value)


def test_it_says_which_operators_are_quantized(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('like = "tensorrt-11"\nformats = {int8 = "Gemm"}')
    model = Model.open(Path(__file__).parents[2] / "sample_models" / "digits" / "digits.onnx")
    convs = [layer_of(Node(model, node)) for node in model.graph.nodes if node.op == "Conv"]
    assert [layer is not None and layer.ineligible for layer in convs[1:]] == [None] * 5
    model.set_target(load_target(path))
    whys = {layer is not None and layer.ineligible for layer in convs}
    assert whys == {"Conv has no int8 kernel"}


def test_one_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="cannot read"):
        load_target(tmp_path / "none.toml")
    with pytest.raises(UserError, match="there is no target 'tensorrt-12'") as caught:
        load_target("tensorrt-12")
    assert "X.toml" in caught.value.hint

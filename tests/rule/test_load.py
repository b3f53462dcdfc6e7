"""Rule files that cannot be: an error with the rule's name, where they are loaded or asked."""

from __future__ import annotations

import textwrap
from pathlib import Path

import onnx.parser
import pytest
from said import is_said

from onnxq.base.errors import UserError
from onnxq.graph.layers import layer_of
from onnxq.graph.model import Model
from onnxq.graph.value import operator_names
from onnxq.graph.view import Node
from onnxq.quant.placement import make_plan
from onnxq.rule import load
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules

ADD = """<ir_version: 8, opset_import: ["" : 17]>
g (float[4, 8] x, float[4, 8] z) => (float[4, 8] y) { [sum] y = Add (x, z) }"""


def folder(path: Path, **files: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in files.items():
        (path / f"{name}.py").write_text(textwrap.dedent(text), "utf-8")
    return path


def own(path: Path) -> list[Rule]:
    return [rule for rule in load_rules((path,)) if Path(rule.path).parent == path]


@pytest.mark.parametrize(
    ("decorator", "says", "hint"),
    [
        (
            'rule("Clip", stage="compat", lacks="one-element-scale")',
            "'one-element-scale'",
            "'one-element-scales'",
        ),
        ('place("*")', "every operator", "own domain"),
        ('place("com.microsoft.Gelu")', "domain 'com.microsoft'", "own domain"),
        ('rule(stage="clean")', "looks at no operator", "name them"),
        ('rule("Topk", stage="compat")', "ONNX has no such operator", "did you mean 'TopK'"),
        ('place("Ad")', "ONNX has no such operator", "'Add'"),
        ('rule("TopK", stage="compact")', "stage 'compact'", "'compat'? The stages are clean, compat, fuse"),
    ],
)
def test_a_rule_that_would_never_be_asked_does_not_load(
    tmp_path: Path, decorator: str, says: str, hint: str
) -> None:
    text = f"from onnxq.rule import place, rule\n\n@{decorator}\ndef mine(node):\n    return None\n"
    with pytest.raises(UserError, match=says) as info:
        load_rules((folder(tmp_path / "rules", mine=text),))
    assert "rule 'mine'" in str(info.value)
    assert "mine.py" in str(info.value)
    assert hint in info.value.hint


def test_an_operator_that_is_not_onnxs_own_is_in_an_example(tmp_path: Path) -> None:
    text = """
        from onnxq.rule import Fires, rule

        @rule(ROOT, stage="clean")
        def mine(node):
            return None

        EXAMPLES = [Fires("g (float[2] x) => (float[2] y) { y = DOMAINBatchedNMS_TRT (x) }")]
        """
    for number, (root, domain) in enumerate([("BatchedNMS_TRT", ""), ("trt.BatchedNMS_TRT", "trt.")]):
        right = text.replace("ROOT", repr(root)).replace("DOMAIN", domain)
        assert own(folder(tmp_path / f"right{number}", mine=right))[0].roots == (root,)
        wrong = text.replace("ROOT", repr(root.replace("NMS", "Nms"))).replace("DOMAIN", domain)
        with pytest.raises(UserError, match="no such operator"):
            own(folder(tmp_path / f"wrong{number}", mine=wrong))


def test_a_rule_for_an_operator_that_this_onnx_does_not_know_loads(monkeypatch: pytest.MonkeyPatch) -> None:
    """A target's table names it, as CumProd before opset 26."""
    known = operator_names() - {"CumProd"}
    monkeypatch.setattr(load, "operator_names", lambda: known)
    assert "cumprod_by_steps" in {rule.id for rule in load_rules()}


@pytest.mark.parametrize("lacks", ["topk", "TopK", "Scatter", "quantized-gather", "runtime-pads"])
def test_what_a_target_may_lack(tmp_path: Path, lacks: str) -> None:
    text = (
        f"from onnxq.rule import rule\n@rule('Clip', stage='compat', lacks={lacks!r})\ndef mine(node): ...\n"
    )
    path = folder(tmp_path / "rules", mine=text)
    if lacks == "topk":  # neither a feature nor an operator
        with pytest.raises(UserError, match="never fire"):
            own(path)
    else:
        assert own(path)[0].lacks == lacks


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("[Quantize(node, 2)]", "has no input 2, it has 2"),
        ("[Quantize(node, -1)]", "has no input -1"),
        ("[Follow(node, '0', 'moves')]", "has no input '0'"),
        ("[Quantize(node, 0, axis=2)]", "has 2 axes, not 2"),
        ("[Quantize(node, 0, axis=1)]", "input 0 of Add 'sum' is computed: it has one scale and no axis"),
        ("['int8']", "str is no fact; facts are"),
        ("Quantize(node, 0)", "a list of facts, not Quantize"),
        ("[node.inputs[7]]", "IndexError"),
    ],
)
def test_what_a_placement_rule_says_is_checked(tmp_path: Path, answer: str, says: str) -> None:
    head = "from onnxq.rule import Follow, Quantize, place\n"
    text = f"{head}\n@place('Add')\ndef mine(node):\n    return {answer}\n"
    rules = own(folder(tmp_path / "rules", mine=text))
    with pytest.raises(UserError, match=says) as info:
        make_plan(Model.open(onnx.parser.parse_model(ADD)), rules)
    assert "'mine' fails at" in str(info.value)


def test_each_folder_has_its_own_helper(tmp_path: Path) -> None:
    text = """
        from __future__ import annotations
        from dataclasses import dataclass
        from onnxq.rule import rule
        from _helper import NAME

        @dataclass
        class Found:
            name: str

        @rule("Relu", stage="clean")
        def {name}(node):
            return Found(NAME).name
        """
    for name in ("one", "two"):
        folder(tmp_path / name, same=text.format(name=name), _helper=f"NAME = {name!r}")
    rules = {rule.id: rule for rule in load_rules((tmp_path / "one", tmp_path / "two"))}
    assert [rules[name].function(None) for name in ("one", "two")] == ["one", "two"]  # type: ignore[arg-type]


def test_limits_of_a_target() -> None:
    model = Model.open(onnx.parser.parse_model(ADD))
    node = Node(model, model.graph.nodes[0])
    assert node.limit("topk-k") == 3840
    with pytest.raises(ValueError, match=r"no target states a limit 'topk_k'.*'topk-k'"):
        node.limit("topk_k")
    model.limits = {}
    assert node.limit("topk-k") is None


def test_layers_ask_the_target_what_its_kernels_need() -> None:
    text = """<ir_version: 8, opset_import: ["" : 17]>
        g (float[32, 8] x) => (y) <float[8, 8] w = {WEIGHTS}> { y = MatMul (x, w) }"""
    model = Model.open(onnx.parser.parse_model(text.replace("WEIGHTS", ", ".join("1" * 64))))
    layer = layer_of(Node(model, model.graph.nodes[0]))
    assert layer is not None
    assert is_said(layer.ineligible, "few-channels", inputs=8, outputs=8, format="int8")
    model.limits = {**model.limits, "int8-channels": 8}
    assert layer.ineligible is None


def test_onnxq_does_not_go_on_without_its_own_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without them nothing is quantized, and the output is as near as can be."""
    monkeypatch.setattr("onnxq.rule.load.builtin_dir", lambda: tmp_path)
    with pytest.raises(UserError, match="onnxq's own rules are not there"):
        load_rules(())

"""A change whose values are off is refused, offered with its figure, and made where the user accepts it."""

# ruff: noqa: E501

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import pytest
from command import run
from said import is_said

import onnxq
from onnxq.base.errors import UserError
from onnxq.run import ort

RULE = '''"""Replace it."""
from onnxq.rule import Fires, Node, Skips, Value, op, required, rule
import numpy as np

@rule("{root}", stage="compat")
def rough(node: Node) -> Value | None:
    (x,) = required(node, 1)
    return {answer}

EXAMPLES = []
'''
ANSWERS = {
    "off": "None if x.producer is not None and x.producer.op == 'Mul' else op.Tanh(op.Mul(x, np.float32(1.0625)))",
    "nan": "op.Log(x)",
    "shape": "op.Unsqueeze(x, np.array([0]))",
    "type": "op.Cast(x, to=11)",
}
MODEL = """<ir_version: 8, opset_import: ["" : 17]> g (float[N, 32, 16] x) => (float[N, 32, 16] y) {
    a = Clip (x, low, high)  [there] b = Identity (a)  c = Tanh (b)  y = MatMul (c, w) }"""


def rules(folder: Path, kind: str, root: str = "Tanh") -> Path:
    made = folder / "mine"
    made.mkdir()
    (made / "rough.py").write_text(RULE.format(root=root, answer=ANSWERS[kind]))
    return made


def model() -> onnx.ModelProto:
    made = onnx.parser.parse_model(MODEL)
    dice = np.random.default_rng(0)
    for name, value in (("low", np.float32(-1)), ("high", np.float32(1)), ("w", dice.standard_normal((16, 16)).astype(np.float32))):  # fmt: skip
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.asarray(value), name))
    return made


def test_what_is_off_is_refused_with_its_figure(tmp_path: Path) -> None:
    report = onnxq.sanitize(model(), rules=[rules(tmp_path, "off")]).report
    (rejected,) = [one for one in report.rejected if one.rule == "rough"]
    assert rejected.proof.code == "off"
    assert 0 < rejected.proof.max_abs < np.inf
    assert rejected.proof.offer.startswith("off by ")


def test_what_is_accepted_is_made_and_said(tmp_path: Path) -> None:
    result = onnxq.sanitize(model(), rules=[rules(tmp_path, "off")], accept=["rough"])
    (change,) = [one for one in result.report.changes if one.rule == "rough"]
    assert not result.report.rejected
    assert (change.proof.verdict, change.proof.code) == ("unproven", "accepted")
    assert change.proof.max_abs > 0
    assert is_said(change.proof.why, "accepted", offer="off by")
    assert any(node.op_type == "Mul" for node in result.model.graph.node)
    assert is_said(
        result.report.whole_model[-1].why, "differs-by.accepted", difference="the model's outputs change"
    )
    x = np.random.default_rng(1).standard_normal((2, 32, 16)).astype(np.float32)
    (was,), (now,) = (ort.load(one).run({"x": x}) for one in (model(), result.model))
    assert not np.array_equal(was, now)


@pytest.mark.parametrize("kind", ["nan", "shape", "type"])
def test_what_is_another_thing_stays_refused(kind: str, tmp_path: Path) -> None:
    report = onnxq.sanitize(model(), rules=[rules(tmp_path, kind)], accept=["rough"]).report
    assert not any(one.rule == "rough" for one in report.changes)
    assert not any(one.proof.offer for one in report.rejected)


def test_quantize_goes_on_behind_it(tmp_path: Path) -> None:
    """The opset is raised behind it, which is compared with what was accepted."""
    made = model()
    made.opset_import[0].version = 12
    samples = [
        {"x": np.random.default_rng(k).standard_normal((1, 32, 16)).astype(np.float32)} for k in range(16)
    ]
    result = onnxq.quantize(made, samples, rules=[rules(tmp_path, "off")], accept=["rough"], compile=False)
    assert any(one.proof.code == "accepted" for one in result.report.changes)
    assert any(node.op_type == "QuantizeLinear" for node in result.model.graph.node)


def test_on_the_screens(tmp_path: Path) -> None:
    rules(tmp_path, "off")
    onnx.save(model(), tmp_path / "m.onnx")
    np.savez(tmp_path / "x.npz", x=np.random.default_rng(0).standard_normal((16, 32, 16)).astype(np.float32))
    (tmp_path / "rough.toml").write_text('[repair]\naccept = ["rough"]\n')
    for line in (
        "check m.onnx --no-engine --rules mine",
        "sanitize m.onnx -o s.onnx --rules mine",
        "quantize m.onnx --calib x.npz -o q.onnx --no-engine --rules mine",
    ):
        said = " ".join(run(tmp_path, *line.split(), columns=300).out.split())
        assert is_said(said, "change.accept", rule="rough"), line
        if not line.startswith("check"):
            more = ("--config", "rough.toml", "--force")
            said = " ".join(run(tmp_path, *line.split(), *more, columns=300).out.split())
            assert is_said(said, "accepted", offer="off by"), line


def test_an_unknown_rule_is_named() -> None:
    with pytest.raises(UserError, match="nobody"):
        onnxq.sanitize(model(), accept=["nobody"])

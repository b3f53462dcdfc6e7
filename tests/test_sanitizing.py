"""What is wrong with a repair is found, left out and named; the rest of the run goes on."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper
from said import is_said

from onnxq import sanitize
from onnxq.base.errors import Fault
from onnxq.base.reason import Reason
from onnxq.graph.edit import Editor
from onnxq.graph.model import Model
from onnxq.pipeline import sanitizing
from onnxq.pipeline.sanitizing import _Tried, _why_that
from onnxq.rewrite.changes import Change
from onnxq.rewrite.engine import RewriteReport
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.prover import Prover
from onnxq.rewrite.reproducer import place
from onnxq.run import ort

HEAD = '<ir_version: 8, opset_import: ["" : 17]> '


def parsed(body: str) -> onnx.ModelProto:
    return onnx.parser.parse_model(HEAD + body)


def ops(model: onnx.ModelProto) -> list[str]:
    return [node.op_type for node in model.graph.node]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return place()


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proof that takes everything."""
    monkeypatch.setattr(Prover, "prove", lambda *arguments: (Proof("exact", 1, 1), None))


def rules(folder: Path, **functions: str) -> list[Path]:
    folder.mkdir()
    for name, (operator, body) in functions.items():  # type: ignore[misc]
        head = f"from onnxq.rule import op, rule\n@rule({operator!r}, stage='fuse')\n"
        (folder / f"{name}.py").write_text(f"{head}def {name}(node):\n    {body}\nEXAMPLES = []\n")
    return [folder]


CHAIN = """g (float[2, 8] x) => (float[2, 8] y) {
    [n0] a = Abs (x) [n1] b = Neg (a) [n2] c = Neg (b) [n3] d = Exp (c) [n4] e = Neg (d) [n5] y = Neg (e) }"""


def test_who_is_at_fault_where_small_differences_grow() -> None:
    """A change that claims to be close, in a model that rounds to codes; none that ends the run."""
    values, ends = "the model's outputs change by up to 0.1", "the model does not run any more: so it is"

    def why(difference: str, verdict: str, *, steps: bool = True) -> Reason:
        change = Change("r", "fuse", "n", (), (), Proof(verdict))  # type: ignore[arg-type]
        return _why_that(_Tried(Model.open(parsed(CHAIN)), RewriteReport(steps=steps), difference), change)

    assert why(values, "close").code == "grows"
    for other in (why(values, "exact"), why(values, "close", steps=False), why(ends, "close")):
        assert other.code == "differs"
        assert is_said(other, "differs")


@pytest.mark.parametrize("wrong", [("n1",), ("n3",), ("n1", "n5"), ("n1", "n2", "n4")])
@pytest.mark.usefixtures("trusting")
def test_a_wrong_change_is_left_out_and_the_others_stay(
    wrong: tuple[str, ...], folder: Path, tmp_path: Path
) -> None:
    """Rewrites every Neg and Exp: as Mul by -1 and as it is, or by -1.5 and twice where it is wrong."""
    factor = f"-1.5 if node.name in {wrong!r} else -1"
    own = rules(
        tmp_path / "own",
        negate=("Neg", f"return op.Mul(node.inputs[0], np.float32({factor}))"),
        power=("Exp", f"return op.Pow(np.float32(np.e), node.inputs[0]) if node.name in {wrong!r} else None"),
    )
    for file in own[0].iterdir():
        file.write_text("import numpy as np\n" + file.read_text())
    result = sanitize(parsed(CHAIN), rules=own)
    kept = {"n1": "Neg", "n2": "Neg", "n3": "Exp", "n4": "Neg", "n5": "Neg"}
    expected = ["Abs", *(op if name in wrong or op == "Exp" else "Mul" for name, op in kept.items())]
    assert ops(result.model) == expected
    assert [change["node"] for change in result.report["rejected"]] == list(wrong)
    for change in result.report["rejected"]:
        assert change["rule"] in ("negate", "power")
        assert "change by up to" in change["proof"]["why"]
        saved = Path(change["reproducer"])
        assert saved.parent == folder
        feeds = dict(np.load(saved / "inputs.npz"))
        before, after = (
            ort.load(saved / f"{name}.onnx", optimize=False).run(feeds)[0] for name in ("before", "after")
        )
        assert not np.array_equal(before, after)
    assert result.report["whole_model"][-1]["verdict"] == "exact"


@pytest.mark.usefixtures("trusting")
def test_too_many_wrong_changes_cost_their_stage(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sanitizing, "_MOST", 1)
    own = rules(
        tmp_path / "own", negate=("Neg", "return op.Mul(node.inputs[0], op.Abs(op.Cos(node.inputs[0])))")
    )
    result = sanitize(
        parsed(CHAIN.replace("[n0]", "[i] z = Identity (x) [n0]").replace("(x) [n1]", "(z) [n1]")), rules=own
    )
    assert ops(result.model) == ["Abs", "Neg", "Neg", "Exp", "Neg", "Neg"]  # without the Identity
    one, stage = result.report["rejected"]
    assert (one["rule"], one["node"]) == ("negate", "n1")
    assert (stage["rule"], stage["node"]) == ("all of stage fuse", "")
    assert "negate" in stage["proof"]["why"]


def test_a_fault_in_a_stage_costs_that_stage(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = Editor.finish
    model = parsed("""g (float[1, 2, 4, 4] x) => (float[1, 2, 4, 4] y) <float[2, 2, 1, 1] w = {1, 2, 3, 4},
        float[2] s = {1.1, 0.5}, float[2] o = {0, 1}, float[2] m = {0.5, 0}, float[2] v = {1, 4}> {
        i = Identity (x)  c = Conv (i, w)  y = BatchNormalization (c, s, o, m, v) }""")

    def broken(self: Editor) -> Any:
        finish(self)
        if "BatchNormalization" not in [node.op for node in self.model.graph.nodes]:
            raise KeyError("a fault")

    monkeypatch.setattr(Editor, "finish", broken)
    result = sanitize(model)
    assert ops(result.model) == ["Conv", "BatchNormalization"]
    (rejected,) = result.report["rejected"]
    assert is_said(rejected["proof"]["why"], "stage-dropped.fault", stage="fuse", cause="KeyError: 'a fault'")
    assert "KeyError" in (Path(rejected["reproducer"]) / "fault.txt").read_text()


def test_rules_that_undo_each_other_are_left_out(folder: Path, tmp_path: Path) -> None:
    own = rules(tmp_path / "own", one=("Neg", "return op.Identity(op.Neg(node.inputs[0]))"))
    model = parsed("g (float[2] x) => (float[2] y) { i = Identity (x)  n = Neg (i)  y = Exp (n) }")
    result = sanitize(model, rules=own)
    assert ops(result.model) == ["Neg", "Exp"]
    (rejected,) = result.report["rejected"]
    assert "again and again" in rejected["proof"]["why"]
    assert rejected["rule"] == "one"


@pytest.mark.usefixtures("folder")
def test_a_model_that_differs_whatever_is_left_out_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Editor) -> Any:
        raise KeyError("a fault")

    monkeypatch.setattr(Editor, "finish", broken)
    monkeypatch.setattr(
        sanitizing.Sanitizing, "_drop_stage", lambda self, why, error: self._drop([], "", why, error)
    )
    with pytest.raises(Fault, match="ends in a fault"):
        sanitize(parsed("g (float[2] x) => (float[2] y) { i = Identity (x)  y = Exp (i) }"))


@pytest.mark.usefixtures("trusting", "folder")
def test_a_change_with_which_the_model_does_not_load(tmp_path: Path) -> None:
    """Of a model that runs on nothing that is made up."""
    own = rules(tmp_path / "own", turn=("Neg", "return op.Transpose(node.inputs[0], perm=[0, 1, 2])"))
    model = parsed(
        """g (float[N, 4] x) => (float[3, 7] y) <int64[2] to = {3, 7}> {
        i = Identity (x) [n] n = Neg (i)  r = Reshape (n, to)  y = Exp (r) }"""
    )
    result = sanitize(model, rules=own)
    assert ops(result.model) == ["Neg", "Reshape", "Exp"]
    (rejected,) = result.report["rejected"]
    assert (rejected["rule"], rejected["node"]) == ("turn", "n")
    assert "does not load" in rejected["proof"]["why"]


def test_a_model_is_run_with_the_values_that_it_compares_its_inputs_with() -> None:
    """Else neither branch runs."""
    model = parsed(
        """g (float[N, 8] x, int64 rate) => (float[M, K] y) <int64 known = {16000}, int64[2] to = {3, 7}> {
        i = Identity (x)  c = Equal (rate, known)
        y = If (c) <then_branch = t () => (float[N, 8] p) { p = Exp (i) },
            else_branch = e () => (float[3, 7] q) { q = Reshape (i, to) }> }"""
    )
    (whole,) = sanitize(model).report["whole_model"]
    assert whole["verdict"] == "exact"


def test_an_integer_that_is_rounded_from_a_close_value() -> None:
    """Of a convolution whose BatchNorm is folded, quantized: some values are near the middle of two steps."""
    generator = np.random.default_rng(0)

    def weights(name: str, *shape: int) -> onnx.TensorProto:
        return numpy_helper.from_array(generator.standard_normal(shape, np.float32), name)

    graph = helper.make_graph(
        [
            helper.make_node("Conv", ["x", "w"], ["a"], pads=[1] * 4),
            helper.make_node("BatchNormalization", ["a", "s", "o", "m", "v"], ["b"]),
            helper.make_node("QuantizeLinear", ["b", "scale", "zero"], ["y"]),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 256, 512])],
        [helper.make_tensor_value_info("y", TensorProto.INT8, [1, 8, 256, 512])],
        [
            weights("w", 8, 3, 3, 3),
            weights("s", 8),
            weights("o", 8),
            weights("m", 8),
            numpy_helper.from_array(np.linspace(0.5, 2, 8).astype(np.float32), "v"),
            numpy_helper.from_array(np.float32(0.05), "scale"),
            numpy_helper.from_array(np.int8(0), "zero"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    result = sanitize(model)
    assert ops(result.model) == ["Conv", "QuantizeLinear"]
    assert result.report["rejected"] == []
    (whole,) = result.report["whole_model"]
    assert whole["verdict"] == "close"
    assert is_said(whole["why"], "differs-by.steps", values="1,048,576", steps="1 step")


HALF = {
    "a constant": "c = Div (one, three)  y = Mul (x, c)",
    "a chain": "c = Div (x, three)  i = Identity (c)  y = Mul (i, three)",
    "a scale": """s = Shape (x)  l = Gather (s, k)  f = Cast <to = 10> (l)  r = Sqrt (f)  d = Div (x, r)
        y = Exp (d)""",
    "a table": """a = Div (one, three)  b = Mul (a, a)  c = Cos (b)  d = Sin (b)  e = Mul (x, c)
        f = Mul (x, d)  y = Add (e, f)""",
    "a body": """a = If (yes) <then_branch = t () => (float16[N, 64] p) { p = Div (x, three) },
        else_branch = e () => (float16[N, 64] q) { q = Neg (x) }>  y = Mul (a, three)""",
}


@pytest.mark.parametrize("body", HALF.values(), ids=HALF)
@pytest.mark.usefixtures("folder")
def test_half_precision_stays_bit_equal(body: str) -> None:
    """onnxruntime skips roundings between neighbours: a node more or less changes its bits."""
    model = parsed(
        f"""g (float16[N, 64] x) => (float16[N, 64] y) <float16 one = {{15360}}, float16 three = {{16896}},
            int64 k = {{1}}, bool yes = {{1}}> {{ {body} }}"""
    )
    result = sanitize(model)
    assert result.report["changes"]
    assert result.report["rejected"] == []
    assert {proof["verdict"] for proof in result.report["whole_model"]} == {"exact"}


def test_scalars_of_range_that_become_constant() -> None:
    """onnxruntime takes an operand of shape [1] only where it is computed."""
    model = parsed(
        """g (float[4, N] x) => (float[M] y) <int64[1] zero = {0}, int64[1] one = {1}> {
        s = Shape (x)  l = Gather (s, zero)  i = Identity (zero)  r = Range (i, l, one)
        y = Cast <to = 1> (r) }"""
    )
    result = sanitize(model)
    assert result.report["rejected"] == []
    feeds = {"x": np.zeros((4, 3), np.float32)}
    session = ort.load(result.model)
    (got,) = session.run({name: feeds[name] for name in session.inputs})
    assert got.tolist() == [0, 1, 2, 3]


def test_the_commands_have_the_shapes_of_dynamic_inputs(tmp_path: Path) -> None:
    """Of a batch and another size that nobody stated, as `quantize` has them; static ones need none."""
    for batch, wanted in (("N", "1x4x1"), ("3", "3x4x1")):
        result = sanitize(
            parsed(f"net (float[{batch}, 4, W] x) => (float[{batch}, 4, W] y) {{ y = Relu (x) }}")
        )
        result.save(tmp_path / "net.onnx", page=False, force=True)
        told = f"--minShapes=x:{wanted} --optShapes=x:{wanted} --maxShapes=x:{wanted}"
        assert told in result.report.commands[0]
    static = sanitize(parsed("net (float[3, 4] x) => (float[3, 4] y) { y = Relu (x) }"))
    static.save(tmp_path / "static.onnx", page=False)
    assert "Shapes" not in static.report.commands[0]


def test_a_locale_that_the_machine_lacks_is_said_of_the_machine() -> None:
    model = parsed("""g (float[4] x) => (string[2] s, float[4] y) {
        a = Constant <value_strings = ["aB", "C"]> ()
        s = StringNormalizer <case_change_action = "UPPER", locale = "xx_YY"> (a)  y = Relu (x) }""")
    runtime = sanitize(model).report.runtime
    assert runtime.original == "this machine has no locale 'xx_YY', which the model asks for: install it"

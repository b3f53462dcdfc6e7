"""Python functions that stand for operators: what is around their nodes is calibrated and judged."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxq
from onnxq.base.errors import UserError
from onnxq.run import ort

LEAK = """
import numpy as np

def Leak(x, slope=0.1):
    return np.where(x > 0, x, slope * x)
"""


def net(own: bool = True, *, batch: int | str = 2, domain: str = "my.domain") -> onnx.ModelProto:
    """Two convolutions around a leaky ReLU, of ONNX or of an operator that nobody knows."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.standard_normal((16, 16, 3, 3)) / 12).astype(np.float32), name)
        for name in ("v", "w")
    ]
    middle = (
        helper.make_node("Leak", ["t"], ["l"], "leak", domain=domain, slope=0.25)
        if own
        else helper.make_node("LeakyRelu", ["t"], ["l"], "leak", alpha=0.25)
    )
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"], "first", pads=[1] * 4),
        helper.make_node("Tanh", ["c"], ["t"], "tanh"),
        middle,
        helper.make_node("Conv", ["l", "w"], ["d"], "second", pads=[1] * 4),
        helper.make_node("Relu", ["d"], ["y"], "relu"),
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [batch, 16, 8, 8]) for name in "xy"]
    graph = helper.make_graph(nodes, "net", ends[:1], ends[1:], weights)
    opsets = [helper.make_opsetid("", 17)] + ([helper.make_opsetid(domain, 1)] if domain else [])
    return helper.make_model(graph, ir_version=8, opset_imports=opsets)


def samples(count: int = 8) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(1)
    return [{"x": rng.standard_normal((2, 16, 8, 8), np.float32)} for _ in range(count)]


@pytest.fixture
def ops(tmp_path: Path) -> Path:
    path = tmp_path / "ops.py"
    path.write_text(LEAK)
    return path


def formats(result: onnxq.Result) -> dict[str, str | None]:
    return {layer.node: layer.format for layer in result.report.plan.layers}


@pytest.mark.parametrize("batch", [2, "N"])
@pytest.mark.parametrize("domain", ["my.domain", ""])
def test_layers_in_front_of_it_and_behind_it_are_int8(ops: Path, batch: int | str, domain: str) -> None:
    how = {"compile": False, "body": "fp32", "repair": "none"}  # which knows LeakyRelu
    own = onnxq.quantize(net(batch=batch, domain=domain), samples(), ops=[ops], **how)
    known = onnxq.quantize(net(own=False, batch=batch), samples(), **how)
    assert formats(own) == formats(known) == {"first": "int8", "second": "int8"}
    (one,), (other,) = own.report.accuracy, known.report.accuracy
    assert one.sqnr_db == other.sqnr_db
    assert own.report.calibration.not_run == {}
    assert "Leak" in [node.op_type for node in own.model.graph.node]


def test_without_the_function_the_note_names_the_flag() -> None:
    result = onnxq.quantize(net(), samples(), compile=False)
    assert formats(result) == {"first": "int8", "second": "float"}
    (kept,) = result.report.plan.kept_float
    assert "--ops" in kept.because


def test_a_table_names_functions_by_domain(tmp_path: Path) -> None:
    path = tmp_path / "table.py"
    path.write_text(
        f"{LEAK}\ndef other(x, slope):\n    return 0 * x\n"
        'OPS = {("my.domain", "Leak"): Leak, "Leak": other}\n'
    )
    with ort.running(onnxq.Runtime(ops=[path])):
        (y,) = ort.load(net()).run(samples(1)[0])
        (zero,) = ort.load(net(domain="another")).run(samples(1)[0])
    (expected,) = ort.load(net(own=False)).run(samples(1)[0])
    np.testing.assert_allclose(y, expected, atol=1e-6)
    assert not zero.any()
    with pytest.raises(ort.RunError, match="Leak") as caught:
        ort.load(net())
    assert "--ops" in caught.value.hint


def test_what_it_gives_is_known_to_the_model(ops: Path) -> None:
    with ort.running(onnxq.Runtime(ops=[ops])):
        typed = ort.with_types(net(batch="N"), None)
    (info,) = (one for one in typed.graph.value_info if one.name == "l")
    assert [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] == ["N", 16, 8, 8]


def test_several_outputs_constants_and_inputs_that_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(
        "def Two(x, none, by, kind='', sizes=()):\n"
        "    assert none is None and kind == 'a' and sizes == [1, 2]\n"
        "    return (x * by).astype('float64'), x + by, x\n"
    )
    node = helper.make_node("Two", ["x", "", "k"], ["a", "b"], "two", domain="d", kind="a", sizes=[1, 2])
    total = helper.make_node("Add", ["a", "b"], ["y"], "add")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3]) for name in "xy"]
    by = numpy_helper.from_array(np.float32(2), "k")
    graph = helper.make_graph([node, total], "net", ends[:1], ends[1:], [by])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    with ort.running(onnxq.Runtime(ops=[path])):
        (y,) = ort.load(model).run({"x": np.array([1, 2, 3], np.float32)})
    assert y.tolist() == [5, 8, 11]


def test_other_verbs_run_it(ops: Path, tmp_path: Path) -> None:
    onnx.save(net(), tmp_path / "own.onnx")
    onnx.save(net(own=False), tmp_path / "known.onnx")
    compared = onnxq.compare(tmp_path / "own.onnx", tmp_path / "known.onnx", samples(2), ops=[ops])
    assert compared.accuracy[0].sqnr_db > 100
    assert onnxq.sanitize(net(), ops=[ops]).report.proved is not None
    tensors = onnxq.statistics(tmp_path / "own.onnx", samples(2), runtime={"ops": [ops]}).rows
    assert {"l", "d"} <= {one.tensor for one in tensors}
    result = onnxq.quantize(tmp_path / "own.onnx", samples(), ops=[ops], compile=False)
    result.save(tmp_path / "int8.onnx")
    analysis = onnxq.analyze(
        tmp_path / "own.onnx", tmp_path / "int8.onnx", samples(2), runtime={"ops": [ops]}
    )
    assert "leak" in str(analysis.rows)


def test_beside_an_operator_that_has_no_function(ops: Path) -> None:
    model = net()
    model.graph.node.append(helper.make_node("Odd", ["y"], ["z"], "odd", domain="my.domain"))
    model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [2, 16, 8, 8]))
    result = onnxq.quantize(model, samples(), ops=[ops], compile=False)
    assert formats(result) == {"first": "int8", "second": "int8"}
    assert result.report.calibration.not_run == {"odd": "my.domain.Odd"}


def test_for_the_compiler_it_is_cut_out(ops: Path, tmp_path: Path) -> None:
    pytest.importorskip("tensorrt_rtx")
    for batch in (2, "N"):
        engine = onnxq.quantize(net(batch=batch), samples(), ops=[ops], plugin=["Leak"]).report.engine
        assert (engine.status, engine.int8) == ("compiled", 2)
        onnx.save(net(batch=batch), tmp_path / "own.onnx")
        checks = onnxq.check(tmp_path / "own.onnx", ops=[ops], plugin=["my.domain.Leak"])
        assert checks.engine.original == checks.engine.sanitized == "compiled"
        assert [(one.check, one.severity) for one in checks.findings] == [("plugin", "note")]


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "def Leak(x, slope):\n    raise ValueError('no such thing')\n",
            r"^the file of operators .*ops.py., line 2: ValueError: no such thing",
        ),
        ("def Leak(x, slope):\n    return x[:, :4]\n", "relu|second|leak"),
        ("def Leak(x):\n    return x\n", "TypeError: .*slope"),
        ("def Leak(x, slope):\n    return ()\n", "0 of 1 outputs"),
        ("def Leak(x, slope):\n    return 'text'\n", "array of str128, which is no tensor of numbers"),
        ("Leak = 3\n", "no function"),
        ("def Leak(:\n", "SyntaxError"),
    ],
)
def test_what_is_wrong_in_it_is_the_user_s(code: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "ops.py"
    path.write_text(code)
    with pytest.raises(UserError, match=said) as caught:
        onnxq.quantize(net(), samples(), ops=[path], compile=False)
    assert caught.value.hint or "ops.py" in str(caught.value)


def test_a_shape_that_the_file_does_not_have(ops: Path, tmp_path: Path) -> None:
    model = net()
    model.graph.value_info.append(helper.make_tensor_value_info("l", TensorProto.FLOAT, [2, 16, 8, 9]))
    with pytest.raises(UserError, match=r"ops.py.*leak.*\[2, 16, 8, 8\].*'l'.*\[2, 16, 8, 9\]"):
        onnxq.quantize(model, samples(), ops=[ops], compile=False)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no file of operators"):
        onnxq.sanitize(net(), ops=[tmp_path / "none.py"])

"""The lint: each check finds its mistake and nothing else, and the compiled engine has the last word."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import onnx.compose
import onnx.parser
import pytest
from lint_nets import CONSTANTS, MISTAKES, TANH, M, X, attention, conv, matmul, net, pair, residual
from said import is_said

from onnxq.checks import Fact, Said
from onnxq.checks.finding import SEVERITIES, Finding, exit_code
from onnxq.checks.lint import confirm, confirmed_lint, explains
from onnxq.checks.load import CHECKS, checks_that_need
from onnxq.checks.subject import Subject, subject_of
from onnxq.graph.model import Model
from onnxq.run import trt

DOCS = Path(__file__).resolve().parents[2] / "docs" / "lint.md"


def found(text: str, target: str = "tensorrt-11") -> list[Finding]:
    return confirmed_lint(Model.open(net(text)), target)


def checks(text: str) -> set[str]:
    return {one.check for one in found(text)}


# -- each check ------------------------------------------------------------------------------------


@pytest.mark.parametrize("check", MISTAKES)
def test_a_mistake_is_found_and_its_right_form_is_not(check: str) -> None:
    bad, good = MISTAKES[check]
    assert checks(bad) == {check}
    assert found(good) == []
    for one in found(bad):
        assert one.severity == CHECKS[check].severity
        assert one.node
        assert one.reason
        assert one.consequence
        assert one.advice


def test_every_check_has_a_mistake_a_severity_and_a_line_in_the_docs() -> None:
    kinds = ("qdq", "miscompile", "release", "shape")
    linted = {name for name, check in CHECKS.items() if check.kind in kinds}
    of_file = {check.name for check in checks_that_need("file", "pairs")}
    of_others = {"number-format"}  # the target of these tests has every format
    assert of_file - of_others == set(MISTAKES) == linted - {"not-int8"} - of_others
    rows = [line.split("|")[1:-1] for line in DOCS.read_text("utf-8").splitlines() if line.startswith("| `")]
    told = {row[0].strip().strip("`"): row[1].strip() for row in rows if row[1].strip() in SEVERITIES}
    assert told == {name: check.severity for name, check in CHECKS.items()}


# -- what they know of the graph -------------------------------------------------------------------


def test_codes_go_through_what_moves_values() -> None:
    """Pairs in front of a MaxPool, a Concat of one scale, a Transpose are those of the layer behind it."""
    joined = pair("x", "f") + "i, j = Split <axis = 1, num_outputs = 2> (f) d = Concat <axis = 1> (j, i)"
    pooled = pair("x", "f") + "e = MaxPool <kernel_shape = [1, 1]> (f)  d = Identity (e)"
    turned = "e = DequantizeLinear <axis = 0> (m, c64, c640)  v = Transpose <perm = [1, 0]> (e)"
    assert found(conv(joined)) == found(conv(pooled)) == found(matmul(X, turned)) == []
    wrong = turned.replace("axis = 0", "axis = 1")
    assert checks(matmul(X, wrong)) == {"weight-axis"}


@pytest.mark.parametrize("stop", ["Relu (f)", "AveragePool <kernel_shape = [1, 1]> (f)", "Mul (f, half)"])
def test_a_pair_in_front_of_what_int8_does_not_go_through_is_named(stop: str) -> None:
    lost = found(conv(pair("x", "f") + f"[stop] d = {stop}"))
    (one,) = [one for one in lost if one.check == "weights-only"]
    assert f"{stop.split()[0]} 'stop'" in one.reason
    assert "behind 'stop'" in one.advice


def test_a_pair_that_another_layer_needs_is_not_half() -> None:
    """The float convolution reads the pair of a quantized one: nobody loses by it."""
    both = conv(X, more="y1 = Conv <pads = [1, 1, 1, 1]> (d, wf)  y = Add (y0, y1)")
    assert found(both) == []
    behind = (
        pair("x", "d") + "e = MaxPool <kernel_shape = [1, 1]> (d)  y2 = Conv <pads = [1, 1, 1, 1]> (e, wf)  "
    )
    behind += (
        pair("e", "f") + "v = DequantizeLinear <axis = 0> (w, c, c0)  y3 = Conv <pads = [1, 1, 1, 1]> (f, v)"
    )
    assert found("(float[1, 32, 16, 16] x) => (y) {" + behind + " y = Add (y2, y3) }") == []


def test_attention_in_parts_and_whole() -> None:
    for parts in ("q", "qk", "pv", "qkpv", "qkvo"):
        assert "half-attention" in checks(attention(parts))
    assert found(attention("")) == found(attention("o")) == []
    scores = "s1x = Mul (s0, eighth)"
    on_scores = attention("qkpvo").replace(scores, pair("s0", "t0") + "s1x = Mul (t0, eighth)")
    assert "half-attention" in checks(on_scores)
    long = attention("qkpvo", keys=513)
    assert checks(long) == {"attention-size"}
    (one,) = found(long)
    assert "513 keys" in one.reason


def test_float16_factors_are_counted() -> None:
    (one,) = found(MISTAKES["fp16-product"][0])
    codes = CONSTANTS["m"].astype(int)
    most = int(np.abs(codes).sum(axis=0).max()) * 127
    assert f"{most:,}" in one.reason
    weight = "v = DequantizeLinear <axis = 1> (small, ch, c640)"
    assert found(matmul(pair("x", "d", "oneh"), weight, "float16")) == []
    small = found(matmul(pair("x", "d", "h"), weight.replace("ch,", "chs,"), "float16"))
    (one,) = [one for one in small if one.check == "fp16-product"]
    assert is_said(one.reason, "fp16-product.small", multipliers=64, small=64)


def test_what_an_output_is_rounded_to_is_named() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 19]> g (float[4] x) => (float[4] y)
        <float s = {0.1}, float8e4m3fn z = {0}> {
        q = QuantizeLinear (x, s, z)  y = DequantizeLinear (q, s, z) }"""
    )
    (said,) = confirmed_lint(Model.open(model), "tensorrt-11")
    assert "rounded to fp8" in said.reason
    assert "int8" not in said.reason + said.consequence


def test_the_miscompile_is_of_one_target_and_type() -> None:
    assert [one.node for one in found(residual(TANH))] == ["add"]
    assert found(residual("t0 = Relu (k)")) != []
    assert confirmed_lint(Model.open(net(residual(TANH))), "tensorrt-rtx") == []
    halves = TANH.replace("halfh", "half").replace("(k3, oneh)", "(k3, half)")
    assert found(residual(halves, "float", "wf")) == []
    dense = residual(TANH).replace("[cat] y = Concat <axis = 1> (a, b, r)", "y = Concat <axis = 1> (a, r)")
    assert found(dense) == []


def test_weights_in_four_bits_alone_are_no_mistake() -> None:
    weights = onnx.helper.make_tensor("w4", onnx.TensorProto.INT4, (64, 64), [1] * 4096)
    text = "(float[64, 64] x) => (y) { v = DequantizeLinear <axis = 1> (w4, c64)  y = MatMul (x, v) }"
    model = net(text)
    model.graph.initializer.append(weights)
    assert confirmed_lint(Model.open(model)) == []


# -- the engine ------------------------------------------------------------------------------------

IN_THE_ENGINE = (
    "uint8", "no-zero-point", "one-element-scale", "fp16-product", "activation-axis", "weight-axis",
    "weight-blocks", "weights-only", "input-only", "half-product", "concat-scales", "half-attention",
    "attention-size",    "ignored-pairs", "padded-groups", "few-rows", "idle-pair", "quantized-output",
)  # fmt: skip
"""The checks that one engine of all their mistakes confirms."""

OF_ONE_IMAGE = conv(pair("x", "d", "s1", "z1").replace("Linear (", "Linear <axis = 0> ("))
"""A scale for each image of a batch of one."""


@dataclass(frozen=True)
class Built:
    """An engine of several small models."""

    subject: Subject
    engine: trt.Engine


def together(texts: dict[str, str]) -> onnx.ModelProto:
    """Models side by side in one; each node's name begins with that of its model."""
    whole: onnx.ModelProto | None = None
    for name, text in texts.items():
        part = onnx.compose.add_prefix(net(text), name + "/")
        whole = part if whole is None else onnx.compose.merge_models(whole, part, io_map=[])
    assert whole is not None
    return whole


def built(texts: dict[str, str], folder: Path) -> Built:
    pytest.importorskip("tensorrt_rtx")
    model = together(texts)
    onnx.save(model, folder / "net.onnx")
    engine = trt.compile_engine(folder / "net.onnx")
    assert engine.status == "compiled", engine.reason
    return Built(subject_of(Model.open(model), "tensorrt-11"), engine)


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Built:
    texts = {name: MISTAKES[name][0] for name in IN_THE_ENGINE}
    return built({**texts, "of-one-image": OF_ONE_IMAGE}, tmp_path_factory.mktemp("bad"))


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Built:
    nets = {"conv": conv(X), "attention": attention("qkpvo"), "one": MISTAKES["one-element-scale"][1]}
    nets["product"] = matmul(pair("x", "d", "s1", "z1"), M)
    return built(nets, tmp_path_factory.mktemp("good"))


def test_the_engine_confirms(bad: Built) -> None:
    judged = confirmed_lint(bad.subject.model, "tensorrt-11", bad.engine)
    told = {(one.node.partition("/")[0], one.check): one.confirmed for one in judged}
    own = {(name, name): True for name in IN_THE_ENGINE}
    assert told == {**own, ("of-one-image", "one-element-scale"): True}


def test_the_engine_finds_what_no_check_explains(bad: Built) -> None:
    alone = confirm([], bad.subject, bad.engine)
    assert {one.check for one in alone} == {"not-int8"}
    assert {one.node for one in alone} == {
        f"{name}/l"
        for name in (
            "one-element-scale",
            "of-one-image",
            "activation-axis",
            "weight-axis",
            "concat-scales",
            "ignored-pairs",
        )
    }


def test_the_engine_refutes(good: Built) -> None:
    """A wrong warning becomes a note, a wrong note goes; a right model has no finding at all."""
    assert confirmed_lint(good.subject.model, "tensorrt-11", good.engine) == []
    wrong = [
        CHECKS[check].finding(Said(node, consequence="bad"))
        for check, node in (
            ("weight-axis", "conv/l"), ("weights-only", "conv/l"), ("attention-size", "attention/two"),
            ("zero-point", "conv/n0"), ("idle-pair", "conv/n1"),
        )
    ]  # fmt: skip
    judged = confirm(wrong, good.subject, good.engine)
    assert [(one.check, one.severity, one.confirmed) for one in judged] == [
        (one.check, "note", False) for one in wrong[:4]
    ]
    assert all(is_said(one.consequence, "not-in-this-engine") for one in judged)
    assert exit_code(judged, strict=True) == 0


def test_the_engines_name_of_a_node_without_one_is_known(bad: Built) -> None:
    """The compiler calls it by its first output, the model by another name."""
    bare = onnx.ModelProto()
    bare.CopyFrom(bad.subject.model.to_proto())
    (layer,) = [node for node in bare.graph.node if node.name == "weight-axis/l"]
    layer.name = ""
    given = f"node_of_{layer.output[0]}"
    layers = tuple(
        dataclasses.replace(
            layer, nodes=tuple(given if name == "weight-axis/l" else name for name in layer.nodes)
        )
        for layer in bad.engine.layers
    )
    judged = confirmed_lint(Model.open(bare), "tensorrt-11", dataclasses.replace(bad.engine, layers=layers))
    assert [one.confirmed for one in judged if one.check == "weight-axis"] == [True]


def test_the_parsers_words_confirm() -> None:
    failed = trt.Engine("failed", "node 'q': Non-zero zero point is not supported.", "", 89)
    model = Model.open(net(MISTAKES["zero-point"][0]))
    judged = confirmed_lint(model, "tensorrt-11", failed)
    assert [one.confirmed for one in judged] == [True, True]
    assert explains(judged, "Non-zero zero point is not supported")
    assert not explains(judged, "Scale coefficients must all be positive")
    assert [one.confirmed for one in confirmed_lint(model, "tensorrt-11", None)] == [None, None]


# -- severities ------------------------------------------------------------------------------------


def test_exit_codes() -> None:
    error, warning, note = (
        CHECKS[name].finding(Said()) for name in ("zero-point", "weights-only", "idle-pair")
    )
    assert (error.severity, warning.severity, note.severity) == ("error", "warning", "note")
    assert exit_code([error]) == 1
    assert exit_code([warning, note]) == 0
    assert exit_code([warning], strict=True) == 1
    assert exit_code([note], strict=True) == 0


def test_a_fault_of_a_check_costs_none_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    check = next(iter(MISTAKES))
    wanted = found(MISTAKES[check][0])
    other = next(name for name in MISTAKES if name not in {one.check for one in wanted})

    def broken(_: Subject) -> list[Fact]:
        raise KeyError("planted")

    planted = dataclasses.replace(CHECKS[other], function=broken)
    monkeypatch.setitem(CHECKS, other, planted)  # type: ignore[misc]
    *rest, told = sorted(found(MISTAKES[check][0]), key=lambda one: one.check == "failed-check")
    assert {one.check for one in rest} == {one.check for one in wanted}
    assert (told.check, told.severity) == ("failed-check", "note")
    assert repr(other) in told.reason

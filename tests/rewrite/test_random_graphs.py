"""Random graphs: sanitizing keeps what they compute, and Q/DQ pairs come out as they went in."""

from __future__ import annotations

import hashlib
import os
import random
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from half_models import as_half
from hypothesis import HealthCheck, given, reject, settings
from onnx import numpy_helper
from random_models import CHANGED, CHOICES, LAYERED, SMOOTH, feeds_of, models

from onnxq import sanitize
from onnxq.base.errors import UserError
from onnxq.graph.model import Model
from onnxq.graph.upgrade import OPSET, upgrade
from onnxq.quant.insert import insert
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.rewrite.engine import rewrite
from onnxq.rule.load import load_rules
from onnxq.run import ort, trt

# ONNXQ_EXAMPLES=5000 looks harder, and each time elsewhere.
EXAMPLES = int(os.environ.get("ONNXQ_EXAMPLES", "0"))
RULES = load_rules()
# Rules that may round otherwise.
CLOSE = tuple(rule.id for rule in RULES if "Close" in rule.function.__globals__)


def graphs(count: int, **more: Any) -> Callable[[Any], Any]:
    """Runs a test on so many random models, the same ones each time, or on ONNXQ_EXAMPLES new ones."""

    def decorate(test: Any) -> Any:
        return settings(
            max_examples=EXAMPLES or count,
            derandomize=not EXAMPLES,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )(given(models(**more))(test))

    return decorate


def all_graphs(graph: onnx.GraphProto, depth: int = 0) -> Iterator[tuple[int, onnx.GraphProto]]:
    yield depth, graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from all_graphs(attribute.g, depth + 1)


def loaded(model: onnx.ModelProto) -> ort.Session:
    return ort.load(model, optimize=False, threads=1)


Run = Callable[[ort.Session], "list[np.ndarray] | None"]


def runs(model: onnx.ModelProto, *, special: Sequence[bool] = (False, True)) -> Iterator[Run]:
    """Ways to run a model: sizes of the symbols, kinds of values, both branches."""
    for choice in range(CHOICES):
        for kind in special:
            for c in (True, False):
                feeds = feeds_of(model, choice, special=kind, c=c, k=choice)

                def run(session: ort.Session, feeds: Any = feeds) -> list[np.ndarray] | None:
                    try:
                        return session.run({name: feeds[name] for name in session.inputs})
                    except ort.RunError:
                        return None

                yield run


def same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether all elements are bit-equal; one NaN is as good as another."""
    if one.shape != other.shape or one.dtype != other.dtype:
        return False
    bits = np.dtype(f"u{one.dtype.itemsize}")
    equal = one.view(bits) == other.view(bits)
    return bool((equal | (np.isnan(one) & np.isnan(other))).all())


def assert_same_outputs(
    one: onnx.ModelProto, other: onnx.ModelProto, special: Sequence[bool] = (False, True)
) -> None:
    before, after = loaded(one), loaded(other)
    for run in runs(one, special=special):
        expected = run(before)
        if expected is not None:  # onnxruntime 1.31 loses the second of two Casts that only a body reads
            got = run(after)
            assert got is not None
            assert all(map(same_bits, expected, got))


def is_valid(model: onnx.ModelProto) -> bool:
    """Whether the checker takes a model: an output needs a shape, which not every file has."""
    try:
        onnx.checker.check_model(model)
    except onnx.checker.ValidationError:
        return False
    return True


def interface(model: onnx.ModelProto) -> tuple[list[str], list[str]]:
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [info.name for info in model.graph.input if info.name not in weights]
    return inputs, [info.name for info in model.graph.output]


# -- the generator ---------------------------------------------------------------------------------


def test_the_graphs_have_what_they_are_for() -> None:
    operators: Counter[str] = Counter()
    found: Counter[str] = Counter()

    @graphs(150)
    def look(model: onnx.ModelProto) -> None:
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs = {info.name for info in model.graph.input}
        made = {name for node in model.graph.node for name in node.output} | inputs | weights
        names: list[str] = []
        reads: Counter[str] = Counter()
        for depth, graph in all_graphs(model.graph):
            operators.update(node.op_type for node in graph.node)
            names += [node.name for node in graph.node]
            read = {name for node in graph.node for name in node.input}
            reads.update(name for node in graph.node for name in node.input)
            found[f"depth {depth}"] += 1
            found["captured two deep"] += depth == 2 and bool(read & made)
            found["weights in a body"] += depth > 0 and bool(graph.initializer)
        ends = {info.name for info in model.graph.output}
        found["25 nodes"] += len(names) >= 25
        found["duplicate names"] += max(Counter(filter(None, names)).values(), default=0) > 1
        found["nameless"] += "" in names
        found["shared weights"] += any(reads[name] > 1 for name in weights)
        found["unread"] += any(o and o not in ends | reads.keys() for n in model.graph.node for o in n.output)
        found["an output that is read"] += any(reads[name] for name in ends)
        found["an output that is an input"] += bool(ends & inputs)
        found["weights as inputs"] += bool(weights & inputs)
        found[f"opset {model.opset_import[0].version}"] += 1
        loaded(model)

    look()
    assert len(operators) >= 50
    for feature in ("depth 2", "captured two deep", "weights in a body", "25 nodes", "duplicate names",
                    "nameless", "shared weights", "unread", "an output that is read",
                    "an output that is an input", "weights as inputs"):  # fmt: skip
        assert found[feature] >= 2, feature
    assert len([name for name in found if name.startswith("opset")]) >= 8
    assert operators["If"] + operators["Loop"] + operators["Scan"] >= 50


# -- sanitize --------------------------------------------------------------------------------------


@graphs(30)
def test_sanitizing_keeps_what_a_graph_computes(model: onnx.ModelProto) -> None:
    original = model.SerializeToString(deterministic=True)
    result = sanitize(model, skip=CLOSE)
    assert model.SerializeToString(deterministic=True) == original
    assert [c for c in result.report["rejected"] if c["proof"]["verdict"] == "failed"] == []
    assert interface(result.model) == interface(model)
    if is_valid(model):
        onnx.checker.check_model(result.model)
    of_nan = any("the code of a NaN" in change.proof.why for change in result.report.changes)
    assert_same_outputs(model, result.model, (False,) if of_nan else (False, True))
    for whole in result.report["whole_model"]:
        assert whole["verdict"] == "exact" or "run the original" in whole["why"]
    again = sanitize(result.model, skip=CLOSE)
    assert again.report["changes"] == []
    assert again.model == result.model


@graphs(12)
def test_half_precision_keeps_what_a_graph_computes(model: onnx.ModelProto) -> None:
    """Rounded after every node, before and after."""
    half = as_half(model)
    if not ort.loads(half):  # an operator has no float16 in this opset, or types do not match any more
        reject()
    before = loaded(half)
    result = sanitize(half, skip=CLOSE)
    assert [c for c in result.report["rejected"] if c["proof"]["verdict"] == "failed"] == []
    after = loaded(result.model)
    for run in runs(half):
        expected = run(before)
        if expected is not None:
            got = run(after)
            assert got is not None
            assert all(map(same_bits, expected, got))


@graphs(20, steps=SMOOTH, most=10)
def test_close_changes_stay_within_a_bound(model: onnx.ModelProto) -> None:
    result = sanitize(model)
    before, after = loaded(model), loaded(result.model)
    for run in runs(model, special=[False]):
        expected = run(before)
        if expected is None:
            continue
        got = run(after)
        assert got is not None
        for one, other in zip(expected, got, strict=True):
            assert one.shape == other.shape
            largest = np.abs(one[np.isfinite(one)]).max(initial=0.0)
            np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * largest, equal_nan=True)
    again = sanitize(result.model)
    assert again.report["changes"] == []
    assert again.model == result.model


def digest(*parts: Any) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def canonical(graph: onnx.GraphProto, outer: dict[str, str] | None = None) -> tuple[Any, ...]:
    """A graph without the names of its nodes and inner tensors: what each node computes of what."""
    known = dict(outer or {})
    for index, info in enumerate(graph.input):
        known[info.name] = digest("input", info.name if outer is None else index)
    for tensor in graph.initializer:
        array = numpy_helper.to_array(tensor)
        known[tensor.name] = digest(array.dtype.str, array.shape, array.tobytes())
    nodes: Counter[str] = Counter()
    for node in graph.node:
        attributes = sorted(
            (a.name, canonical(a.g, known) if a.HasField("g") else a.SerializeToString(deterministic=True))
            for a in node.attribute
        )
        inputs = [known[name] if name else "" for name in node.input]
        code = digest(node.domain, node.op_type, attributes, inputs)
        known.update((name, digest(code, index)) for index, name in enumerate(node.output))
        nodes[code] += 1
    ends = [(info.name if outer is None else "", known[info.name]) for info in graph.output]
    return tuple(ends), tuple(sorted(nodes.items()))


@graphs(35)
def test_the_order_of_rules_does_not_matter(model: onnx.ModelProto) -> None:
    results = []
    for seed in (None, 1, 2):
        rules = [rule for rule in RULES if rule.stage != "place"]
        if seed is not None:
            random.Random(seed).shuffle(rules)
        opened = Model.open(model)
        opened.runtime = ort.evaluate
        rewrite(opened, rules, lambda feature: True, prove="never")
        results.append(canonical(opened.to_proto().graph))
    assert results[0] == results[1] == results[2]


# -- quantize --------------------------------------------------------------------------------------


def strip(quantized: onnx.ModelProto, plan: QuantPlan, original: onnx.ModelProto) -> onnx.ModelProto:
    """Takes the pairs of a plan out again, and puts the float weights back in the original's order."""
    order = [node.name for node in original.graph.node]
    weights = {tensor.name: tensor for tensor in original.graph.initializer}
    stripped = onnx.ModelProto()
    stripped.CopyFrom(quantized)
    graph = stripped.graph
    nodes = {node.name: node for node in graph.node}
    added = {node.output[0]: node for name, node in nodes.items() if name not in order}
    assert {node.op_type for node in added.values()} <= {"QuantizeLinear", "DequantizeLinear"}
    for site in plan.sites:
        for edge in site.readers:
            inputs = nodes[edge.node].input
            pair = added[inputs[edge.input]]
            if site.kind == "activation":
                assert added[pair.input[0]].input[0] == site.tensor
            else:
                assert_codes(graph, pair, weights[site.tensor])
            inputs[edge.input] = site.tensor
    for own in plan.own:
        for edge in own.readers:
            inputs = nodes[edge.node].input
            assert inputs[edge.input] == own.dequantized
            inputs[edge.input] = own.tensor
    del graph.node[:]
    graph.node.extend(nodes[name] for name in order)
    infos = {info.name: info for info in graph.value_info}
    del graph.value_info[:]
    graph.value_info.extend(infos[info.name] for info in original.graph.value_info)
    read = {name for _, body in all_graphs(graph) for node in body.node for name in node.input}
    read |= {info.name for info in graph.output}
    kept = {tensor.name: tensor for tensor in graph.initializer if tensor.name in read}
    for _, body in all_graphs(graph):  # a weight that only a body reads has moved there
        own = [tensor for tensor in body.initializer if tensor.name not in weights]
        del body.initializer[:]
        body.initializer.extend(own if body is not graph else ())
    graph.initializer.extend(kept.get(name, tensor) for name, tensor in weights.items())
    return stripped


def assert_codes(graph: onnx.GraphProto, pair: onnx.NodeProto, weight: onnx.TensorProto) -> None:
    """What a DequantizeLinear reads is within half a step of the weights."""
    arrays = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    codes, scale, zero = (arrays[name] for name in pair.input)
    wanted = numpy_helper.to_array(weight)
    if scale.ndim:
        axis = next(a.i for a in pair.attribute if a.name == "axis")
        scale = scale.reshape([-1 if i == axis else 1 for i in range(wanted.ndim)])
    assert not zero.any()
    assert (np.abs(codes * scale - wanted) <= scale * np.float32(0.501)).all()


@graphs(50, steps=LAYERED)
def test_pairs_taken_out_again_leave_the_original(model: onnx.ModelProto) -> None:
    opened = Model.open(model)
    try:
        upgrade(opened)
    except UserError:
        return
    original = opened.to_proto()
    plan = make_plan(opened, RULES)
    quantized = insert(opened, plan, {group.id: np.float32(0.125) for group in plan.groups}).model.to_proto()
    loaded(quantized)
    if is_valid(original):
        onnx.checker.check_model(quantized)
    stripped = strip(quantized, plan, original)
    assert stripped == original


@graphs(50, opsets=range(9, OPSET), steps=CHANGED, most=10)
def test_raising_the_opset_keeps_what_a_graph_computes(model: onnx.ModelProto) -> None:
    opened = Model.open(model)
    try:
        upgrade(opened)
    except UserError:
        return
    raised = opened.to_proto()
    assert interface(raised) == interface(model)
    assert_same_outputs(model, raised)


@pytest.mark.skipif(trt.installed() is None, reason="tensorrt-rtx is not installed")
@graphs(5)
def test_what_nvidias_parser_takes_it_takes_afterwards(model: onnx.ModelProto) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        onnx.save(model, path)
        if trt.check_parse(path) == []:
            onnx.save(sanitize(model).model, path)
            assert trt.check_parse(path) == []

"""Fits: what the stream computes is what the written file computes, for layers of every form."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import onnx
import pytest
from edit_nets import ranges
from onnx import TensorProto, helper, numpy_helper

from onnxq.base.errors import Fault
from onnxq.body.formats import DTYPES, Kind
from onnxq.graph.model import Model
from onnxq.graph.parts import runnable_part
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.insert import insert
from onnxq.quant.patches import Patches
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.repair import fit as fits
from onnxq.repair.fit import Fitted, Fitter
from onnxq.repair.stream import Stream
from onnxq.rule.load import load_rules
from onnxq.run import ort

RULES = load_rules(())
Feeds = dict[str, np.ndarray]


class Net:
    """A model with random weights, node by node."""

    def __init__(self, *shape: int | str, kind: int = TensorProto.FLOAT, seed: int = 0) -> None:
        self.graph = onnx.GraphProto(name="net")
        self.rng = np.random.default_rng(seed)
        self.kind, self.inputs = kind, {}
        self.dtype = helper.tensor_dtype_to_np_dtype(kind)
        self.input("x", *shape)

    def input(self, name: str, *shape: int | str) -> str:
        self.graph.input.append(helper.make_tensor_value_info(name, self.kind, shape))
        self.inputs[name] = shape
        return name

    def const(self, values: np.ndarray, name: str = "") -> str:
        name = name or f"k{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def random(self, *shape: int, scale: float = 1.0, name: str = "") -> str:
        return self.const((self.rng.standard_normal(shape) * scale).astype(self.dtype), name)

    def add(self, op: str, *inputs: str, **attributes: Any) -> str:
        name = f"{op.lower()}{len(self.graph.node)}"
        self.graph.node.append(helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def conv(self, x: str, cin: int, cout: int, *kernel: int, bias: bool = True, **attributes: Any) -> str:
        groups = int(attributes.get("group", 1))
        terms = cin // groups * int(np.prod(kernel))
        w = self.random(cout, cin // groups, *kernel, scale=terms**-0.5)
        more = [self.random(cout, scale=0.3)] if bias else []
        return self.add("Conv", x, w, *more, **attributes)

    def model(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        self.graph.output.extend(onnx.ValueInfoProto(name=name) for name in outputs)
        opsets = [helper.make_opsetid("", opset)]
        return onnx.shape_inference.infer_shapes(
            helper.make_model(self.graph, opset_imports=opsets, ir_version=8)
        )


def draft_of(model: Model, plan: QuantPlan, feeds: list[Feeds], *steps: str, crop: float = 0.6) -> Draft:
    """Ranges that cut something off, so that means are wrong."""
    names = plan.measured
    proto = runnable_part(model.to_proto())[0]
    given = {*(info.name for info in proto.graph.input), *(o for n in proto.graph.node for o in n.output)}
    inputs = [name for name in names if name in {info.name for info in proto.graph.input}]
    made = [name for name in names if name not in inputs and name in given]
    del proto.graph.output[:]
    proto.graph.output.extend(onnx.ValueInfoProto(name=name) for name in made)
    amax = dict.fromkeys(names, 1e-3)
    session = ort.load(proto, threads=1) if made else None
    for one in feeds:
        values = dict(zip(made, session.run(one, made), strict=True)) if session is not None else {}
        for name in given.intersection(names):
            value = values[name] if name in values else one[name]
            amax[name] = max(amax[name], float(np.abs(value).max(initial=0)) * crop)
    return Draft(plan, ranges(amax), fitted=frozenset(steps))


class Case:
    """A model, its plan, samples."""

    def __init__(self, net: Net | onnx.ModelProto, *outputs: str, samples: int = 6, **sizes: Any) -> None:
        proto = net.model(*outputs) if isinstance(net, Net) else net
        self.model = Model.open(proto)
        self.plan = make_plan(self.model, RULES)
        rng = np.random.default_rng(1)
        self.feeds: list[Feeds] = []
        for sample in range(samples):
            one = {}
            for fed in self.model.inputs:
                assert fed.dtype is not None
                size = [
                    d if isinstance(d, int) else sizes[d][sample % len(sizes[d])] for d in fed.shape or ()
                ]
                one[fed.name] = (rng.standard_normal(size) + 0.4).astype(fed.dtype)
            self.feeds.append(one)
        self.draft = draft_of(self.model, self.plan, self.feeds, "bias", "gptq")

    def fitter(self, **options: Any) -> Fitter:
        return Fitter(self.model, self.plan, lambda: iter(self.feeds), **{"threads": 1, **options})

    def fit(self, *steps: str, **options: Any) -> Fitted:
        with self.fitter(**options) as fitter:
            chosen = frozenset(steps) or self.draft.fitted
            return fitter.fit(self.model, {}, replace(self.draft, fitted=chosen))

    def file(self, patches: Patches) -> onnx.ModelProto:
        return insert(self.model, self.draft.plan, self.draft.scales, patches).model.to_proto()

    def run(self, proto: onnx.ModelProto, *tensors: str) -> list[list[np.ndarray]]:
        copy = onnx.ModelProto()
        copy.CopyFrom(proto)
        if tensors:
            del copy.graph.output[:]
            copy.graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)
        session = ort.load(copy, threads=1, part=True)
        return [session.run(one) for one in self.feeds]


@pytest.fixture
def streamed(monkeypatch: pytest.MonkeyPatch) -> list[list[list[np.ndarray]]]:
    """The outputs that streams have at their ends."""
    ends: list[list[list[np.ndarray]]] = []
    close = Stream.close

    def last(self: Stream) -> None:
        ends.append([self.outputs(sample) for sample in range(self.samples)])
        close(self)

    monkeypatch.setattr(fits, "Stream", functools.partial(Stream, outputs=True))
    monkeypatch.setattr(Stream, "close", last)
    return ends


def residual_net(**options: Any) -> Net:
    """Convolutions of several forms, two branches, a depthwise one, a linear end."""
    net = Net(2, 16, 9, 8, **options)
    a = net.add("Relu", net.conv("x", 16, 32, 3, 3, pads=[1, 0, 2, 1], strides=[2, 1]))
    b = net.add("Clip", net.conv(a, 32, 32, 1, 1), net.const(np.array(0, net.dtype)),
                net.const(np.array(1.5, net.dtype)))  # fmt: skip
    c = net.conv(a, 32, 32, 3, 3, group=32, pads=[1] * 4)
    d = net.conv(net.add("Add", b, c), 32, 16, 3, 3, group=1, auto_pad="SAME_LOWER", bias=False)
    e = net.add("Mul", d, net.add("Sigmoid", d))
    f = net.add("Concat", e, net.conv(a, 32, 16, 3, 3, dilations=[2, 1], pads=[2, 1, 2, 1]), axis=1)
    pool = net.add("GlobalAveragePool", net.add("Relu", net.conv(f, 32, 48, 1, 1)))
    net.add("Flatten", pool)
    return net


def last_of(net: Net) -> str:
    return str(net.graph.node[-1].output[0])


@pytest.mark.parametrize("steps", [("bias",), ("gptq",), ("bias", "gptq")], ids="+".join)
def test_the_file_gives_what_the_stream_had(streamed: list[Any], steps: tuple[str, ...]) -> None:
    net = residual_net()
    case = Case(net, last_of(net))
    found = case.fit(*steps)
    (ends,) = streamed
    for ours, theirs in zip(ends, case.run(case.file(found.patches)), strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5, atol=2e-5)
    assert found.changed["biases"] == (5 if "bias" in steps else 0)
    assert (found.changed["codes"] > 100) == ("gptq" in steps)
    assert found.skipped == {}
    before, after = (case.run(case.file(p)) for p in (case.draft.patches, found.patches))
    assert [a[0].tobytes() for a in before] != [a[0].tobytes() for a in after]


def layer_nets() -> Iterator[tuple[str, Net, str]]:
    """Nets of one layer that is fitted: what they are, the net, the tensor that its sums are."""
    forms: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
        "1-D": ((3,), {"pads": [1, 1]}),
        "2-D": ((3, 3), {"pads": [1, 1, 0, 2], "strides": [2, 2]}),
        "same": ((3, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
        "3-D": ((2, 3, 1), {"dilations": [1, 2, 1], "pads": [0, 1, 0, 1, 1, 0]}),
    }
    for name, (kernel, attributes) in forms.items():
        net = Net(2, 16, *[8, 7, 9][: len(kernel)])
        yield name, net, net.conv("x", 16, 32, *kernel, **attributes)
    net = Net(1, 32, 8, 8)
    yield "groups", net, net.conv("x", 32, 64, 3, 3, group=2)
    net = Net(32, 24)
    yield "Gemm", net, net.add("Gemm", "x", net.random(24, 16), net.random(16))
    net = Net(32, 24)
    yield (
        "Gemm transB",
        net,
        net.add("Gemm", "x", net.random(16, 24), net.random(1, 16), transB=1, alpha=0.5, beta=2.0),
    )
    net = Net(24, 32)
    yield "Gemm transA", net, net.add("Gemm", "x", net.random(24, 16), transA=1)
    for rank, shape in enumerate([(32, 24), (2, 16, 24), (2, 3, 16, 24)], 2):
        net = Net(*shape)
        product = net.add("MatMul", "x", net.random(24, 16))
        bias = net.random(*[1] * (rank - 2), 16)
        yield (
            f"MatMul of rank {rank}",
            net,
            net.add("Add", *((product, bias) if rank % 2 else (bias, product))),
        )


LAYERS = {name: (net, sums) for name, net, sums in layer_nets()}


@pytest.mark.parametrize("name", LAYERS)
def test_rows_are_those_of_the_layer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the fit multiplies, row by row, is what onnxruntime gives for the layer in the file."""
    net, sums = LAYERS[name]
    if not any(sums in node.input for node in net.graph.node):
        net.graph.output.append(onnx.ValueInfoProto(name=net.add("Tanh", sums)))
    case = Case(net.model() if not net.graph.output else net, *())
    taken: list[Any] = []
    real = fits.shifts

    def shifts(exact: Any, given: Any, activation: Any, samples: Any) -> Any:
        taken.append((np.concatenate(exact), np.concatenate(given)))
        assert [sum(counts) for counts in samples] == [len(part) for part in exact]
        assert {count for counts in samples for count in counts} == {len(taken[0][0]) // 6}  # of each sample
        return real(exact, given, activation)  # nothing is shrunk

    monkeypatch.setattr(fits, "shifts", shifts)
    found = case.fit("bias", "gptq", rows=100000)
    assert len(taken) == 1, found.skipped
    only_codes = Patches(codes=found.patches.codes)
    conv = next(node for node in net.graph.node if sums in node.output).op_type == "Conv"
    for ours, proto in zip(taken[0], (case.model.to_proto(), case.file(only_codes)), strict=True):
        values = [one[0] for one in case.run(proto, sums)]
        rows = [
            np.moveaxis(v, 1, -1).reshape(-1, v.shape[1]) if conv else v.reshape(-1, v.shape[-1])
            for v in values
        ]
        theirs = np.concatenate(rows)
        if ours is taken[0][1]:  # the mean that other codes moved is off already
            ours, theirs = ours - ours.mean(axis=0), theirs - theirs.mean(axis=0)
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)
    (bias,) = (*found.patches.biases.values(), *found.patches.constants.values())
    assert bias.size == taken[0][0].shape[1]
    after = np.concatenate([one[0].ravel() for one in case.run(case.file(found.patches))])
    floats, before = (
        np.concatenate([one[0].ravel() for one in case.run(p)])
        for p in (case.model.to_proto(), case.file(Patches()))
    )
    assert np.square(after - floats).sum() < np.square(before - floats).sum()


def test_means_behind_the_activation_are_those_of_the_float_model() -> None:
    net = residual_net()
    case = Case(net, last_of(net), samples=12)
    found = case.fit("bias", rows=100000)
    name = next(node.output[0] for node in net.graph.node if node.op_type == "Clip")
    protos = case.model.to_proto(), case.file(found.patches), case.file(Patches())
    exact, after, before = (np.stack([v[0].mean(axis=(0, 2, 3)) for v in case.run(p, name)]) for p in protos)
    chance = (before - exact).std(axis=0, ddof=1) / np.sqrt(12)
    left = np.abs((after - exact).mean(axis=0))
    assert (left < 1.2 * chance + 5e-4).all()
    assert np.abs((before - exact).mean(axis=0)).max() > 5e-3
    assert left.max() < 2e-3


def large_biases(*scales: float) -> Case:
    """Two layers, a mean over positions; their biases are far larger than what is added to them."""
    net, last = Net(1, 16, 12, 12), "x"
    for place, scale in enumerate(scales, 1):
        bias = net.const((scale * (10 + np.arange(16) / 7)).astype(np.float32))
        last = net.add("Conv", last, net.random(16, 16, 1, 1, scale=0.3), bias)
        last = net.add("Relu" if place < len(scales) else "GlobalAveragePool", last)
    return Case(net, last, samples=12)


@pytest.mark.parametrize(
    ("kind", "scales", "held"),
    [
        ("fp16", (0.1, 0.1), [True, True]),
        ("fp16", (1.0, 30.0, 0.1), [True, True, True]),
        ("fp16", (1.0, 30.0), [True, False]),  # of the last layer nothing makes up for it
        ("fp16", (10.0, 0.1), [False, True]),  # too much for the layers behind, too
        ("fp16", (100.0, 0.1), [False, True]),
        ("bf16", (10.0, 100.0), [False, False]),
        (None, (0.1, 0.1), [False, False]),
    ],
)
def test_biases_are_such_as_the_body_holds_where_that_loses_little(
    kind: Kind | None, scales: tuple[float, ...], held: list[bool]
) -> None:
    case = large_biases(*scales)
    case.draft = replace(case.draft, body=BodyPlan(kind))
    found = case.fit("bias")
    biases = [found.patches.biases[f"conv{2 * place}"] for place in range(len(scales))]
    assert [bool((one.astype(DTYPES[kind or "fp16"]) == one).all()) for one in biases] == held


def past_the_last(what: str) -> Case:
    """A layer whose bias is large, and of which something reaches an output past all fitted layers."""
    net = Net(1, 64, 12, 12)
    weights = (net.rng.standard_normal((16, 64, 1, 1)) * 0.3 + 0.3).astype(np.float32)
    bias = net.const((-1.2 * weights.sum((1, 2, 3))).astype(np.float32))
    first = net.add("Conv", "x", net.const(weights), bias)
    outputs = []
    if what == "no bias":
        rows = net.add(
            "Reshape", net.add("Transpose", first, perm=[0, 2, 3, 1]), net.const(np.array([144, 16]))
        )
        last = net.add("MatMul", rows, net.random(16, 16, scale=0.3))
        outputs.append(net.add("ReduceMean", last, axes=[0]))
    else:
        other = net.conv(net.add("Tanh", first) if what == "output" else first, 16, 16, 1, 1)
        if what == "sum":
            other = net.add("Add", first, other)
        elif what == "output":
            outputs.append(net.add("GlobalAveragePool", first))
        outputs.append(net.add("GlobalAveragePool", other))
    return Case(net, *outputs, samples=16)


@pytest.mark.parametrize(
    ("what", "held"), [("", True), ("output", False), ("sum", False), ("no bias", False)]
)
def test_what_reaches_an_output_past_all_fits_loses_as_little_as_what_a_last_layer_gives(
    what: str, held: bool
) -> None:
    case = past_the_last(what)
    case.draft = replace(case.draft, body=BodyPlan("fp16"))
    bias = case.fit("bias").patches.biases["conv0"]
    assert bool((bias.astype(np.float16) == bias).all()) == held


def test_biases_that_the_body_does_not_reach_stay() -> None:
    case = large_biases(1e4, 0.1)
    case.draft = replace(case.draft, body=BodyPlan("fp16"))
    with np.errstate(over="raise"):
        biases = case.fit("bias").patches.biases
    assert np.abs(biases["conv0"]).max() > 1e5
    assert np.isfinite(biases["conv0"]).all()


@pytest.mark.parametrize("option", [{}, {"budget_bytes": 0}], ids=["memory", "files"])
def test_any_number_of_threads_and_any_memory_give_the_same_bits(option: dict[str, int]) -> None:
    net = residual_net()
    case = Case(net, last_of(net), samples=9)
    one, two = case.fit(threads=1), case.fit(threads=2, **option)
    for kind in ("constants", "biases", "codes"):
        ours, theirs = getattr(one.patches, kind), getattr(two.patches, kind)
        assert {k: v.tobytes() for k, v in ours.items()} == {k: v.tobytes() for k, v in theirs.items()}
    assert one.changed == two.changed


def test_each_sample_runs_twice_and_files_go(monkeypatch: pytest.MonkeyPatch) -> None:
    net = residual_net()
    case = Case(net, last_of(net))
    with case.fitter(budget_bytes=0) as fitter:
        fitter.fit(case.model, {}, case.draft)
        assert fitter._spill.filed > 0
        assert fitter._spill._file is not None
        file = fitter._spill._file.path
        runs = fitter.runs
        fitter.fit(case.model, {}, case.draft)
        assert (runs, fitter.runs) == (12, 18)
        assert not [key for key in fitter._spill._held if key[0] is Stream]  # type: ignore[index]
    assert not file.parent.exists()


def test_sizes_that_differ_from_sample_to_sample(streamed: list[Any]) -> None:
    net = Net("n", 16, "h", "w")
    a = net.add("Relu", net.conv("x", 16, 32, 3, 3))
    b = net.add("Resize", a, "", net.const(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    c = net.add("Relu", net.conv(b, 32, 16, 3, 3, pads=[1] * 4))
    case = Case(net, c, samples=7, n=[1, 2, 3], h=[6, 9, 4], w=[5, 30])
    found = case.fit(rows=500)
    assert found.changed["biases"] == 2
    assert found.skipped == {}
    floats, before, after = (
        np.concatenate([one[0].ravel() for one in case.run(p)])
        for p in (case.model.to_proto(), case.file(Patches()), case.file(found.patches))
    )
    assert np.square(after - floats).sum() < np.square(before - floats).sum()
    np.testing.assert_allclose(np.concatenate([one[0].ravel() for one in streamed[0]]), after, atol=2e-5)


@pytest.mark.parametrize("channels", [16, 32])
def test_rows_are_as_many_however_many_products_are_summed(channels: int) -> None:
    net = Net(1, channels, 72, 72)
    case = Case(net, net.add("Relu", net.conv("x", channels, 16, 3, 3, pads=[1] * 4)), samples=4)
    assert case.fit("bias", "gptq").rows == 4096


def test_what_is_missed_beside_large_means_is_not_lost() -> None:
    """Inputs vary by half a step: float32 sums of what is aimed at have next to nothing of what is missed."""
    net = Net(1, 32, 24, 24)
    weights = (net.rng.standard_normal((32, 32, 3, 3)) + 1) / np.sqrt(32 * 9)
    case = Case(net, net.add("Conv", "x", net.const(weights.astype(np.float32)), pads=[0] * 4), samples=16)
    rng = np.random.default_rng(9)
    mix = rng.standard_normal((6, 32))

    def drawn() -> list[Feeds]:
        few = np.einsum("kc,skhw->schw", mix, rng.standard_normal((16, 6, 24, 24))) / np.sqrt(6)
        values = 1 + 0.005 * (0.95 * few + 0.3 * rng.standard_normal(few.shape))
        return [{"x": one[None].astype(np.float32)} for one in values]

    case.feeds = drawn()
    case.draft = draft_of(case.model, case.plan, case.feeds, "bias", "gptq", crop=1.0)
    found = [case.fit("bias"), case.fit("bias", "gptq")]
    case.feeds = drawn()
    floats, *ours = (
        np.stack([one[0] for one in case.run(proto)])
        for proto in (case.model.to_proto(), *(case.file(one.patches) for one in found))
    )
    noise = [float(np.square(one - floats).sum()) for one in ours]
    assert 10 * np.log10(noise[0] / noise[1]) > 9.5  # dB


def test_the_mean_that_other_codes_move_is_taken_off_whatever_it_is() -> None:
    """Inputs that hardly vary about a mean: what their codes move the mean by is many times what varies."""
    net = Net(512, 32)
    case = Case(net, net.add("Relu", net.add("Gemm", "x", net.random(32, 16, scale=0.2), net.random(16))))
    rng = np.random.default_rng(3)
    for one in case.feeds:
        one["x"] = (3 + 0.02 * rng.standard_normal((512, 32))).astype(np.float32)
        one["x"][:, :4] += rng.standard_normal((512, 4)).astype(np.float32)
    case.draft = draft_of(case.model, case.plan, case.feeds, "bias", "gptq", crop=0.7)
    (gemm,) = (node.output[0] for node in net.graph.node if node.op_type == "Gemm")
    found = case.fit("bias", "gptq")
    exact, given = (
        np.concatenate([one[0] for one in case.run(proto, gemm)])
        for proto in (case.model.to_proto(), case.file(found.patches))
    )
    passed = exact.mean(0) > 3 * exact.std(0)  # of the others the Relu leaves nothing to tell
    off = np.abs(given.mean(0) - exact.mean(0))[passed]
    assert passed.any()
    assert (off < 0.05 * exact.std(0)[passed]).all()


def test_several_inputs_and_shared_weights() -> None:
    net = Net(1, 16, 8, 8)
    net.input("other", 1, 16, 8, 8)
    w = net.random(16, 16, 3, 3, scale=0.1)
    a = net.add("Relu", net.add("Conv", "x", w, pads=[1] * 4))
    b = net.add("Relu", net.add("Conv", "other", w, pads=[1] * 4))
    c = net.conv(net.add("Concat", a, b, axis=1), 32, 16, 1, 1)
    case = Case(net, c)
    found = case.fit()
    assert len(found.patches.biases) == 3
    assert len(found.patches.codes) == 1
    assert sorted(found.skipped.values()) == ["another layer has the same weights"] * 2


def test_what_cannot_be_fitted_says_why() -> None:
    net = Net(2, 16, 24)
    a = net.add("MatMul", "x", net.random(24, 32))  # no bias
    b = net.add("Add", net.add("MatMul", a, net.random(32, 32)), net.random(16, 32))  # one a row
    shared = net.random(48)
    c = net.add("Add", net.add("MatMul", b, net.random(32, 48)), shared)
    d = net.add("Add", net.add("MatMul", net.add("Tanh", c), net.random(48, 48)), shared)
    case = Case(net, d)
    found = case.fit()
    assert len(found.patches.codes) == 4
    assert not found.patches.biases
    assert sorted(found.skipped.values()) == [
        "it has no bias",
        "its bias is not one number a channel",
        *["its bias is read by others, too"] * 2,
    ]


def test_too_many_terms_and_too_few_rows() -> None:
    net = Net(32, 64)
    y = net.add("Gemm", net.add("Relu", net.add("Gemm", "x", net.random(64, 32))), net.random(32, 16))
    case = Case(net, y, samples=2)
    found = case.fit(most_terms=40)
    assert len(found.patches.codes) == 1
    assert len(found.patches.biases) == 2
    assert list(found.skipped.values()) == ["64 products are summed for one output: too many for gptq"]
    net = Net("n", 64)
    few = Case(net, net.add("Gemm", "x", net.random(64, 32)), samples=3, n=[5])
    found = few.fit()
    assert list(found.skipped.values()) == ["15 rows: too few to fit it"]
    assert not found.patches.biases


@pytest.mark.parametrize("zero", [np.uint8(100), np.uint8(0), np.int8(0), np.int8(-3)])
def test_pairs_that_the_model_has(streamed: list[Any], zero: np.generic) -> None:
    """What is padded is 0, not the code 0."""
    net = Net(1, 16, 8, 8)
    scale, point = net.const(np.array(0.03, np.float32)), net.const(np.array(zero))
    codes = net.add("QuantizeLinear", net.add("Relu", net.conv("x", 16, 16, 3, 3)), scale, point)
    y = net.conv(net.add("DequantizeLinear", codes, scale, point), 16, 16, 3, 3, pads=[2] * 4)
    case = Case(net, net.add("Tanh", y))
    taken: list[Any] = []
    real = fits.shifts
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fits, "shifts", lambda *given: taken.append(given) or real(*given))
        found = case.fit("bias", rows=100000)
    assert found.changed["biases"] == 2
    only_first = {name: v for name, v in found.patches.biases.items() if name != y}
    rows = [
        one[0].transpose(0, 2, 3, 1).reshape(-1, 16)
        for one in case.run(case.file(Patches(biases=only_first)), y)
    ]
    np.testing.assert_allclose(np.concatenate(taken[1][1]), np.concatenate(rows), rtol=1e-5, atol=1e-5)
    for ours, theirs in zip(streamed[0], case.run(case.file(found.patches)), strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=2e-5, atol=2e-5)


def test_a_branch_that_samples_do_not_reach() -> None:
    """A layer inside of an If has no rows; those outside are fitted."""
    net = Net(1, 16, 8, 8)
    a = net.add("Relu", net.conv("x", 16, 32, 3, 3))
    total = net.add("ReduceSum", a, keepdims=0)
    condition = net.add("Greater", total, net.const(np.array(1e9, np.float32)))
    inner = Net(1)
    inner.graph.node.add()  # names of its own
    y = inner.conv(a, 32, 16, 1, 1)
    del inner.graph.node[0]
    inner.graph.node[0].name = inner.graph.node[0].output[0] = y = "then"
    then = helper.make_graph(
        inner.graph.node, "then", [], [onnx.ValueInfoProto(name=y)], inner.graph.initializer
    )
    then.output[0].type.tensor_type.elem_type = TensorProto.FLOAT
    other = helper.make_node("Conv", [a, net.random(16, 32, 1, 1)], ["other"], name="else_conv")
    otherwise = helper.make_graph([other], "else", [], [helper.make_tensor_value_info("other", 1, None)])
    z = net.add("If", condition, then_branch=then, else_branch=otherwise)
    case = Case(net, z)
    found = case.fit()
    assert len(found.patches.biases) == 1
    assert np.isfinite(case.run(case.file(found.patches))[0][0]).all()


def test_a_model_of_which_only_a_part_runs() -> None:
    net = Net(1, 16, 8, 8)
    a = net.add("Relu", net.conv("x", 16, 32, 3, 3))
    b = net.add("Unheard", a, domain="of.nobody")
    net.conv(b, 32, 32, 1, 1)
    proto = helper.make_model(
        net.graph,
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("of.nobody", 1)],
        ir_version=8,
    )
    proto.graph.output.append(helper.make_tensor_value_info(last_of(net), TensorProto.FLOAT, [1, 32, 6, 6]))
    case = Case(proto)
    found = case.fit(runnable=lambda whole: runnable_part(whole)[0])
    assert len(found.patches.biases) == 1
    assert set(found.skipped.values()) <= {"onnxruntime does not run it"}


def test_half_precision(streamed: list[Any]) -> None:
    net = residual_net(kind=TensorProto.FLOAT16)
    case = Case(net, last_of(net))
    found = case.fit()
    assert found.changed["biases"] == 5
    assert {v.dtype for v in found.patches.biases.values()} == {np.dtype(np.float16)}
    for ours, theirs in zip(streamed[0], case.run(case.file(found.patches)), strict=True):
        np.testing.assert_allclose(ours[0], theirs[0], rtol=5e-3, atol=5e-3)


def test_an_edited_model_is_fitted_to_mapped_rows() -> None:
    """A bias that is lower by 1 in front of Max(x, -1): what comes out is that of a Relu, less 1."""
    net = Net(1, 16, 8, 8)
    y = net.conv("x", 16, 32, 3, 3)
    z = net.conv(net.add("Relu", y), 32, 16, 1, 1)
    case = Case(net, z)
    bias = net.graph.initializer[1]
    bias.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(bias) - 1, bias.name))
    net.graph.node[1].op_type = "Max"
    net.graph.node[1].input.append(net.const(np.array(-1, np.float32), "low"))
    del net.graph.output[:]
    model = Model.open(net.model(z))
    with case.fitter(rows=100000) as fitter:
        draft = replace(case.draft, fitted=frozenset({"bias"}))
        plain = fitter.fit(case.model, {}, draft)
        found = fitter.fit(model, {y: ChannelMap.of(1, -1)}, draft)
        assert fitter.runs == 3 * len(case.feeds)
    first = next(node.name for node in net.graph.node)
    np.testing.assert_allclose(found.patches.biases[first], plain.patches.biases[first] - 1, atol=2e-3)


def test_no_samples_and_others_than_before() -> None:
    net = residual_net()
    case = Case(net, last_of(net))
    every, case.feeds = case.feeds, []
    found = case.fit()
    assert set(found.skipped.values()) == {"there are no samples"}
    assert found.patches == Patches()
    case.feeds = every
    with case.fitter() as fitter:
        fitter.fit(case.model, {}, case.draft)
        case.feeds = every[:3]
        with pytest.raises(Fault, match="6 samples, and now 3"):
            fitter.fit(case.model, {}, case.draft)
        case.feeds = every
        again = fitter.fit(case.model, {}, case.draft)
    assert {k: v.tobytes() for k, v in again.patches.codes.items()} == {
        k: v.tobytes() for k, v in case.fit().patches.codes.items()
    }


def test_ends_of_channels() -> None:
    net = residual_net()
    case = Case(net, last_of(net))
    name = next(node.output[0] for node in net.graph.node if node.op_type == "Concat")
    with case.fitter(ends={name: 1, "x": 1, last_of(net): -1}) as fitter:
        ends = fitter.channels
        assert fitter.runs == len(case.feeds)
    for tensor, axis in ((name, 1), (last_of(net), 1)):
        values = np.stack([one[0] for one in case.run(case.model.to_proto(), tensor)])
        others = tuple(a for a in range(values.ndim) if a != axis + 1)
        np.testing.assert_allclose(ends[tensor].low, values.min(axis=others), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(ends[tensor].high, values.max(axis=others), rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(
        ends["x"].amax, np.stack([f["x"] for f in case.feeds]).__abs__().max((0, 1, 3, 4))
    )


def test_patches_of_the_draft_stay() -> None:
    net = residual_net()
    case = Case(net, last_of(net))
    first = case.model.graph.nodes[0]
    weight = str(first.inputs[1].name)
    given = Patches(
        biases={first.name: np.full(32, 0.25, np.float32)}, amax={(weight, 0): np.full(32, 0.1, np.float32)}
    )
    case.draft = Draft(case.draft.plan, case.draft.ranges, patches=given, fitted=frozenset({"bias"}))
    found = case.fit().patches
    assert found.amax == given.amax
    assert np.abs(found.biases[first.name] - 0.25).max() > 1e-3
    none = case.fit("none").patches
    np.testing.assert_array_equal(none.biases[first.name], 0.25)
    assert not none.codes

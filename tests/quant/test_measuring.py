"""A measuring copy gives what the file of each candidate gives, bit for bit where nothing is optimized."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import onnx
import pytest
from grid_nets import Net
from test_compiled import NETS
from test_insert import branches
from test_own_pairs import pair

import onnxq
from onnxq.base.errors import UserError
from onnxq.base.reason import Reason
from onnxq.graph.model import Model
from onnxq.quant.insert import insert
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import QuantPlan
from onnxq.quant.wants import left_float
from onnxq.rule.load import load_rules
from onnxq.run import ort

RULES = load_rules(())
WHY = Reason("test", "of this test")


def random_net(seed: int) -> onnx.ModelProto:
    """Convolutions, groups, residual adds, concatenations that share scales, own pairs, products."""
    rng = np.random.default_rng(seed)
    net = Net(1, 16, 8, 8)
    known = ["x"]

    def any_one() -> str:
        return known[rng.integers(max(0, len(known) - 3), len(known))]

    for number in range(int(rng.integers(4, 9))):
        kind = rng.choice(["conv", "groups", "add", "concat", "pool", "own", "relu", "gate"])
        x = any_one()
        if kind == "conv":
            new = net.conv(x, 16, 16, *rng.choice([(1, 1), (3, 3)]), seed=number)
        elif kind == "groups":
            weight = net.const(net.weights(16, 4, 3, 3, seed=number))
            new = net.add("Conv", x, weight, group=4, pads=[1] * 4)
        elif kind == "add":
            new = net.add("Add", net.conv(x, 16, 16, 3, 3, seed=number), any_one())
        elif kind == "concat":
            new = net.conv(net.add("Concat", x, any_one(), axis=1), 32, 16, 1, 1, seed=number)
        elif kind == "pool":
            new = net.add("MaxPool", x, kernel_shape=[3, 3], pads=[1] * 4)
        elif kind == "own":
            new = net.conv(pair(net, x, 0.1), 16, 16, 1, 1, seed=number)
        elif kind == "relu":
            new = net.add("Relu", x)
        else:
            new = net.add("Mul", x, net.add("Sigmoid", any_one()))
        known.append(new)
    last = net.conv(known[-1], 16, 32, 1, 1, seed=99)
    rows = net.add("Flatten", net.add("GlobalAveragePool", last))
    flat = net.add("Gemm", rows, net.const(net.weights(32, 16, seed=3)))
    return net.model(flat, known[len(known) // 2])


class Case:
    """A model, its plan, and candidates."""

    def __init__(self, proto: onnx.ModelProto, seed: int = 0) -> None:
        self.model = Model.open(proto)
        self.plan = make_plan(self.model, RULES)
        self.rng = np.random.default_rng(seed)
        used = {site.group for site in self.plan.sites if site.kind == "activation"}
        self.scales = {group: np.float32(self.rng.uniform(0.01, 0.1)) for group in sorted(used)}

    def feeds(self) -> dict[str, np.ndarray]:
        found = {}
        for one in self.model.inputs:
            size = [dim if isinstance(dim, int) else 2 for dim in one.shape or ()]
            assert one.dtype is not None
            whole = one.dtype.kind not in "f"
            values = self.rng.integers(0, 2, size) if whole else self.rng.standard_normal(size)
            found[one.name] = values.astype(one.dtype)
        return found

    def candidates(self, count: int) -> Iterator[Candidate]:
        yield Candidate()
        layers = [layer for layer in self.plan.planned if layer in self.plan.readers]
        yield Candidate(layers)
        for _ in range(count):
            some = [layer for layer in layers if self.rng.random() < 0.4]
            scales = {
                group: np.float32(self.rng.uniform(0.01, 0.1))
                for group in self.scales
                if self.rng.random() < 0.3
            }
            yield Candidate(some, (), scales)
            yield Candidate(scales=scales)

    def file(self, candidate: Candidate) -> onnx.ModelProto:
        """What is written for a candidate."""
        plan, ops = self.plan, {node.name: node.op for node in self.model.graph.nodes}
        plan = left_float(plan, dict.fromkeys(candidate.float_layers, WHY), ops)
        return insert(self.model, plan, {**self.scales, **candidate.scales}).model.to_proto()


MODELS = {
    **NETS,
    "branches": branches,
    **{f"random {seed}": lambda seed=seed: random_net(seed) for seed in range(12)},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_candidate_gives_what_its_file_gives(name: str) -> None:
    case = Case(MODELS[name]())
    assert case.plan.sites
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, optimize=False)
    candidates = list(case.candidates(5))
    files = [ort.load(case.file(one), optimize=False) for one in candidates]
    seen = set()
    for _ in range(2):
        feeds = case.feeds()
        found = copy.run_each(feeds, candidates)
        for ours, file in zip(found, files, strict=True):
            theirs = file.run({name: feeds[name] for name in file.inputs}, copy.outputs)
            assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]
            seen.add(b"".join(a.tobytes() for a in ours))
    assert len(seen) > 2


@pytest.mark.parametrize("name", ["random 0", "random 1", "random 2"])
@pytest.mark.parametrize("pieces", [1, 2, 3, None])
def test_in_any_number_of_pieces_it_is_the_same(name: str, pieces: int | None) -> None:
    case = Case(MODELS[name]())
    inserted = insert(case.model, case.plan, case.scales)
    quantized, floats = inserted.model.to_proto(), case.model.to_proto()
    copy = MeasuringCopy(inserted, case.plan, quantized, floats, optimize=False, pieces=pieces)
    whole = MeasuringCopy(inserted, case.plan, quantized, floats, optimize=False)
    feeds, candidates = case.feeds(), list(case.candidates(4))
    for ours, theirs in zip(copy.run_each(feeds, candidates), whole.run_each(feeds, candidates), strict=True):
        assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]


def test_the_order_of_candidates_does_not_matter() -> None:
    case = Case(random_net(3))
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, optimize=False)
    feeds, candidates = case.feeds(), list(case.candidates(6))
    together = copy.run_each(feeds, candidates)
    alone = [copy.run_each(feeds, [one])[0] for one in reversed(candidates)][::-1]
    for ours, theirs in zip(together, alone, strict=True):
        assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]


def test_what_a_candidate_does_not_change_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(1, 16, 8, 8)
    x = "x"
    for number in range(6):
        x = net.add("Relu", net.conv(x, 16, 16, 3, 3, seed=number))
    case = Case(net.model(x))
    copy = MeasuringCopy.of(case.model, case.plan, case.scales)
    runs = []
    run_values = ort.Session.run_values

    def counted(self: ort.Session, *arguments: object) -> list[object]:
        runs.append(self)
        return run_values(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(ort.Session, "run_values", counted)
    copy.run_each(case.feeds(), [Candidate(scales={g: np.float32(0.5)}) for g in case.scales] + [Candidate()])
    assert len(case.scales) == 6
    assert len(runs) == 6 + (1 + 2 + 3 + 4 + 5 + 6)


def test_a_site_without_readers_is_off() -> None:
    case = Case(random_net(0))
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, optimize=False)
    feeds = case.feeds()
    every = [pair.tensor for pair in case.plan.pairs]
    (off, on) = copy.run_each(feeds, [Candidate(float_sites=every), Candidate()])
    as_float = ort.load(case.model.to_proto(), optimize=False).run(feeds, copy.outputs)
    assert [a.tobytes() for a in off] == [b.tobytes() for b in as_float] != [c.tobytes() for c in on]


def plan_and_copy() -> tuple[QuantPlan, MeasuringCopy]:
    case = Case(random_net(0))
    return case.plan, MeasuringCopy.of(case.model, case.plan, case.scales)


@pytest.mark.parametrize(
    ("candidate", "words"),
    [
        (Candidate(["conv_1"]), "conv_1"),
        (Candidate(float_sites=["nothing"]), "nothing"),
        (Candidate(scales={999: np.float32(1)}), "999"),
    ],
)
def test_what_the_plan_lacks_is_refused(candidate: Candidate, words: str) -> None:
    _, copy = plan_and_copy()
    with pytest.raises(UserError, match=words):
        copy.run_each(Case(random_net(0)).feeds(), [candidate])


SEQUENCES = """<ir_version: 8, opset_import: ["" : 17]>
    g (float[1, 16, 32] x, string[2] s) => (float[1, 16, 32] y, seq(float[1, 16, 32]) parts, string[2] t) {
        a = MatMul (x, w1)
        both = SequenceConstruct (a, x)
        first = SequenceAt (both, zero)
        b = MatMul (first, w2)
        parts = SequenceConstruct (a, b)
        y = MatMul (b, w3)
        t = Identity (s)
    }"""


def test_sequences_and_strings_are_handed_on() -> None:
    """A sequence has no type that a piece could be fed: it stays inside of one."""
    proto = onnx.parser.parse_model(SEQUENCES)
    rng = np.random.default_rng(0)
    for name in ("w1", "w2", "w3"):
        weights = rng.standard_normal((32, 32), np.float32)
        proto.graph.initializer.append(onnx.numpy_helper.from_array(weights, name))
    proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array(0), "zero"))
    case = Case(proto)
    feeds = {"x": rng.standard_normal((1, 16, 32), np.float32), "s": np.array(["one", "two"], object)}
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, optimize=False)
    candidates = list(case.candidates(3))
    assert len(case.plan.planned) == 3
    for ours, candidate in zip(copy.run_each(feeds, candidates), candidates, strict=True):
        theirs = ort.load(case.file(candidate), optimize=False).run(feeds)
        assert ours[0].tobytes() == theirs[0].tobytes()
        assert [a.tobytes() for a in ours[1]] == [b.tobytes() for b in theirs[1]]
        assert ours[2].tolist() == theirs[2].tolist() == ["one", "two"]


@pytest.mark.parametrize("ranked", [True, False])
def test_sizes_that_another_piece_computes(ranked: bool) -> None:
    """Those of a Resize, of a tensor whose rank the piece itself knows, or is told."""
    net = Net(1, 16, 8, 8)
    sizes = net.add("Mul", net.add("Shape", "x"), net.const(np.array([1, 1, 2, 2], np.int64)))
    x = net.conv(net.add("Relu", net.conv("x", 16, 16, 3, 3, seed=1)), 16, 16, 3, 3, seed=2)
    if ranked:
        x = net.add("Reshape", x, net.const(np.array([1, 16, 8, 8], np.int64)))
    x = net.add("Resize", x, "", "", sizes, mode="nearest")
    proto = net.model(net.conv(x, 16, 16, 3, 3, seed=3), opset=13)
    proto.graph.ClearField("value_info")
    case = Case(proto)
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, optimize=False)
    feeds, candidates = case.feeds(), list(case.candidates(3))
    assert len(case.plan.planned) == 3
    for (ours,), candidate in zip(copy.run_each(feeds, candidates), candidates, strict=True):
        (theirs,) = ort.load(case.file(candidate), optimize=False).run(feeds)
        assert ours.shape == (1, 16, 16, 16)
        assert ours.tobytes() == theirs.tobytes()


def test_half_precision() -> None:
    """Casts are around its pairs; a candidate is rounded after every node, as its file is."""
    wide = net_of_two()
    for tensor in wide.graph.initializer:
        values = onnx.numpy_helper.to_array(tensor).astype(np.float16)
        tensor.CopyFrom(onnx.numpy_helper.from_array(values, tensor.name))
    for info in (wide.graph.input[0], wide.graph.output[0]):
        info.type.tensor_type.elem_type = onnx.TensorProto.FLOAT16
    del wide.graph.value_info[:]
    case = Case(wide)
    assert len(case.plan.planned) == 2
    copy = MeasuringCopy.of(case.model, case.plan, case.scales, optimize=False)
    feeds = {"x": np.random.default_rng(0).standard_normal((1, 16, 8, 8)).astype(np.float16)}
    for candidate in case.candidates(3):
        theirs = ort.load(case.file(candidate), optimize=False).run(feeds)
        (ours,) = copy.run_each(feeds, [candidate])
        assert ours[0].tobytes() == theirs[0].tobytes()


def net_of_two() -> onnx.ModelProto:
    net = Net(1, 16, 8, 8)
    first = net.add("Relu", net.conv("x", 16, 16, 3, 3, seed=1))
    return net.model(net.add("Add", net.conv(first, 16, 16, 3, 3, seed=2), first))


def test_candidates_that_do_not_load_leave_the_method_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    load = ort.load

    def without_parts(*arguments: object, **options: object) -> ort.Session:
        if options.get("part"):
            raise ort.RunError("no parts today")
        return load(*arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(ort, "load", without_parts)
    rng = np.random.default_rng(0)
    data = [{"x": rng.standard_normal((1, 16, 8, 8), np.float32)} for _ in range(20)]
    result = onnxq.quantize(net_of_two(), data, compile=False)
    choice = result.report["calibration"]["choice"]
    assert "no parts today" in choice["why"]
    assert choice["method"] == "mse"
    assert result.report["accuracy"][0]["sqnr_db"] > 20

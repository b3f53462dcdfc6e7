"""There is one figure by which candidates are compared: whoever decides gives two of them the same order."""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from synthetic import alike, levels
from trees import FILES, PACKAGE, TREES

from onnxq.judge import policies
from onnxq.judge.about_mean import AboutMeanMeter
from onnxq.judge.acceptance import Gain, Levels, Policy, judged
from onnxq.noise.decisions import FloatDecision
from onnxq.pipeline.searches import bytes as fewer_bytes
from onnxq.pipeline.searches import formats, goal, joints, loud
from onnxq.quant.choice import choose
from onnxq.quant.plan import Joint
from onnxq.quant.thresholds import Method
from onnxq.repair.step_search import StepSearch, Version
from tests.quant.test_choice import HALF, MINMAX, TENTH, given, ranges_of

# -- by name ---------------------------------------------------------------------------------------

LOGARITHMS = {"log", "log2", "log10", "log1p"}
DECIBELS = {"power_db", "limited_db", "nsr_of", "sqnr_db"}

# Who takes logarithms, or makes decibels of powers, or the way back, outside of onnxq/judge, and what for.
ALLOWED = {
    "analysis/diff/rows.py": "octaves between two runs' scales, which are shown",
    "analysis/figures.py": "figures of layers, which are shown",
    "analysis/layerwise.py": "the sample that is shown as the worst",
    "analysis/weights.py": "the noise of each layer's weights, which is shown",
    "cli/pages/accuracy.py": "the order in which outputs are shown",
    "cli/pages/statistics.py": "octaves of histograms, which are shown",
    "data/first_norm.py": "how far inputs are from what a normalization was trained with",
    "emit/measure.py": "ratios of times, and how near an engine is to its file, on the device",
    "graph/unquantized.py": "bits that a range of a file's own pairs lacks",
    "inspection/measured_bundle.py": "times as predicted: what is proposed for them is measured",
    "noise/breakdown.py": "shares of the noise, which are shown",
    "noise/gram.py": "noise as predicted: what is proposed for it is measured",
    "noise/ranking.py": "likewise",
    "noise/search.py": "likewise, up to a goal of dB that the user sets",
    "pipeline/accuracy.py": "the level that a goal of dB is about, the body's noise added",
    "pipeline/layer_errors.py": "octaves of histograms, which are shown",
    "inspection/analyzing.py": "noise by layer, which is shown",
    "pipeline/preparation.py": "bits that answers tell of images: what is fed, not how near it is",
    "pipeline/repair_bench.py": "shares of the noise that tensors make alone: what is proposed is judged",
    "pipeline/searches/formats.py": "noise of a mix as predicted: what is proposed is judged",
    "pipeline/searches/loud.py": "noise without layers as predicted: likewise",
    "quant/entropy.py": "the method of that name",
    "quant/mse.py": "the method of that name, and which tensors' thresholds are tried",
    "quant/weights.py": "the noise of a layer's weights, which is shown",
    "repair/scale.py": "powers of two",
    "repair/smooth.py": "a geometric mean of factors",
    "repair/steps/residual.py": "a dB as a share of the noise",
    "repair/steps/split.py": "noise without tensors as predicted, beside bytes: what is proposed is judged",
    "rewrite/whole.py": "whether an edited float model is the same one",
    "rule/messages.py": "how rare words are",
    "run/compare.py": "outputs beside the float model's, in what is told at the end",
    "run/deployment.py": "sizes that are nearest to the median",
    "run/finding_parts.py": "which channels of an output have a scale of their own",
    "task/margins.py": "logits of scores, which margins are of",
    "task/numbers.py": "whether an image is kept, as a goal of its PSNR has it",
    "task/sureness.py": "how sure answers are: of what is fed",
}


def takes(node: ast.AST) -> bool:
    """Whether a node of the syntax takes a logarithm, or raises ten to a power."""
    match node:
        case ast.Attribute(value=ast.Name(id="np" | "numpy" | "math"), attr=name):
            return name in LOGARITHMS
        case ast.Call(func=ast.Name(id=name)):
            return name in LOGARITHMS | DECIBELS
        case ast.BinOp(left=ast.Constant(value=10), op=ast.Pow(), right=power):
            return not isinstance(power, ast.Constant)
    return False


def test_logarithms_of_powers_are_listed_with_why() -> None:
    """Whoever is new here does not decide by them: `judge/loss.py` is for that."""
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        if path.parent.name != "judge" and any(map(takes, ast.walk(TREES[path])))
    }
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "text", ["np.log(a / b)", "math.log10(x)", "10 ** (-db / 10)", "power_db(x)", "limited_db(x)", "10.0**x"]
)
def test_what_takes_a_logarithm_is_seen(text: str) -> None:
    assert any(map(takes, ast.walk(ast.parse(text))))
    assert not any(map(takes, ast.walk(ast.parse("self.log(x) + screen.log + 2 ** x + 10 ** 6 * x"))))


def test_losses_are_computed_in_one_place() -> None:
    """And are summed up by the meter alone."""
    asks = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Loss", "Loss.of")
    }
    assert asks == {"judge/loss.py", "judge/about_mean.py"}


# -- by value --------------------------------------------------------------------------------------


class Side(NamedTuple):
    """A candidate.

    Attributes:
        outputs: the SQNR of each output, dB.
        moved: by how much of their margins it moves the answers; None: that is not known.
    """

    outputs: Mapping[str, float]
    moved: float | None = None


class Pair(NamedTuple):
    """Two candidates, of which one is better."""

    worse: Side
    better: Side


def boxes(boxes: float, scores: float, moved: float | None = None) -> Side:
    return Side({"boxes": boxes, "scores": scores}, moved)


PAIRS = {
    "a YOLO": Pair(boxes(32.0, 1.6), boxes(21.8, 10.5)),  # in the mean of decibels the other one is better
    "rich, short of enough": Pair(boxes(29.0, 2.0), boxes(17.0, 10.0)),
    "rich beyond enough": Pair(boxes(60.0, 27.0), boxes(30.0, 28.0)),  # in that of ratios as well
    "answers": Pair(boxes(25.0, 25.0, 0.5), boxes(15.0, 15.0, 0.0)),  # by the outputs alone as well
}


def alike_of(sides: Sequence[Side], numbers: Sequence[int] = range(16)) -> list[AboutMeanMeter]:
    return alike([one.outputs for one in sides], _moved(sides), numbers)


def levels_of(*sides: Side) -> list[Levels]:
    return levels(*(one.outputs for one in sides), moved=_moved(sides))


def _moved(sides: Sequence[Side]) -> list[float]:
    return [one.moved for one in sides if one.moved is not None]


def below(*sides: Side) -> Side:
    """One that is worse than all of them, in each output and in the answers."""
    outputs = {name: min(one.outputs[name] for one in sides) - 3 for name in sides[0].outputs}
    return Side(outputs, max(_moved(sides)) + 0.1 if sides[0].moved is not None else None)


Place = Callable[[Side, Side], int]
"""What decides: which of two it takes, the one that is there or the other one, 0 or 1."""


def gain(there: Side, other: Side) -> int:
    return int(Gain.of(*levels_of(there, other)).db > 0)


def method(there: Side, other: Side) -> int:
    """The choice of methods: the prior, or another one."""
    return _method(MINMAX, {1000: there, 500: other})


def best_method(there: Side, other: Side) -> int:
    """Which of two is taken for a third one, the prior."""
    return _method(TENTH, {1000: there, 500: other, 100: below(there, other)})


def _method(prior: Method, sides: Mapping[int, Side]) -> int:
    methods = [MINMAX, HALF]
    found = choose(ranges_of(1), methods, given(16), by_scale(sides), prior=prior, refine=False)
    return methods.index(found.method)


def by_scale(sides: Mapping[int, Side]) -> Callable[..., list[AboutMeanMeter]]:
    """Measures candidates by the threshold of the first group, about."""

    def measure(samples: Iterable[Any], settings: Sequence[Mapping[int, np.float32]]) -> list[AboutMeanMeter]:
        numbers = [int(one["x"]) for one in samples]
        near = [min(sides, key=lambda amax: abs(float(one[0]) * 127 - amax)) for one in settings]
        return alike_of([sides[one] for one in near], numbers)

    return measure


def threshold(there: Side, other: Side) -> int:
    """A refinement: the threshold of a tensor as it is, or another one."""
    measure = of_first({1000: there, 500: other}, below(there, other))
    found = choose(ranges_of(20), [MINMAX, HALF], given(32), measure, prior=MINMAX)
    assert found.method == MINMAX
    assert {one.tensors for one in found.refined} <= {("t0",)}
    return len(found.refined)


def best_threshold(there: Side, other: Side) -> int:
    """Which of two other thresholds of a tensor is taken."""
    base = below(there, other)
    measure = of_first({1000: base, 100: there, 500: other}, below(base))
    found = choose(ranges_of(20), [MINMAX, TENTH, HALF], given(32), measure, prior=MINMAX)
    (taken,) = found.refined
    return [str(TENTH), str(HALF)].index(taken.method)


def of_first(sides: Mapping[int, Side], rest: Side) -> Callable[..., list[AboutMeanMeter]]:
    """Measures by the threshold of the first group, about; `rest`: where the second one has another one."""
    measure = by_scale({**sides, 0: rest})

    def first(samples: Iterable[Any], settings: Sequence[Mapping[int, np.float32]]) -> list[AboutMeanMeter]:
        return measure(samples, [one if one[1] * 127 > 990 else {0: np.float32(0)} for one in settings])

    return first


def step(there: Side, other: Side) -> int:
    """A step of repair, which is kept if it does not rob an output."""
    return int(judged(*levels_of(there, other), policies.STEP).gain_db > 0)


def best_of_several(there: Side, other: Side) -> int:
    """The best of a step's candidates."""
    none: Any = None
    versions = [Version(none, none, {}, heard=[alike_of([one])]) for one in (there, other)]
    search = StepSearch.__new__(StepSearch)
    return next(place for place, one in enumerate(versions) if one is search._best(versions))


def joint(there: Side, other: Side) -> int:
    """Which of two joint decisions is in float, as one of them is to be."""
    sides = {"a": there, "b": other, "": below(there, other)}

    def measure(sets: Sequence[Collection[str]]) -> list[Levels]:
        return levels_of(*(sides[[*floats, ""][0]] for floats in sets))

    found = joints.below_floor([Joint((name,), "one", tried=True) for name in "ab"], measure, lambda _: 1.0)
    assert found is not None
    (node,) = found
    return "ab".index(node)


class Looking(loud._Looking):
    """A look for what is loud that proposes two sets."""

    def __init__(self, there: Side, other: Side) -> None:
        self.sides, self.judged = (below(there, other), there, other), list[Any]()
        self._taken, self._heads = (), SimpleNamespace(loud=())  # type: ignore[assignment]
        self._sampling = SimpleNamespace(proposing=lambda: None)  # type: ignore[assignment]

    def _nested(self, view: Any) -> Any:
        return [(FloatDecision((name,)),) for name in "ab"]

    def _loud(self, view: Any) -> Any:
        return []

    def _price(self, tried: Any) -> float:
        return 0.0

    def _levels(self, sets: Any, *_: Any) -> list[Levels]:
        assert [len(one) for one in sets] == [0, 1, 1]
        return levels_of(*self.sides)

    def _judge(self, tried: Any, chosen: Gain, output: str, *, anew: bool) -> None:
        self.judged.append((tried[0].nodes[0], chosen.db))


def loud_set(there: Side, other: Side) -> int:
    """Which set of layers is proposed for float."""
    look, view = Looking(there, other), Any
    look._look(view, "")
    ((name, db),) = look.judged
    assert db > 0
    return "ab".index(name)


def loud_confirmed(there: Side, other: Side) -> int:
    """What such a set gains on samples that confirm."""
    found = loud._gain_of(*levels_of(there, other), "")
    assert found is not None
    return int(found.db > 0)


def format_alone(there: Side, other: Side) -> int:
    """Which number format is taken, where both move as many bytes."""
    none: Any = None
    first, second = (formats._Judged(none, one, 0.5) for one in levels_of(there, other))
    return int(first.gained_by(second) > 0)


def format_behind(there: Side, other: Side) -> int:
    """What is said of the one that is behind."""
    first, second = levels_of(there, other)
    one, best = (formats._Judged(named("int8"), side, 0.5) for side in (first, second))
    return int(" is +" in formats._behind(one, best))


def named(format: str) -> Any:
    """A run's state, of a plan all in one format."""
    draft = SimpleNamespace(plan=SimpleNamespace(format_names=format))
    return SimpleNamespace(built=SimpleNamespace(draft=draft))


def compiled_mix(there: Side, other: Side) -> int:
    """Whether a mix is left, once its engine is there: it moves as many bytes."""
    first, second = levels_of(there, other)
    about = [first.of_all, second.of_all]
    was, now = (
        formats.FormatTried(name, {}, one.sqnr_about_mean_db, one.worst_output_db, 0.5, "chosen", "")
        for name, one in zip(("int8", "mix"), about, strict=True)
    )
    alone = named("int8")
    tried = formats.FormatsTried((now, was), "")
    mix: Any = SimpleNamespace(alone=alone, formats=tried, mixed_db=Gain.of(first, second).db)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(formats, "searched", lambda *_: alone)
        patch.setattr(formats, "_moved", lambda _: SimpleNamespace(ratio=0.5))
        patch.setattr(formats, "_in_graph", lambda _: None)
        patch.setattr(formats, "replace", lambda one, **_: one)
        return int(formats._compiled(mix) is mix)  # type: ignore[arg-type]


def file_of_fewer_bytes(there: Side, other: Side) -> int:
    """Which of two files that move no more than float16 is nearer."""
    first, second = object(), object()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fewer_bytes, "_with_less_room", lambda *_: first)
        patch.setattr(fewer_bytes, "_with_half_body", lambda *_: second)
        patch.setattr(fewer_bytes, "_moves_more", lambda _: False)
        patch.setattr(fewer_bytes, "_is_as_near", lambda *_: False)
        patch.setattr(fewer_bytes, "_levels", lambda *_: levels_of(there, other))
        none: Any = None
        return [first, second].index(fewer_bytes._undone(none))


def half_alone(there: Side, other: Side) -> int:
    """Whether the file that moves too much is nearer than the same in half precision."""
    none: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fewer_bytes, "_levels", lambda *_: levels_of(there, other))
        return int(not fewer_bytes._is_as_near(none, none))


def dearer_set(there: Side, other: Side) -> int:
    """Whether more layers in float are surely nearer to a goal of dB."""
    search = goal._GoalSearch.__new__(goal._GoalSearch)
    search._pursuit = SimpleNamespace(bound=SimpleNamespace(agreement=None))  # type: ignore[assignment]
    search._aims = lambda *_: {"sqnr": 90.0}  # type: ignore[method-assign]
    accuracy: Any = SimpleNamespace(levels=lambda _: levels_of(there, other))
    return int(search._resolved(accuracy, [], []))


PLACES: tuple[Place, ...] = (
    gain, method, best_method, threshold, best_threshold, step, best_of_several, joint, loud_set,
    loud_confirmed, format_alone, format_behind, compiled_mix, file_of_fewer_bytes, half_alone,
    dearer_set,
)  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("place", PLACES, ids=lambda one: one.__name__)
def test_whoever_decides_has_the_same_order(place: Place, pair: str) -> None:
    worse, better = PAIRS[pair]
    assert place(worse, better) == 1, f"{place.__doc__} the worse one stays"
    assert place(better, worse) == 0, f"{place.__doc__} the worse one is taken"


POLICIES = ("STEP", "BEST_OF_SEVERAL", "MIXED", "INSTEAD_OF_PRIOR", "THRESHOLD", "TOGETHER")


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("policy", POLICIES)
def test_policies_take_the_better_one_and_not_the_worse(policy: str, pair: str) -> None:
    """Also those that ask what single outputs lose: next to nothing, or what is beyond enough."""
    worse, better = levels_of(*PAIRS[pair])
    asked: Policy = getattr(policies, policy)
    assert asked.refusal(Gain.of(worse, better)) == ""
    assert asked.refusal(Gain.of(better, worse))


def test_a_mix_is_refused_where_it_is_the_worse() -> None:
    none: Any = None
    for worse, better in PAIRS.values():
        one, other = (formats._Judged(none, side, 0.5) for side in levels_of(worse, better))
        assert formats._refused(other, one)


# Where two candidates are compared: who is new here belongs into PLACES.
COMPARES = {
    "quant/choice.py": {method, best_method, threshold, best_threshold},
    "repair/step_search.py": {step, best_of_several},
    "pipeline/searches/joints.py": {joint},
    "pipeline/searches/loud.py": {loud_set, loud_confirmed},
    "pipeline/searches/formats.py": {format_alone, format_behind, compiled_mix},
    "pipeline/searches/bytes.py": {file_of_fewer_bytes, half_alone},
    "pipeline/searches/goal.py": {dearer_set},
}
MEASURES_LEVELS = {
    "pipeline/accuracy.py": "of sets of layers in float, for those that search",
    "pipeline/gates.py": "their standard error, beside a goal",
    "pipeline/repair_bench.py": "whether an edited float model is the same one, and shares of noise",
}


def test_all_places_that_decide_are_asked() -> None:
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in FILES
        if path.parent.name != "judge" and _imports(path) & {"Gain", "Levels", "judged", "Loss"}
    }
    assert found == {*COMPARES, *MEASURES_LEVELS}
    assert functools.reduce(set.union, COMPARES.values(), {gain}) == {*PLACES}


def _imports(path: Path) -> set[str]:
    """What a file imports of what compares."""
    return {
        alias.name
        for node in ast.walk(TREES[path])
        if isinstance(node, ast.ImportFrom) and node.module in ("onnxq.judge.acceptance", "onnxq.judge.loss")
        for alias in node.names
    }

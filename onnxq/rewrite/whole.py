"""The whole model before and after: a last look beside the proof of each change."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.graph.batching import BatchPlace
from onnxq.graph.deciders import deciding_inputs
from onnxq.graph.inlining import inlining
from onnxq.graph.load import graphs
from onnxq.graph.loops import has_loop
from onnxq.graph.model import Model
from onnxq.graph.order import reads
from onnxq.graph.source import constant_value
from onnxq.graph.spool import weight_bytes
from onnxq.judge.sqnr import sqnr_db
from onnxq.rewrite.changes import ProofVerdict
from onnxq.rewrite.proof import Proof
from onnxq.run import ort
from onnxq.run.budget import OverBudget, made_up, too_large

# Sizes tried for dynamic dimensions other than the first, which is tried as 2 and 1.
_SIZES = (64, 224, 32, 128, 16, 8, 300, 2, 1)
# A model of more input elements than this is compared at the smallest size that runs.
_MAX_ELEMENTS = 1 << 24

# So many combinations of values of inputs that decide something are compared.
_DECISIONS = 4
# What an integer is that says how often or how large, and is compared with nothing.
_COUNT = "3"

# Bytes of weights up to which a copy of the original costs little.
_SMALL = 1 << 26

CHANGES = "the model's outputs change"
"""How a difference of values begins to be told; others are of models that do not run any more."""

_LOOP_SECONDS = 5.0
"""How long a model with a Loop may run, all its samples together: on made-up ones it may never end."""

_MIN_SQNR = 60.0
"""dB. Below it the difference is held against what onnxruntime's own optimizations make of the model."""

_MIN_SQNR_OF_CODES = 30.0
"""The same where codes may be a step off: of 8 bits, a step in every one of them is 34 dB for a sine."""

_MARGIN = 10.0
"""dB below the noise of onnxruntime's own optimizations, for models that amplify rounding."""


@dataclass(frozen=True, slots=True)
class WholeProof(DocumentPart):
    """A comparison of the whole model with the original.

    Attributes:
        stage: after which stage.
        verdict: `exact`, `close`, or `unproven`.
        max_abs: the largest absolute difference over all outputs.
        sqnr_db: the smallest signal-to-difference ratio over the outputs, None where all are equal.
        why: for `unproven`: why it was not compared; for `close`: what the numbers do not say.
    """

    stage: str
    verdict: ProofVerdict
    max_abs: float = 0.0
    sqnr_db: float | None = None
    why: str = ""

    @property
    def change(self) -> str:
        """How far the outputs are off, for a reader."""
        if self.sqnr_db is None:
            return f"({self.why})"
        return f"by up to {self.max_abs:.3g} ({self.sqnr_db:.1f} dB{f'; {self.why}' if self.why else ''})"


def proof_of(whole: WholeProof) -> Proof:
    """What the comparison of the whole model proves of its only change."""
    return Proof(whole.verdict, int(whole.verdict != "unproven"), 0, whole.max_abs, why=whole.why)


_RANDOM = (
    "RandomNormal",
    "RandomNormalLike",
    "RandomUniform",
    "RandomUniformLike",
    "Multinomial",
    "Bernoulli",
)


class Differs(Exception):
    """The whole model is another one, although each change was proved by itself.

    Attributes:
        changes: how many changes there were when it was found.
        equal: after how many of them it was still the original.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.changes = self.equal = 0


class WholeModel:
    """The original model, run once for each of its decisions, to compare rewritten ones with."""

    def __init__(
        self,
        model: Model,
        fixed: Mapping[str, np.ndarray] | None = None,
        *,
        shapes: Mapping[str, Sequence[int]] | None = None,
        stated: bool = False,
    ) -> None:
        """Takes the original.

        Args:
            model: the original.
            fixed: the values of inputs that are constants in the rewritten ones.
            shapes: of inputs, where they are given.
            stated: whether the user states sizes or values, with which a branch that never runs may not load.
        """
        self._fixed = dict(fixed or {})
        self._loads = False  # whether a rewritten model must load although the original was not run
        self._stated = stated
        # what onnxruntime takes functions of other opsets for is not what they are
        found = inlining(model.source)
        self._source = found.model if found.converted else model.source
        given = {name: tuple(shape) for name, shape in (shapes or {}).items()}
        self._inputs = [(one.name, one.dtype, given.get(one.name, one.shape)) for one in model.inputs]
        self._data_dir = model.data_dir
        self._runs: list[tuple[dict[str, np.ndarray], list[Any]]] = []  # what it was fed, and gave
        self._feeds: dict[str, np.ndarray] = {}  # what it was fed last
        self._why = ""
        self._seconds = _LOOP_SECONDS if has_loop(model.source) else None
        self._decided = _decisions(model.source, [name for name, _, _ in self._inputs])
        self._ran_with: dict[str, int] | None = None

    @made_up()
    def compare(self, model: Model, stage: str, *, exact: bool, steps: bool = False) -> WholeProof:
        """Compares a rewritten model with the original; one that does not end in time proves nothing.

        Args:
            model: the rewritten model.
            stage: the stage that it comes from.
            exact: whether all changes so far claim bit-equality.
            steps: whether one of them may move the codes of a quantized tensor by a step.

        Raises:
            Differs: it does not run, its outputs are others although every change is exact, or they are
                further off than onnxruntime's own optimizations of the original put them.
        """
        if self._ran_with != model.assumed:
            self._run_original(model.assumed)
            self._ran_with = dict(model.assumed)
        if not self._runs:
            if self._loads and not self._stated:
                self._check_loads(model)
            return WholeProof(stage, "unproven", why=self._why)
        try:
            got = self._run(model)  # which leaves no session behind: a second one may follow
        except (ort.Endless, ort.Bounded) as error:
            said = str(error)
            if isinstance(error, ort.Endless) and self._seconds is not None:  # that of all samples together
                said = noted("unproven.endless", seconds=self._seconds)
            return WholeProof(stage, "unproven", why=f"the rewritten model: {said}")
        except ort.RunError as error:
            if self._stated and not ort.loads(model.to_proto(), self._data_dir):  # a branch that never runs
                return WholeProof(stage, "unproven", why=noted("unproven.not-loaded", error=error))
            raise Differs(f"the model does not run any more: {error}") from error
        places = {tensor.name: place for place, tensor in enumerate(model.outputs)}
        expected = [list(values) for _, values in self._runs]
        for change in model.interface_changes:
            for values in expected if change.kind == "output" else ():
                place = places[change.name]
                values[place] = _converted(change.convert, values[place])
        verdicts = []
        for run, values, others in zip(self._runs, expected, got, strict=True):
            self._feeds = run[0]
            verdicts.append(self._judged(_verdict(stage, values, others), exact=exact, steps=steps))
        rank = {"exact": 0, "close": 1, "unproven": 2}
        return max(verdicts, key=lambda one: (rank[one.verdict], -(one.sqnr_db or 0.0)))

    def _judged(self, verdict: WholeProof, *, exact: bool, steps: bool) -> WholeProof:
        """What the outputs of one run tell, which may be too far off."""
        if verdict.verdict == "exact":
            return verdict
        least = _MIN_SQNR_OF_CODES if steps else _MIN_SQNR
        if exact or (verdict.sqnr_db is not None and verdict.sqnr_db < least):
            try:
                own = None if exact else self._own_noise()
            except (ort.Endless, ort.Bounded) as error:
                return WholeProof(verdict.stage, "unproven", why=f"the original, optimized: {error}")
            if own is None or (verdict.sqnr_db is not None and verdict.sqnr_db < own - _MARGIN):
                raise Differs(f"{CHANGES} {verdict.change}")
        return verdict

    @property
    def why(self) -> str:
        """Why the original was not run; "" where it was."""
        return self._why

    @made_up()
    def compare_stacked(
        self,
        model: Model,
        rows: Mapping[str, BatchPlace],
        size: int,
        sizes: Sequence[int],
        assumed: Mapping[str, int],
    ) -> WholeProof:
        """Compares a model whose batch was made dynamic with runs of the original, stacked.

        Args:
            model: the model.
            rows: where its inputs, outputs and tensors have the batch.
            size: the batch of the original, in which both are equal bit for bit.
            sizes: batches in which they are equal but for the order of sums.
            assumed: sizes of other dimensions.

        Raises:
            Differs: they are not, or the model does not run in one of them.
        """
        fed = self.made_up(-(-max(sizes) // size), assumed)
        session = self._load_original()
        given = [session.run({name: one[name] for name in session.inputs}) for one in fed]
        names = [tensor.name for tensor in model.outputs]

        def joined(name: str, arrays: list[Any], samples: int) -> Any:
            if name not in rows:
                return arrays[0]
            return np.ascontiguousarray(rows[name].of(rows[name].joined(arrays), slice(samples)))

        made, verdicts = ort.load(model.to_proto(), optimize=False, data_dir=self._data_dir), []
        for samples in sizes:
            feeds = {name: joined(name, [one[name] for one in fed], samples) for name in made.inputs}
            expected = [joined(name, [one[at] for one in given], samples) for at, name in enumerate(names)]
            try:
                verdict = _verdict("batch", expected, made.run(feeds))
            except ort.RunError as error:
                raise Differs(noted("dynamic-batch.fails", samples=samples, error=error)) from error
            except Differs as error:
                raise Differs(self._first_apart(model, rows, feeds, samples) or str(error)) from error
            if samples == size or verdict.verdict == "exact":
                self._runs, self._feeds = [(feeds, expected)], feeds
            if verdict.verdict != "exact" and (samples == size or (verdict.sqnr_db or 0.0) < _MIN_SQNR):
                raise Differs(
                    self._first_apart(model, rows, feeds, samples)
                    or noted("dynamic-batch.apart", samples=samples, change=verdict.change)
                )
            verdicts.append(verdict)
        return max(verdicts, key=lambda one: (one.verdict == "close", one.max_abs))

    def _first_apart(
        self, model: Model, rows: Mapping[str, BatchPlace], feeds: Mapping[str, np.ndarray], samples: int
    ) -> str:
        """The first node whose values for the last sample depend on the others; "" where none is found."""
        proto = model.to_proto()
        known = {info.name for info in proto.graph.output}
        order = [(node, name) for node in proto.graph.node for name in node.output if name in rows]
        for name in {name for _, name in order} - known:
            proto.graph.output.add(name=name)
        last = slice(samples - 1, samples)
        alone = {n: rows[n].of(a, last) if n in rows else a for n, a in feeds.items()}
        try:
            session = ort.load(proto, optimize=False, data_dir=self._data_dir)
            one, all_of = (dict(zip(session.outputs, session.run(f), strict=True)) for f in (alone, feeds))
        except (ort.RunError, OverBudget):
            return ""
        for node, name in order:
            if not np.allclose(rows[name].of(all_of[name], last), one[name], 1e-3, 1e-4, equal_nan=True):
                return noted("dynamic-batch.alone", node=node.name, op=node.op_type, samples=samples)
        return ""

    @made_up()
    def made_up(self, count: int, assumed: Mapping[str, int] | None = None) -> list[dict[str, np.ndarray]]:
        """So many samples like those that the original runs on, at sizes that are assumed; or none."""
        self._run_original(assumed or {})
        generator, decided = np.random.default_rng(0), {name for one in self._decided for name in one}
        return [
            {n: a if n in decided else _values(generator, a.dtype, a.shape) for n, a in feeds.items()}
            for feeds, _ in itertools.islice(itertools.cycle(self._runs), count)
        ]

    def _check_loads(self, model: Model) -> None:
        try:
            ort.load(model.to_proto(), optimize=False, data_dir=self._data_dir)
        except ort.Bounded:
            return
        except ort.RunError as error:
            raise Differs(f"onnxruntime does not load the model any more: {error}") from error

    def save_inputs(self, path: Path) -> None:
        """Writes what the models were run on."""
        np.savez(path, **self._feeds)  # type: ignore[arg-type]

    def _run(self, model: Model) -> list[list[Any]]:
        session = ort.load(model.to_proto(), optimize=False, data_dir=self._data_dir)
        clock = ort.Clock(self._seconds)
        got = []
        for fed, _ in self._runs:
            self._feeds = fed
            feeds = {n: a for n, a in fed.items() if n in session.inputs}
            for change in model.interface_changes:
                if change.kind == "input" and change.name in feeds:
                    feeds[change.name] = _converted(change.convert, feeds[change.name])
            session.check(feeds)
            got.append(session.run(feeds, seconds=clock.left()))
        return got

    def _own_noise(self) -> float | None:
        """How far onnxruntime's own optimizations move the original's outputs of the last feeds, dB."""
        expected = next(values for feeds, values in self._runs if feeds is self._feeds)
        try:
            session = ort.load(self._source, data_dir=self._data_dir)
            return _verdict("", expected, session.run(self._feeds, seconds=self._seconds)).sqnr_db
        except (ort.Endless, ort.Bounded):
            raise
        except (ort.RunError, Differs):
            return None

    def _run_original(self, assumed: Mapping[str, int]) -> None:
        """Runs it at the first sizes that it takes, with each of its decisions that it takes."""
        self._runs = []
        random = _random(self._source)
        if random is not None:
            self._why = noted("unproven.random", op=random)
            return
        try:
            session = self._load_original()
        except ort.Endless as error:
            self._why = noted("unproven.constant-part", error=error)
            return
        except ort.RunError as error:
            self._why = noted("unproven.original-not-loaded", error=error)
            return
        self._loads = True
        clock = ort.Clock(self._seconds)
        for decided in self._samples(assumed):
            for feeds in decided:
                feeds |= self._fixed
                try:
                    fed = {n: feeds[n] for n in session.inputs}
                    session.check(fed)
                    values = session.run(fed, seconds=clock.left())
                except ort.Endless:
                    self._why = noted("unproven.original-endless", seconds=self._seconds)
                    return
                except ort.Bounded as error:
                    self._why = f"the original: {error}"
                except ort.RunError as error:
                    self._why = noted("unproven.original-not-run", error=error)
                else:
                    self._runs.append((feeds, values))
            if self._runs:
                self._why = ""
                return

    def _load_original(self) -> ort.Session:
        """The original, node by node; what of it is constant is computed first where that is much."""
        parts = constant_part(self._source) if weight_bytes(self._source) < _SMALL else None
        if parts is not None:
            constants, rest = parts
            session = ort.load(constants, optimize=False, data_dir=self._data_dir)
            values = session.run({}, seconds=self._seconds)
            if all(isinstance(v, np.ndarray) for v in values) and sum(v.nbytes for v in values) < _SMALL:
                for name, value in zip(session.outputs, values, strict=True):
                    rest.graph.initializer.append(onnx.numpy_helper.from_array(value, name))
                return ort.load(rest, optimize=False, data_dir=self._data_dir)
        return ort.load(self._source, optimize=False, data_dir=self._data_dir)

    def _samples(self, assumed: Mapping[str, int]) -> Iterator[list[dict[str, np.ndarray]]]:
        dynamic = any(not isinstance(d, int) for _, _, shape in self._inputs for d in shape or ())
        for size in _SIZES if dynamic else _SIZES[:1]:
            for batch in (2, 1) if dynamic else (1,):
                feeds: dict[str, np.ndarray] = {}
                held: dict[str, int] = {}
                sizes: dict[str, int] = dict(assumed)
                generator = np.random.default_rng(size)
                for name, dtype, shape in self._inputs:
                    if dtype is None or shape is None or dtype.kind == "O":
                        self._why = noted("unproven.unknown-input", input=name)
                        return
                    dims = []
                    for axis, dim in enumerate(shape):
                        dim_size = batch if axis == 0 else size
                        if isinstance(dim, int):
                            dims.append(dim)
                        else:
                            dims.append(sizes.setdefault(dim, dim_size) if dim else dim_size)
                    if np.prod(dims, dtype=np.float64) > _MAX_ELEMENTS and dynamic:
                        break
                    held[name] = dtype.itemsize * math.prod(dims)
                    if why := too_large(held):
                        self._why = why
                        break
                    feeds[name] = _values(generator, dtype, tuple(dims))
                else:
                    decided = [
                        {n: np.full_like(feeds[n], v) for n, v in one.items()} for one in self._decided
                    ]
                    yield [feeds | one for one in decided]
                    if any(decided):
                        yield [feeds]


def _random(model: onnx.ModelProto) -> str | None:
    """An operator of a model that gives other values in every run; a Dropout only where it trains."""
    holders = list(graphs(model.graph))
    stated = {one.name: one for holder in holders for one in holder.initializer}
    nodes = [node for holder in holders for node in holder.node]
    stated |= {node.output[0]: value for node in nodes if (value := constant_value(node)) is not None}
    for node in nodes:
        trains = [name for name in node.input[2:3] if name and node.op_type == "Dropout"]
        training = stated.get(trains[0]) if trains else None
        if node.op_type in _RANDOM or (
            trains and (training is None or onnx.numpy_helper.to_array(training).any())
        ):
            return str(node.op_type)
    return None


def _decisions(model: onnx.ModelProto, inputs: Container[str]) -> list[dict[str, int]]:
    """Values of inputs that decide which branch runs, or how often; none of them where nothing decides."""
    truth = {"true": "1", "false": "0"}
    decided = {n: v or [_COUNT] for n, v in deciding_inputs(model).items() if n in inputs}
    combinations = list(itertools.islice(itertools.product(*decided.values()), _DECISIONS))
    return [
        dict(zip(decided, (int(truth.get(v, v)) for v in values), strict=True)) for values in combinations
    ]


def _converted(convert: onnx.ModelProto, values: np.ndarray) -> np.ndarray:
    (new,) = ort.load(convert, optimize=False).run({"old": values})
    return np.asarray(new)


def _values(generator: np.random.Generator, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    if dtype == np.dtype(bool):
        return generator.integers(0, 2, shape).astype(bool)
    if dtype.kind in "iu":  # small: they may be indices
        return generator.integers(0, 2, shape).astype(dtype)
    return generator.standard_normal(shape, np.float32).astype(dtype)


def _verdict(stage: str, expected: list[Any], got: list[Any]) -> WholeProof:
    """Compares outputs; integers may be off where the floats that they are rounded from are.

    Raises:
        Differs: an output is of another type or shape, or NaN or infinite at other places.
    """
    largest, ratio, notes = 0.0, float("inf"), []
    for one, other in zip(expected, got, strict=True):
        if not isinstance(one, np.ndarray):
            continue
        if one.dtype != other.dtype or one.shape != other.shape:
            raise Differs(
                f"an output is {other.dtype}{list(other.shape)} instead of {one.dtype}{list(one.shape)}"
            )
        if one.dtype.kind in "OSU":
            if not np.array_equal(one, other):
                raise Differs("an output of text differs from the original's")
            continue
        if all(a.tobytes() == b.tobytes() for a, b in _parts(one, other)):
            continue
        count, most, signal, noise = 0, 0.0, 0.0, 0.0
        for part, part_of_other in _parts(one, other):
            a, b = part.astype(np.float64), part_of_other.astype(np.float64)
            if not np.array_equal(np.isnan(a), np.isnan(b)):
                raise Differs("an output is NaN where the original's is not")
            finite = np.isfinite(a) & np.isfinite(b)
            if not np.array_equal(a[~finite & ~np.isnan(a)], b[~finite & ~np.isnan(a)]):
                raise Differs("an output is infinite where the original's is not")
            gaps = np.abs(a[finite] - b[finite])
            count += int(np.count_nonzero(part != part_of_other))
            most = max(most, float(gaps.max(initial=0.0)))
            signal, noise = signal + float(np.sum(a[finite] ** 2)), noise + float(np.sum(gaps**2))
        if one.dtype.kind in "iub":
            steps = max(1.0, most)
            notes.append(noted("differs-by.steps", count=count, values=one.size, steps=_steps(steps)))
            if steps <= 1 and count <= _ROUNDED * one.size:
                continue
        if not most:  # zeros of another sign
            continue
        largest = max(largest, most)
        ratio = min(ratio, sqnr_db(signal, noise))
    if ratio == float("inf") and not notes:
        return WholeProof(stage, "exact")
    return WholeProof(stage, "close", largest, None if ratio == float("inf") else ratio, "; ".join(notes))


def _parts(one: np.ndarray, other: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Two arrays part by part: in double precision large ones would take several times their memory."""
    flat, other_flat = one.ravel(), other.ravel()
    for start in range(0, one.size, _PART):
        yield flat[start : start + _PART], other_flat[start : start + _PART]


_PART = 1 << 22
"""Elements."""

_ROUNDED = 0.01
"""The share of integers that may be one step off: values near the middle of two steps."""


def _steps(count: float) -> str:
    return f"{count:.0f} step" if count == 1 else f"{count:.0f} steps"


# Fewer constant nodes cost nothing to speak of.
_MANY = 256


def constant_part(model: onnx.ModelProto) -> tuple[onnx.ModelProto, onnx.ModelProto] | None:
    """Parts a model of many nodes that depend on no input: those nodes, and the rest.

    onnxruntime's time to load a graph grows with the number of such nodes times its size.

    Returns:
        A model that gives what the rest reads of them, and the rest, which lacks these tensors as
        initializers. None where that gains nothing, or the model is not of the simplest kind.
    """
    graph = model.graph
    if model.functions or graph.sparse_initializer or model.ir_version < 4:
        return None
    fixed = {tensor.name for tensor in graph.initializer} - {info.name for info in graph.input}
    made: set[str] = set()
    constants, rest = (onnx.ModelProto(ir_version=model.ir_version) for _ in range(2))
    outputs: dict[str, None] = {}
    for node in graph.node:
        read = [name for name in reads(node) if name]
        if all(name in fixed for name in read) and not any(a.HasField("g") for a in node.attribute):
            constants.graph.node.append(node)
            made.update(node.output)
            fixed.update(node.output)
        else:
            rest.graph.node.append(node)
            outputs.update((name, None) for name in read if name in made)
    if len(made) < _MANY or not outputs or any(info.name in made for info in graph.output):
        return None
    for part, nodes in ((constants, constants.graph.node), (rest, rest.graph.node)):
        part.opset_import.extend(model.opset_import)
        part.graph.name = graph.name
        needed = {name for node in nodes for name in reads(node)}
        listed = {info.name for info in graph.input} | {info.name for info in graph.output}
        keep = needed | listed if part is rest else needed
        part.graph.initializer.extend(tensor for tensor in graph.initializer if tensor.name in keep)
    rest.graph.input.extend(graph.input)
    rest.graph.output.extend(graph.output)
    for name in outputs:
        constants.graph.output.add(name=name)
    return constants, rest

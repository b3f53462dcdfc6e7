"""The proof of a change: before and after are run on the same inputs and compared bit for bit.

"Proof" is evidence from sampling, not a theorem: a report says "checked on N inputs".
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import ml_dtypes
import numpy as np
import onnx

from onnxq.graph.edit import Replacement
from onnxq.graph.load import graphs
from onnxq.graph.loops import has_loop
from onnxq.graph.model import Model
from onnxq.graph.snippet import NoSnippet, Snippet, snippets
from onnxq.graph.types import Shape, float_info, limits
from onnxq.graph.view import Node
from onnxq.reason import Reason, code_of
from onnxq.run import ort, reference

Verdict = Literal["exact", "close", "unproven", "failed"]

# Sizes tried for dynamic dimensions: a number for all of them, or None for different ones.
_SIZES = (3, 1, None, 8, 33, 67, 130, 60, 120, 2)  # multiples of 10 and 12: a Reshape divides
_ENOUGH_BINDINGS = 3
# There are at most this many edge values of a type.
_EDGES = 16
# Inputs of this many elements are run several times with different edge values.
_SMALL = 1 << 12
# A dynamic dimension is not given a size that makes an input larger than this, or than two samples.
_MAX_ELEMENTS = 1 << 22
# The runs of a snippet with a Loop are given up after so many seconds: its condition may never be false.
# After so many seconds in vain, others are not run any more.
_LOOP_SECONDS, _IN_VAIN = 5.0, 10.0
# ONNX's reference evaluator is slow: it runs so many inputs of so many sizes of the dynamic dimensions,
# and begins no further run after so many seconds.
_REFERENCE_INPUTS, _REFERENCE_BINDINGS, _REFERENCE_SECONDS = 3, 2, 20.0
# The largest finite number in the samples of changes that are close, roundly.
_LARGEST_INPUT = 1 << 12


BY_DEFINITION = Reason("by-definition", "compared in ONNX's reference evaluator", "onnx.reference")
"""How a proof says that onnxruntime had no part in it."""

_NEVER_RUNS, _DOES_NOT_RUN = "original-does-not-run", "replacement-does-not-run"


@dataclass(frozen=True, slots=True)
class Proof:
    """What comparing before and after found.

    Attributes:
        verdict: `exact` (bit-equal), `close` (within `bound`), `unproven` or `failed`.
        inputs: the number of inputs on which both ran and were compared.
        bindings: the number of different sizes of the dynamic dimensions among them.
        max_abs: the largest absolute difference of finite values.
        bound: the bound on it, at the input where `max_abs` came closest to it; 0 for `exact`.
        why: for `unproven` and `failed`: what happened; for others what the reader must know.
        refused: what onnxruntime says of the original, where it does not run it.
    """

    verdict: Verdict
    inputs: int = 0
    bindings: int = 0
    max_abs: float = 0.0
    bound: float = 0.0
    why: str = ""
    refused: str = ""

    @property
    def holds(self) -> bool:
        """Whether the change is proved."""
        return self.verdict in ("exact", "close")

    def to_json(self) -> dict[str, Any]:
        """The proof for the report."""
        return {**dataclasses.asdict(self), "code": code_of(self.why)}


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far a change may be off that reorders float sums.

    By 4·sqrt(K) units in the last place of the largest output, in proportion to the size of the
    channel: reassociated sums of K terms differ by O(sqrt(K)) ulp of what is summed (Higham,
    Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2).

    Attributes:
        terms: the number K of terms of each sum.
        sizes: how large the channels' sums are, relative to each other; empty where they are alike.
        axis: the channel axis of the outputs.
    """

    terms: int
    sizes: tuple[float, ...] = ()
    axis: int = 1

    def bounds(self, values: np.ndarray) -> np.ndarray:
        """The bound for each element of an output; NaN and infinities count as zero.

        Args:
            values: the output before the change.

        Returns:
            float64, of a shape that broadcasts to the output's.
        """
        finite = np.where(np.isfinite(values), np.abs(values.astype(np.float64)), 0.0)
        info = float_info(values.dtype)
        sizes = np.ones([1] * values.ndim)
        if values.ndim > 1 and len(self.sizes) == values.shape[self.axis]:
            spread = [1] * values.ndim
            spread[self.axis] = -1
            sizes = np.array(self.sizes).reshape(spread)
        ratio = np.divide(finite, sizes, out=np.zeros_like(finite), where=sizes > 0)
        largest = np.max(ratio, initial=0.0) * sizes
        # weights below the smallest normal number are not rounded to so many digits
        least = np.sqrt(self.terms) * _LARGEST_INPUT * float(info.smallest_subnormal)
        bounds: np.ndarray = 4.0 * np.sqrt(self.terms) * float(info.eps) * largest + least
        return bounds


class Prover:
    """Proves changes; equal snippets are proved once.

    Args:
        loops: whether snippets with a Loop are run. They have a time limit, and a slow machine may prove
            less than a fast one: they are not where only what is proved is kept.
    """

    def __init__(self, *, loops: bool = True) -> None:
        self._known: dict[str, Proof] = {}
        self._patience = _IN_VAIN if loops else 0.0
        self.runs = 0

    def prove(
        self, model: Model, root: Node, results: Replacement, tolerance: Tolerance | None
    ) -> tuple[Proof, Snippet | None]:
        """Compares a node's outputs with their replacement.

        Args:
            model: the model before the change.
            root: the node whose outputs are replaced.
            results: what is to compute them.
            tolerance: None where they must be bit-equal.

        Returns:
            The proof, and the snippet that it is about (None where none could be cut).
        """
        last: tuple[Proof, Snippet | None] = (Proof("unproven", why="nothing to compare"), None)
        try:
            for snippet in snippets(model, root, results):
                if last[1] is not None and has_loop(snippet.before) and not has_loop(last[1].before):
                    break  # what a Loop computes, if it ends, may be anything
                proof = self._compare(snippet, tolerance, model.assumed)
                if proof.holds:
                    return proof, snippet
                last = (proof, snippet)
        except NoSnippet as reason:
            if last[1] is None:
                return Proof("unproven", why=str(reason)), None
        return last

    def _compare(self, snippet: Snippet, tolerance: Tolerance | None, sizes: Mapping[str, int]) -> Proof:
        stated = [[sizes.get(d) if isinstance(d, str) else d for d in s] for _, _, s in snippet.inputs]
        key = f"{snippet.key} {tolerance} {stated}"  # equal snippets may differ in what is assumed
        if key not in self._known:
            self.runs += 1
            self._known[key] = self._compared(snippet, tolerance, sizes)
        return self._known[key]

    def _compared(self, snippet: Snippet, tolerance: Tolerance | None, sizes: Mapping[str, int]) -> Proof:
        if not (has_loop(snippet.before) or has_loop(snippet.after)):
            return compare(snippet, tolerance, sizes)
        if self._patience <= 0:
            return Proof("unproven", why="it has a Loop, which may never end on made-up input")
        start = time.monotonic()
        proof = compare(snippet, tolerance, sizes, min(_LOOP_SECONDS, self._patience))
        if proof.verdict == "unproven":
            self._patience -= time.monotonic() - start
        return proof


def compare(
    snippet: Snippet, tolerance: Tolerance | None, assumed: Mapping[str, int], seconds: float | None = None
) -> Proof:
    """Runs both sides of a snippet on sampled inputs and compares their outputs.

    In onnxruntime; where that does not run the original at all, in ONNX's reference evaluator.

    Args:
        snippet: the two sides.
        tolerance: None where they must be bit-equal.
        assumed: sizes of dimensions.
        seconds: how long all runs may take together, of a snippet that may never end; else nothing is
            proved, and nothing disproved.
    """
    try:
        wires = _Wires.computed(snippet) if seconds is None else None
        before = wires or ort.load(snippet.before, optimize=False, threads=1)
    except ort.RunError as error:
        proof = _never_runs(error)
        return proof if seconds is not None else _by_definition(snippet, tolerance, assumed, proof)
    try:
        after = _Wires.of(snippet) or ort.load(snippet.after, optimize=False, threads=1)
    except ort.RunError as error:
        return Proof("failed", why=_does_not_run(error))
    proof = _compared(snippet, before, after, tolerance, assumed, seconds)
    if code_of(proof.why) == _NEVER_RUNS and seconds is None:  # the evaluator cannot be stopped
        return _by_definition(snippet, tolerance, assumed, proof)
    return proof


def _never_runs(error: ort.RunError) -> Proof:
    why = Reason(_NEVER_RUNS, f"the original does not run: {error}", "onnxruntime")
    return Proof("unproven", why=why, refused=str(error))


def _does_not_run(error: ort.RunError) -> Reason:
    return Reason(_DOES_NOT_RUN, f"the replacement does not run: {error}", "onnxruntime")


def _by_definition(
    snippet: Snippet, tolerance: Tolerance | None, assumed: Mapping[str, int], unproven: Proof
) -> Proof:
    """The proof by ONNX's reference evaluator; the one given where that does not run it either."""
    try:
        before = reference.Session(snippet.before, _REFERENCE_SECONDS)
        after = _Wires.of(snippet) or reference.Session(snippet.after)
    except ort.RunError:
        return unproven
    proof = _compared(snippet, before, after, tolerance, assumed, few=True)
    if proof.inputs == 0 and code_of(proof.why) in (_NEVER_RUNS, _DOES_NOT_RUN):
        return unproven
    text = f"{proof.why or BY_DEFINITION} ({unproven.why})"
    code = code_of(proof.why or BY_DEFINITION)
    return dataclasses.replace(proof, why=Reason(code, text, BY_DEFINITION.by), refused=unproven.refused)


def _compared(
    snippet: Snippet,
    before: _Runs,
    after: _Runs,
    tolerance: Tolerance | None,
    assumed: Mapping[str, int],
    seconds: float | None = None,
    *,
    few: bool = False,
) -> Proof:
    """Runs both sides on sampled inputs, or on few of them; all runs together in so many seconds."""
    count = bindings = 0
    worst, worst_bound = 0.0, 0.0
    never = Proof("unproven", why="the original runs on none of the inputs tried")
    small = _needs_small_integers(snippet.before)
    clock = ort.Clock(seconds)
    dynamic = any(not isinstance(dim, int) for _, _, shape in snippet.inputs for dim in shape)
    for sizes in _bindings(snippet.inputs, assumed):
        ran = False
        full, close = bindings == 0 and not few, tolerance is not None
        samples = _feeds(snippet.inputs, sizes, full=full, close=close, small=small)
        for feeds in itertools.islice(samples, _REFERENCE_INPUTS if few else None):
            try:
                expected = before.run(feeds, seconds=clock.left())
            except ort.Endless:
                return Proof("unproven", count, bindings, why=f"the original: {_endless(seconds)}")
            except ort.RunError as error:
                never = _never_runs(error)
                continue
            try:
                got = after.run(feeds, seconds=clock.left())
            except ort.Endless:
                return Proof("unproven", count, bindings, why=f"the replacement: {_endless(seconds)}")
            except ort.RunError as error:
                return Proof("failed", count, bindings, why=_does_not_run(error))
            for one, other in zip(expected, got, strict=True):
                difference, bound, wrong = _difference(one, other, tolerance)
                if wrong:
                    return Proof("failed", count, bindings, difference, bound, wrong)
                if worst_bound == 0.0 or difference * worst_bound > worst * bound:
                    worst, worst_bound = difference, bound
            count += 1
            ran = True
        bindings += ran
        if bindings == (_REFERENCE_BINDINGS if few else _ENOUGH_BINDINGS):
            break
    if count == 0:
        return never
    if dynamic and bindings < 2 and _is_free(snippet.inputs, assumed):
        return Proof("unproven", count, bindings, why="it ran with one size of the dynamic dimensions only")
    verdict: Verdict = "exact" if tolerance is None or worst == 0.0 else "close"
    return Proof(verdict, count, bindings, worst, worst_bound)


def save_reproducer(snippet: Snippet, folder: Path, name: str) -> Path:
    """Saves both sides of a snippet as `before.onnx` and `after.onnx` in a new folder."""
    target = new_folder(folder, name)
    onnx.save(snippet.before, target / "before.onnx")
    onnx.save(snippet.after, target / "after.onnx")
    return target


def new_folder(parent: Path, name: str) -> Path:
    """A new folder for what reproduces a fault, of this name as far as the file system takes it."""
    safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in name)[:100]
    target, count = parent / safe, 1
    while True:
        try:
            target.mkdir(parents=True)
        except FileExistsError:
            count += 1
            target = parent / f"{safe}-{count}"
        else:
            return target


class _Wires:
    """Outputs that are there already, as inputs or constants: nothing needs to run."""

    def __init__(self, sources: Sequence[str], constants: Mapping[str, np.ndarray]) -> None:
        self._sources = sources
        self._constants = constants

    @classmethod
    def of(cls, snippet: Snippet) -> _Wires | None:
        """A snippet's replacement as wires; None where it computes something."""
        graph = snippet.after.graph
        computes = any(node.op_type != "Identity" for node in graph.node)
        if computes or len(graph.node) != len(graph.output):
            return None
        constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
        dtypes = [*(array.dtype for array in constants.values()), *(dtype for _, dtype, _ in snippet.inputs)]
        if any(dtype.isbuiltin != 1 for dtype in dtypes):
            return None  # of ml_dtypes: onnxruntime has its own arrays for them
        return cls([node.input[0] for node in graph.node], constants)

    @classmethod
    def computed(cls, snippet: Snippet) -> _Wires | None:
        """The original's outputs where it has no inputs; None where it has, or does not run."""
        outputs = None if snippet.inputs else ort.evaluate(snippet.before)
        if outputs is None or not all(isinstance(array, np.ndarray) for array in outputs):
            return None
        names = [info.name for info in snippet.before.graph.output]
        return cls(names, dict(zip(names, outputs, strict=True)))

    def run(self, feeds: Mapping[str, np.ndarray], *, seconds: float | None = None) -> list[np.ndarray]:
        """The outputs for these inputs."""
        return [feeds[name] if name in feeds else self._constants[name] for name in self._sources]


_Runs = ort.Session | reference.Session | _Wires


# -- comparing -------------------------------------------------------------------------------------


def _difference(one: Any, other: Any, tolerance: Tolerance | None) -> tuple[float, float, str]:
    """The largest difference of two outputs, its bound, and what is wrong ("" if nothing is)."""
    if not isinstance(one, np.ndarray) or not isinstance(other, np.ndarray):
        return 0.0, 0.0, "" if _same(one, other) else "the outputs differ"
    if one.dtype != other.dtype:
        return 0.0, 0.0, f"dtype {other.dtype} instead of {one.dtype}"
    if one.shape != other.shape:
        return 0.0, 0.0, f"shape {list(other.shape)} instead of {list(one.shape)}"
    if not _is_float(one.dtype):
        if np.array_equal(one, other):
            return 0.0, 0.0, ""
        return float("inf"), 0.0, f"{int(np.sum(one != other))} of {one.size} values differ"
    nan = np.isnan(one)
    if not np.array_equal(nan, np.isnan(other)):
        return float("inf"), 0.0, "NaN at different places"
    bits = np.dtype(f"u{one.dtype.itemsize}")
    equal = (one.view(bits) == other.view(bits)) | nan if one.shape else np.array(
        one.tobytes() == other.tobytes() or bool(nan)
    )  # fmt: skip
    if equal.all():
        return 0.0, 0.0, ""
    wide_one, wide_other = one.astype(np.float64), other.astype(np.float64)
    finite = np.isfinite(wide_one) & np.isfinite(wide_other)
    if not np.array_equal(wide_one[~finite & ~nan], wide_other[~finite & ~nan]):
        return float("inf"), 0.0, "infinities at different places"
    difference = float(np.max(np.abs(wide_one[finite] - wide_other[finite]), initial=0.0))
    if tolerance is None:
        count = int(np.sum(~equal))
        return difference, 0.0, f"{count} of {one.size} values differ, by up to {difference:.3g}"
    bounds = np.broadcast_to(tolerance.bounds(one), one.shape)
    gaps = np.where(finite, np.abs(np.where(finite, wide_one, 0) - np.where(finite, wide_other, 0)), 0.0)
    place = np.unravel_index(int(np.argmax(gaps - bounds)), one.shape)
    gap, bound = float(gaps[place]), float(bounds[place])
    wrong = f"values differ by {gap:.3g}, the bound there is {bound:.3g}"
    return (gap, bound, wrong) if gap > bound else _nearest_to_bound(gaps, bounds)


def _nearest_to_bound(gaps: np.ndarray, bounds: np.ndarray) -> tuple[float, float, str]:
    """The difference that comes closest to its bound, and that bound."""
    ratios = np.divide(gaps, bounds, out=np.zeros_like(gaps), where=bounds > 0)
    place = np.unravel_index(int(np.argmax(ratios)), gaps.shape)
    return float(gaps[place]), float(bounds[place]), ""


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(_same, one, other))
    return np.array_equal(np.asarray(one), np.asarray(other))


def _endless(seconds: float | None) -> str:
    return f"it did not end in {seconds:.3g} s"


def _needs_small_integers(model: onnx.ModelProto) -> bool:
    """Whether large integers would do harm: they say how much is computed, or are trusted as indices.

    A Range to 2^31 takes 8 GB; onnxruntime's own operators look an index up without a check that it is
    inside of the table (the positions of an EmbedLayerNormalization, up to 1.23), and the process crashes.
    """
    nodes = (node for graph in graphs(model.graph) for node in graph.node)
    return any(node.op_type in ("Loop", "Range") or node.domain == "com.microsoft" for node in nodes)


def _is_float(dtype: np.dtype) -> bool:
    return dtype.kind == "f" or dtype == np.dtype(ml_dtypes.bfloat16)


# -- sampling --------------------------------------------------------------------------------------

_Inputs = Sequence[tuple[str, np.dtype, Shape]]


def _is_free(inputs: _Inputs, assumed: Mapping[str, int]) -> bool:
    return any(
        dim is None or (isinstance(dim, str) and dim not in assumed)
        for _, _, shape in inputs
        for dim in shape
    )


def _bindings(inputs: _Inputs, assumed: Mapping[str, int]) -> Iterator[list[tuple[int, ...]]]:
    """Sizes of each input, for several choices of the dynamic dimensions."""
    if not _is_free(inputs, assumed):
        yield [tuple(assumed[d] if isinstance(d, str) else d or 0 for d in shape) for _, _, shape in inputs]
        return
    for size in _SIZES:
        # In attention they are batch, queries, keys and past: the keys are the queries and the past.
        different = itertools.cycle((4, 2, 7, 5, 3))
        known: dict[str, int] = dict(assumed)
        chosen: list[tuple[int, ...]] = []
        for _, _, shape in inputs:
            dims = []
            for dim in shape:
                if isinstance(dim, int):
                    dims.append(dim)
                elif isinstance(dim, str):
                    if dim not in known:
                        known[dim] = size or next(different)
                    dims.append(known[dim])
                else:
                    dims.append(size or next(different))
            chosen.append(tuple(dims))
        static = [
            int(np.prod([d for d in shape if isinstance(d, int)], dtype=np.int64)) for _, _, shape in inputs
        ]
        if all(
            int(np.prod(dims, dtype=np.int64)) <= max(_MAX_ELEMENTS, 2 * least)
            for dims, least in zip(chosen, static, strict=True)
        ):
            yield chosen


def _feeds(
    inputs: _Inputs, sizes: Sequence[tuple[int, ...]], *, full: bool, close: bool, small: bool
) -> Iterator[dict[str, np.ndarray]]:
    """Inputs of three kinds: ordinary values, boundary values, and values with NaN and infinities.

    Integers are also tried as 0 and 1: they may select from two things.

    `small`: integers of 32 and 64 bits stay small, and are not negative.
    """
    if not inputs:  # constants compute the same each time
        yield {}
        return
    kinds = ["ordinary", "boundary", "special", "large"] if full else ["ordinary", "special"]
    if any(dtype.kind in "iu" for _, dtype, _ in inputs):
        kinds.append("bits")
    counts = [int(np.prod(shape, dtype=np.int64)) for shape in sizes]
    for position, kind in enumerate(kinds):
        turns: Iterable[tuple[int, int]] = [(0, 1)]
        if kind in ("boundary", "special") and sum(counts) <= _SMALL:
            # An input of few elements takes several turns to hold all edge values; and each edge of
            # one input meets the same (shift 0) and two other edges of the next.
            turns = itertools.product(range(0, _EDGES, max(1, min(counts, default=1))), (1, 0, 2))
        for turn, shift in turns:
            yield {
                name: _sample(
                    dtype,
                    shape,
                    "ordinary" if small and _is_wide(dtype) and kind != "bits" else kind,
                    position * 31 + turn + index * shift,
                    close,
                )
                for index, ((name, dtype, _), shape) in enumerate(zip(inputs, sizes, strict=True))
            }


def _is_wide(dtype: np.dtype) -> bool:
    return dtype.kind in "iu" and dtype.itemsize >= 4


def _sample(dtype: np.dtype, shape: tuple[int, ...], kind: str, seed: int, close: bool) -> np.ndarray:
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == np.dtype(bool):
        return (_pool(count, seed) > 0).reshape(shape)
    if dtype.kind in "iu" and kind == "bits":
        return (_pool(count, seed) > 0).astype(dtype).reshape(shape)
    if dtype.kind in "iu":
        low, high = limits(dtype)
        if kind == "boundary":
            edges = np.array([low, high, 0, 1, int(high) - 1, int(low) + 1, 2], dtype)
            return np.resize(np.roll(edges, seed), count).reshape(shape)
        spread = {"ordinary": 1.0, "special": 3.0, "large": 60.0}[kind]
        values = np.round(np.abs(_pool(count, seed)) * spread)
        if kind != "ordinary" and dtype.kind == "i":
            values *= np.sign(_pool(count, seed + 1))
        integers: np.ndarray = values.astype(dtype).reshape(shape)
        return integers
    if not _is_float(dtype):
        if dtype.kind == "O":
            return np.resize(np.array(["", "a", "onnx"], object), count).reshape(shape)
        return np.zeros(shape, dtype)
    scale = 20.0 if kind == "large" else 1.0
    values = (_pool(count, seed) * scale).astype(dtype)
    if kind in ("boundary", "special"):
        edges = _edges(dtype, kind, close)
        positions = np.arange(min(count, max(2 * len(edges), count // 4096)))
        if count > 2 * len(edges):  # scattered, so that a sum does not see all of them
            positions = (positions * 7919 + seed * 17) % count
        values[positions] = np.resize(np.roll(edges, seed), len(positions))
    return values.reshape(shape)


def _edges(dtype: np.dtype, kind: str, close: bool) -> np.ndarray:
    low, high = (float(limit) for limit in limits(dtype))
    tiny = float(float_info(dtype).tiny)
    edges = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, 6.0, 127.0, -128.0]
    if not close:  # reordered sums may overflow differently there
        edges += [high, low, tiny, -tiny, tiny / 4]
    if kind == "special":
        edges = [np.nan, np.inf, -np.inf, 0.0, -0.0]
    return np.array(edges).astype(dtype)


def _pool(count: int, seed: int) -> np.ndarray:
    """`count` normal deviates; the same for the same seed."""
    numbers = _normal()
    start = (seed * 65537) % len(numbers)
    if start + count <= len(numbers):
        return numbers[start : start + count]
    return np.resize(np.concatenate((numbers[start:], numbers)), count)


@functools.cache
def _normal() -> np.ndarray:
    return np.random.default_rng(20260101).standard_normal(1 << 20).astype(np.float32)

"""The proof of a change: before and after are run on the same inputs and compared.

"Proof" is evidence from sampling, not a theorem: a report says "checked on N inputs".
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx

from onnxq.base.reason import Reason, code_of, noted, reason
from onnxq.graph.load import graphs
from onnxq.graph.rooted import ROOT, inlined
from onnxq.graph.snippet import Snippet, SnippetInputs
from onnxq.graph.types import Dim
from onnxq.rewrite import batch, sampling
from onnxq.rewrite.changes import OFF, ProofOfChange, ProofVerdict
from onnxq.rewrite.difference import Claim, Counterexample, Difference, difference
from onnxq.rewrite.mining import mined, out_of_reach
from onnxq.rewrite.oracle import Oracle, Truth, believable, oracle
from onnxq.rewrite.together import BothSides, Sessions, Side
from onnxq.run import ort, reference
from onnxq.run.budget import made_up, too_large
from onnxq.run.ort import Feeds

_ENOUGH_BINDINGS = 3
# Few inputs: so many, of so many sizes of the dynamic dimensions.
_FEW_INPUTS, _FEW_BINDINGS = 3, 2
# ONNX's reference evaluator is slow: it runs few inputs, and begins no further run after so many seconds.
REFERENCE_SECONDS = 20.0
# Samples of more elements together are run one by one.
_MAX_BATCH = 1 << 20

BY_DEFINITION = reason("by-definition", "onnx.reference")
"""How a proof says that onnxruntime had no part in it."""

_NEVER_RUNS, _DOES_NOT_RUN = "original-does-not-run", "replacement-does-not-run"
_TOO_LARGE = "too-large-to-be-run"


@dataclass(frozen=True, slots=True)
class Proof(ProofOfChange):
    """What comparing before and after found, and what only the engine asks of it.

    `max_abs` of `close` is the distance from what double precision gives (or from the original, where nobody
    asked for that), where it is the largest share of its bound.

    Attributes:
        not_run: the number of inputs that the original did not run on.
        example: for `failed`: an input on which the two differ.
    """

    not_run: int = field(kw_only=True, default=0)
    example: Counterexample | None = field(kw_only=True, default=None)


@made_up()
def compare(
    snippet: Snippet,
    claim: Claim,
    assumed: Mapping[str, int],
    seconds: float | None = None,
    *,
    form: Sessions | None = None,
) -> Proof:
    """Runs both sides of a snippet on sampled inputs and compares their outputs.

    In onnxruntime; where that does not load the original, in ONNX's reference evaluator.

    Args:
        snippet: the two sides.
        claim: as what they must be the same.
        assumed: sizes of dimensions.
        seconds: how long all runs may take together, of a snippet that may never end; else nothing is
            proved, and nothing disproved.
        form: the sessions of its form where that is proved (`onnxq.rewrite.form`): few inputs are enough.
    """
    few = form is not None
    together = None if form is None else BothSides.of(snippet, form)
    if together is not None:
        proof = _compared(snippet, together.before, together.after, claim, assumed, few=True, oracle=together)
        if proof.holds:
            return proof
    try:
        wires = Wires.computed(snippet) if seconds is None else None
        before = wires or ort.load(snippet.before, optimize=False, threads=1, data_dir=ROOT)
    except ort.RunError as error:
        proof = _never_runs(error)
        # the evaluator cannot be stopped
        stays = seconds is not None or not ran_on_nothing(proof)
        return proof if stays else by_definition(snippet, claim, assumed, proof)
    try:
        after = Wires.of(snippet) or ort.load(snippet.after, optimize=False, threads=1)
    except ort.Bounded as error:
        return _too_large(f"the replacement: {error}")
    except ort.RunError as error:
        return Proof("failed", why=_does_not_run(error))
    return _compared(snippet, before, after, claim, assumed, seconds, few=few)


def ran_on_nothing(proof: Proof) -> bool:
    """Whether all that is known of a snippet is that the original does not run."""
    return proof.verdict == "unproven" and code_of(proof.why) == _NEVER_RUNS


def _never_runs(error: ort.RunError) -> Proof:
    if isinstance(error, ort.Bounded):
        return _too_large(f"the original: {error}")
    return Proof("unproven", why=reason(_NEVER_RUNS, "onnxruntime", error=error), refused=str(error))


def _too_large(why: str) -> Proof:
    """What is found where memory is short: that is no fault of either side."""
    return Proof("unproven", why=Reason(_TOO_LARGE, why, "onnxq"))


def _does_not_run(error: ort.RunError) -> Reason:
    return reason(_DOES_NOT_RUN, "onnxruntime", error=error)


@made_up()
def by_definition(
    snippet: Snippet,
    claim: Claim,
    assumed: Mapping[str, int],
    unproven: Proof,
    seconds: float = REFERENCE_SECONDS,
) -> Proof:
    """The proof by ONNX's reference evaluator; `unproven` where that does not run the original either.

    Args:
        snippet: the two sides.
        claim: as what they must be the same.
        assumed: sizes of dimensions.
        unproven: what onnxruntime said.
        seconds: after so many no further run of the original is begun.
    """
    try:
        before = reference.Evaluator(inlined(snippet.before), seconds)
        after = Wires.of(snippet) or reference.Evaluator(snippet.after)
    except ort.RunError:
        return unproven
    proof = _compared(snippet, before, after, claim, assumed, few=True)
    if proof.inputs == 0 and code_of(proof.why) in (_NEVER_RUNS, _DOES_NOT_RUN):
        return unproven
    text = f"{proof.why or BY_DEFINITION} ({unproven.why})"
    code = code_of(proof.why or BY_DEFINITION)
    return dataclasses.replace(proof, why=Reason(code, text, BY_DEFINITION.by), refused=unproven.refused)


def _compared(
    snippet: Snippet,
    before: _Runs,
    after: _Runs,
    claim: Claim,
    assumed: Mapping[str, int],
    seconds: float | None = None,
    *,
    few: bool = False,
    oracle: Oracle | None = None,
) -> Proof:
    """Runs both sides on sampled inputs, or on few of them; all runs together in so many seconds."""
    run = _Comparison(snippet, before, after, claim, seconds, oracle)

    def found(inputs: SnippetInputs) -> Proof:
        try:
            proof = _on_samples(snippet, inputs, run, claim, assumed, few=few)
        except _Decided as decided:
            proof = decided.proof
            if proof.verdict != "failed" and run.off is not None:  # it did not see all samples
                return dataclasses.replace(run.off, why=str(run.off.why))
            return proof
        return run.off or proof

    inputs = None if seconds is not None else smaller(snippet)
    if inputs is not None:
        proof = found(inputs)
        if proof.holds:
            return proof
        run = run.again()
    return found(snippet.inputs)


def _spoken_of(claim: Claim, samples: Iterable[Feeds]) -> Iterable[Feeds]:
    """Samples of which a claim says something."""
    if not claim.tries_extremes:
        return map(sampling.tame, samples)
    return samples if claim.tries_infinity else map(sampling.finite, samples)


def _on_samples(
    snippet: Snippet,
    inputs: SnippetInputs,
    run: _Comparison,
    claim: Claim,
    assumed: Mapping[str, int],
    *,
    few: bool,
) -> Proof:
    """What the samples tell, where all values are right.

    Raises:
        _Decided: a sample tells all.
    """
    small = _needs_small_integers(snippet.before)
    roomy: sampling.Binding | None = None
    free = sampling.is_free(inputs, assumed)
    for sizes in sampling.bindings(inputs, assumed):
        if run.is_too_large(inputs, sizes):
            continue
        # sizes that do not fit each other mostly: all other inputs of them would be in vain
        if free and run.bindings == 0 and not run.any_runs(sampling.probes(inputs, sizes, small=small)):
            continue
        full = run.bindings == 0 and not few
        samples: Iterable[Feeds] = sampling.feeds(
            inputs,
            sizes,
            full=full,
            close=claim.close,
            small=small,
            nan=claim.tries_nan,
        )
        samples = _spoken_of(claim, samples)
        if run.agree_all(itertools.islice(samples, _FEW_INPUTS if few else None)):
            run.bindings += 1
            roomy = sizes
        if run.bindings == (_FEW_BINDINGS if few else _ENOUGH_BINDINGS):
            break
    if run.count == 0:
        return run.never
    if free and run.bindings < 2:
        return Proof("unproven", run.count, run.bindings, why=noted("unproven.one-size"))
    if inputs and not few and roomy is not None:
        numbers = mined(snippet)
        samples = sampling.mined_feeds(inputs, roomy, numbers, small=small)
        run.agree_all(_spoken_of(claim, samples))
        if free:
            beside = numbers.sizes[:1] if is_local(snippet) else numbers.sizes
            # of nothing onnxruntime's own operators write no output, or divide by 0 and crash
            if small or not claim.tries_nothing or _crashes_on_nothing(snippet.before):
                beside = tuple(size for size in beside if size)
            largest = sampling.largest_dynamic(inputs, roomy)
            for more in sampling.mined_bindings(inputs, assumed, beside):
                if run.agree(sampling.ascending(inputs, more)):
                    run.bindings += 1
                    largest = max(largest, sampling.largest_dynamic(inputs, more))
            far = out_of_reach(snippet, largest)
            if far is not None:
                why = noted("unproven.far-size", size=far)
                return Proof("unproven", run.count, run.bindings, why=why)
    verdict: ProofVerdict = "exact" if claim.is_exact else "close"
    worst = run.worst
    return Proof(verdict, run.count, run.bindings, worst.gap, worst.bound, claim.text, not_run=run.not_run)


class _Decided(Exception):
    """A comparison need not go on."""

    def __init__(self, proof: Proof) -> None:
        super().__init__(proof.why)
        self.proof = proof


class _Comparison:
    """Both sides of a snippet, and what running them found so far.

    Attributes:
        count: how many inputs both ran on.
        not_run: on how many the original did not run.
        bindings: how many different sizes.
        worst: the difference that came closest to its bound.
        never: what is found where the original runs on nothing.
        off: what is found where values are off, by the most; None while all are right.
    """

    def __init__(
        self,
        snippet: Snippet,
        before: _Runs,
        after: _Runs,
        claim: Claim,
        seconds: float | None,
        oracle: Oracle | None,
    ) -> None:
        self._before, self._after, self._claim, self._seconds = before, after, claim, seconds
        self._clock = ort.Clock(seconds)
        self._oracles = iter(()) if seconds is not None or not claim.close else _oracles(snippet, oracle)
        self._oracle = next(self._oracles, None)
        self._stacks = seconds is None and is_by_sample(snippet)
        self._outputs = [output.name for output in snippet.before.graph.output]
        self._beyond = set[tuple[tuple[int, ...], ...]]()  # shapes of inputs with which too much is made
        self._reset()

    def _reset(self) -> None:
        self.count = self.not_run = self.bindings = 0
        self.off: Proof | None = None
        self.worst = Difference()
        self.never = Proof("unproven", why=noted("unproven.never-runs"))

    def again(self) -> _Comparison:
        """The same, as if nothing had been run."""
        self._reset()
        return self

    def is_too_large(self, inputs: SnippetInputs, sizes: sampling.Binding) -> bool:
        """Whether samples of some sizes would take more memory than what is made up may."""
        why = too_large(sampling.bytes_of(inputs, sizes))
        if why:
            self.never = _too_large(why)
        return bool(why)

    def agree_all(self, made: Iterable[Feeds]) -> bool:
        """Whether the original runs on any of several inputs; where it does the replacement gives the same.

        Where each sample of a batch is computed alone, they are one batch.

        Raises:
            _Decided: it does not, or one of them does not end.
        """
        rest = iter(made)
        samples, elements = list[Feeds](), 0
        while elements <= _MAX_BATCH and (feeds := next(rest, None)) is not None:
            samples.append(feeds)
            elements += sum(array.size for array in feeds.values())
        if self._stacks and len(samples) > 1 and elements <= _MAX_BATCH:
            try:
                feeds = batch.joined(samples)
                expected = self._before.run(feeds)
                if why := self._outgrown(expected):
                    raise ort.Bounded(why)
                before = batch.cut(expected, samples)
                after = batch.cut(self._after.run(feeds), samples)
                truths, swapped = self._truths(samples, before, after)
            except (ort.RunError, ValueError):
                pass  # the sample to blame is found one by one
            else:
                for results in zip(samples, before, after, truths, strict=True):
                    self._judge(*results, swapped)
                return True
        # all of them, also behind one that runs; large ones one at a time
        ran = [self.agree(feeds) for feeds in itertools.chain(samples, rest)]
        return any(ran)

    def any_runs(self, samples: Iterable[Feeds]) -> bool:
        """Whether the original runs on any of several inputs, which are not compared.

        Raises:
            _Decided: it does not end.
        """
        missed = 0
        for feeds in samples:
            try:
                self._before.run(feeds, seconds=self._clock.left())
            except ort.Endless:
                raise self._decided("unproven", f"the original: {_endless(self._seconds)}") from None
            except ort.RunError as error:
                self.never = _never_runs(error)
                missed += 1
            else:
                return True
        self.not_run += missed
        return False

    def agree(self, feeds: Feeds) -> bool:
        """Whether the original runs on an input; if so the replacement gives the same.

        Raises:
            _Decided: it does not, or one of them does not end.
        """
        if _shapes(feeds) in self._beyond:
            return False
        try:
            expected = self._before.run(feeds, seconds=self._clock.left())
        except ort.Endless:
            raise self._decided("unproven", f"the original: {_endless(self._seconds)}") from None
        except ort.Bounded as error:
            return self._passed_over(feeds, f"the original: {error}")
        except ort.RunError as error:
            self.never = _never_runs(error)
            self.not_run += 1
            return False
        if why := self._outgrown(expected):
            return self._passed_over(feeds, why)
        try:
            got = self._after.run(feeds, seconds=self._clock.left())
        except ort.Endless:
            raise self._decided("unproven", f"the replacement: {_endless(self._seconds)}") from None
        except ort.Bounded as error:
            return self._passed_over(feeds, f"the replacement: {error}")
        except ort.RunError as error:
            raise self._decided("failed", _does_not_run(error)) from None
        (truths,), swapped = self._truths([feeds], [expected], [got])
        self._judge(feeds, expected, got, truths, swapped)
        return True

    def _outgrown(self, expected: Sequence[Any]) -> str:
        """Why the outputs are not compared in double precision, which takes them several times; "" if so."""
        held = {name: 8 * np.size(one) for name, one in zip(self._outputs, expected, strict=True)}
        return too_large(held, " in double precision") if self._claim.close else ""

    def _passed_over(self, feeds: Feeds, why: str) -> bool:
        """False for an input with which what is made is too large; nor are others of its shapes tried."""
        self.never = _too_large(why)
        self.not_run += 1
        if not any(array.dtype.kind in "iu" for array in feeds.values()):  # which may say how much is made
            self._beyond.add(_shapes(feeds))
        return False

    def _judge(
        self,
        feeds: Feeds,
        expected: Sequence[Any],
        got: Sequence[Any],
        truths: Sequence[Truth | None],
        swapped: bool,
    ) -> None:
        """Compares the outputs for an input."""
        finite, extreme = sampling.is_finite(feeds), sampling.is_extreme(feeds)
        tells = not expected
        for index, (one, other, truth) in enumerate(zip(expected, got, truths, strict=True)):
            gap = difference(one, other, self._claim, truth, swapped=swapped, finite=finite, extreme=extreme)
            if gap.wrong:
                example = Counterexample(dict(feeds), index, gap.place, one, other)
                is_off = bool(np.isfinite(gap.gap))
                why = Reason(OFF, gap.wrong, "onnxruntime") if is_off else gap.wrong
                proof = Proof("failed", self.count, self.bindings, gap.gap, gap.bound, why, example=example)
                if not is_off:
                    raise _Decided(proof)
                if self.off is None or gap.gap > self.off.max_abs:  # by how much, all samples tell
                    self.off = proof
            tells |= not gap.is_open
            if self.worst.bound == 0.0 or gap.gap * self.worst.bound > self.worst.gap * gap.bound:
                self.worst = gap
        if tells:
            self.count += 1
        else:
            self.never = Proof("unproven", why=noted("unproven.rounding"))

    def _truths(
        self, samples: Sequence[Feeds], expected: Sequence[Sequence[Any]], got: Sequence[Sequence[Any]]
    ) -> tuple[Sequence[Sequence[Truth | None]], bool]:
        """What double precision gives for each sample, and whether the replacement was run in it."""
        while self._oracle is not None:
            oracle, swapped = self._oracle
            try:
                truths = oracle.run(samples)
            except ort.RunError:
                truths = None
            first = zip((got if swapped else expected)[0], truths[0] if truths else (), strict=False)
            if truths is not None and (
                self.count or all(believable(result, truth) for result, truth in first if truth is not None)
            ):
                return truths, swapped
            if self.count:
                break
            self._oracle = next(self._oracles, None)  # another function: ONNX's evaluator has its own faults
        return [[None] * len(outputs) for outputs in expected], False

    def _decided(self, verdict: ProofVerdict, why: str) -> _Decided:
        return _Decided(Proof(verdict, self.count, self.bindings, why=why))


class Wires:
    """Outputs that are there already, as inputs or constants: nothing needs to run."""

    def __init__(self, sources: Sequence[str], constants: Mapping[str, np.ndarray]) -> None:
        self._sources = sources
        self._constants = constants

    @classmethod
    def of(cls, snippet: Snippet) -> Wires | None:
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
    def computed(cls, snippet: Snippet) -> Wires | None:
        """The original's outputs where it has no inputs; None where it has, or does not run."""
        outputs = None if snippet.inputs else ort.evaluate(snippet.before)
        if outputs is None or not all(isinstance(array, np.ndarray) for array in outputs):
            return None
        names = [info.name for info in snippet.before.graph.output]
        return cls(names, dict(zip(names, outputs, strict=True)))

    def run(self, feeds: Mapping[str, np.ndarray], *, seconds: float | None = None) -> list[np.ndarray]:
        """The outputs for these inputs."""
        return [feeds[name] if name in feeds else self._constants[name] for name in self._sources]


_Runs = ort.Session | reference.Evaluator | Wires | Side


def _oracles(snippet: Snippet, own: Oracle | None) -> Iterator[tuple[Oracle, bool]]:
    """The original in double precision, and the replacement for where that one does not run; or one's own."""
    if own is not None:
        yield own, False
        return
    for model, swapped in ((snippet.before, False), (snippet.after, True)):
        in_double = oracle(model, sways=swapped)
        if in_double is not None:
            yield in_double, swapped


def _shapes(feeds: Feeds) -> tuple[tuple[int, ...], ...]:
    return tuple(array.shape for array in feeds.values())


def _endless(seconds: float | None) -> str:
    return noted("unproven.endless", seconds=seconds)


def _crashes_on_nothing(model: onnx.ModelProto) -> bool:
    """Whether onnxruntime's kernels end the process where a dimension is of size 0."""
    nodes = (node for graph in graphs(model.graph) for node in graph.node)
    crash = ("LSTM", "GRU", "RNN", "Scan", "Einsum")
    return any(node.op_type in crash or node.domain == "com.microsoft.nchwc" for node in nodes)


def _needs_small_integers(model: onnx.ModelProto) -> bool:
    """Whether large integers would do harm: they say how much is computed, or are trusted as indices.

    A Range to 2^31 takes 8 GB; onnxruntime's own operators look an index up without a check that it is
    inside of the table (the positions of an EmbedLayerNormalization, up to 1.23), and the process crashes.
    """
    nodes = (node for graph in graphs(model.graph) for node in graph.node)
    return any(node.op_type in ("Loop", "Range") or node.domain == "com.microsoft" for node in nodes)


_WINDOWS = ("Conv", "ConvTranspose", "FusedConv")
# They read what is at the same place, and a number or one a channel.
_PLACEWISE = (
    "BatchNormalization", "Relu", "LeakyRelu", "PRelu", "Clip", "Sigmoid", "HardSigmoid", "HardSwish", "Tanh",
    "Elu", "Softplus", "Erf", "Exp", "Sqrt", "Neg", "Abs", "Identity", "Cast", "Add", "Sub", "Mul", "Div",
    "Min", "Max", "Sum", "Pow", "Reciprocal",
)  # fmt: skip


def smaller(snippet: Snippet) -> SnippetInputs | None:
    """The inputs of a snippet with smaller spatial sizes; None where the sizes may matter.

    They matter to all but convolutions with stated pads and operators that work place by place. A size is
    as small as the windows allow: some places that see padding at either side, and some that see none.
    """
    rank, least = _least(snippet)
    if least is None:
        return None
    changed, inputs_now = False, []
    for name, dtype, shape in snippet.inputs:
        if len(shape) not in (rank, 0, 1):
            return None  # neither a map, nor a number, nor one a channel
        dims: list[Dim] = list(shape)
        for axis in range(2, len(shape)) if len(shape) == rank else ():
            dim = shape[axis]
            if isinstance(dim, int) and dim > least + axis:
                dims[axis] = least + axis
                changed = True
        inputs_now.append((name, dtype, tuple(dims)))
    return inputs_now if changed else None


def is_local(snippet: Snippet) -> bool:
    """Whether a snippet is made of convolutions and operators that work place by place."""
    return _least(snippet)[1] is not None


def is_by_sample(snippet: Snippet) -> bool:
    """Whether a snippet computes each sample of a batch alone: inputs are maps, constants are none."""
    rank, least = _least(snippet)
    if least is None or any(len(shape) != rank for _, _, shape in snippet.inputs):
        return False
    return not any(
        len(tensor.dims) == rank and tensor.dims[0] != 1 and tensor.name not in _weights(model)
        for model in (snippet.before, snippet.after)
        for tensor in model.graph.initializer
    )


def _weights(model: onnx.ModelProto) -> set[str]:
    return {node.input[1] for node in model.graph.node if node.op_type in _WINDOWS}


def _least(snippet: Snippet) -> tuple[int, int | None]:
    """The rank of maps, and how far the windows reach; None where sizes may matter."""
    rank = max((len(shape) for _, _, shape in snippet.inputs), default=0)
    if rank < 3:
        return rank, None
    reaches = [_reach(model, rank) for model in (snippet.before, snippet.after)]
    sizes = [reach for reach in reaches if reach is not None]
    return rank, max(sizes) if len(sizes) == 2 else None


def _reach(model: onnx.ModelProto, rank: int) -> int | None:
    """How far the windows of a model reach, and step; None where it does more than windows and places."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    reach = 3
    for node in model.graph.node:
        attributes = {attribute.name: attribute for attribute in node.attribute}
        if node.op_type in _WINDOWS:
            kind = attributes.get("auto_pad", _UNSET).s
            if "output_shape" in attributes or kind not in (b"", b"NOTSET", b"VALID"):
                return None  # pads that depend on the size
            weights = constants.get(node.input[1])
            if weights is None or len(weights.dims) != rank:
                return None
            dilation = max(attributes.get("dilations", _UNSET).ints or [1])
            stride = max(attributes.get("strides", _UNSET).ints or [1])
            reach = reach * (stride if node.op_type != "ConvTranspose" else 1)
            reach += dilation * (max(weights.dims[2:]) - 1) + stride
            continue
        if node.op_type not in _PLACEWISE or node.domain:
            return None
        if node.op_type == "BatchNormalization":
            continue
        for name in node.input:
            if name in constants and any(size != 1 for size in list(constants[name].dims)[-(rank - 2) :]):
                return None
    return reach


_UNSET = onnx.AttributeProto()

"""Fits: biases and codes of weights that follow from what runs through the quantized model.

Front to back: a layer is fitted to what the layers before it give as they are now, quantized and fitted. The
sums that codes are rounded by are of whole numbers, and each product of matrices and each run of onnxruntime
has one thread: the same bits by any number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import onnx

from onnxq.base.errors import Fault
from onnxq.base.reason import reason
from onnxq.body.formats import narrowed
from onnxq.graph.model import Model
from onnxq.graph.view import Node, Tensor
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import ChannelMap
from onnxq.quant.insert import insert
from onnxq.quant.patches import Patches
from onnxq.quant.plan import QuantPlan
from onnxq.quant.scales import quantize_weights
from onnxq.repair.activation import activation_of
from onnxq.repair.bias import logit_shifts, shifts
from onnxq.repair.layers import FitLayer, fit_layers
from onnxq.repair.moments import EXACT_ROWS, RowMoments
from onnxq.repair.rounding import rounded, second_moment
from onnxq.repair.rows import ChannelEnds, FloatRows, float_rows
from onnxq.repair.stream import Stream
from onnxq.repair.threads import Threads
from onnxq.run import ort
from onnxq.run.ort import Feeds
from onnxq.run.spill import Spill

ROWS = 4096
"""With how many rows a layer is fitted, about.

Measured: MobileNetV1's logits are as near with 2048 as with 8192 (its sums are of 256 products at most), and
SqueezeNet's with 4096 as with 8192 (of 576); a text encoder of 4096 rows in all loses 0.2 dB with half of
them. A bias wants as many: in front of an average over positions what it misses counts more than the noise
does, and SqueezeNet loses 1.2 dB with 1024."""

_FEW = 16  # rows with which nothing is fitted
_BLOCK = 8  # samples whose rows are looked at together


@dataclass(frozen=True, slots=True)
class Fitted:
    """What a fit gives.

    Attributes:
        patches: those of the draft, and what was fitted.
        rows: the most rows of activations that a layer was fitted with.
        changed: `biases`: how many layers have another bias; `codes`: how many codes of weights are not the
            nearest ones.
        skipped: layers for which less was fitted than was asked for, and why.
        rows_each: rows for each number that an output channel was fitted with: a bias is one, codes are as
            many as products are summed; of the layer with the fewest.
    """

    patches: Patches
    rows: int = 0
    changed: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    rows_each: float = math.inf


class Fitter:
    """Fits drafts of one model to the same samples.

    Attributes:
        runs: how many runs of the model there were so far.
    """

    def __init__(
        self,
        model: Model,
        plan: QuantPlan,
        samples: Callable[[], Iterable[Feeds]],
        *,
        reference: onnx.ModelProto | None = None,
        ends: Mapping[str, int] | None = None,
        runnable: Callable[[onnx.ModelProto], onnx.ModelProto] = lambda proto: proto,
        threads: int | None = None,
        budget_bytes: int = 1 << 25,
        rows: int = ROWS,
        most_terms: int = 1152,
        progress: Callable[[int, int | None], None] = lambda done, total: None,
    ) -> None:
        """Nothing is run yet.

        Args:
            model: the float model, before all edits; it is not modified.
            plan: which tensors have pairs.
            samples: gives those that fit, the same ones each time.
            reference: the same model, as onnxruntime runs it; None: it is made.
            ends: activations of which the ends of channels are wanted, with their channel axes.
            runnable: what onnxruntime runs of a model, and in which type.
            threads: samples that run side by side; None: as many as there are cores, four at most.
            budget_bytes: of activations in memory; the others go to a temporary file.
            rows: with how many a layer is fitted, about.
            most_terms: of a layer whose codes are fitted.
            progress: hears how many runs are done, of as many as there are samples.
        """
        self._model, self._plan, self._samples = model, plan, samples
        self._reference, self._wanted = reference, dict(ends or {})
        self._runnable = runnable
        self._threads = Threads(threads)
        self._spill = Spill(budget_bytes)
        self._rows, self._most_terms = rows, most_terms
        self._progress = progress
        self._floats: FloatRows | None = None
        self.runs = 0.0

    def __enter__(self) -> Fitter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Removes what is kept."""
        self._threads.close()
        self._spill.close()

    @property
    def channels(self) -> Mapping[str, ChannelEnds]:
        """The ends of channels that were asked for, of those whose rank is known."""
        return self._float_rows().ends

    def fit(
        self,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
    ) -> Fitted:
        """Fits biases and codes to the quantized model that a draft is.

        Args:
            model: the float model with the edits of the draft.
            maps: what they do to the values of tensors.
            draft: plan, ranges and patches, and which of `bias` and `gptq` a layer is to have.

        Raises:
            RunError: the model does not run on a sample.
            UserError: as `insert`.
        """
        with ort.one_thread():
            floats = self._float_rows()
            return _Fit(self, floats, model, maps, draft).run()

    def _float_rows(self) -> FloatRows:
        """What the float model gives, run once."""
        if self._floats is None:
            layers, _ = fit_layers(self._model, self._plan)
            tensors = {layer.output: layer.axis for layer in layers.values()}
            by_name = self._model.tensors()
            ranks = {}
            for name, axis in self._wanted.items():
                shape = by_name[name].shape if name in by_name else None
                if shape is not None and -len(shape) <= axis < len(shape):
                    ranks[name] = (axis, len(shape))
            count = sum(1 for _ in self._samples())
            reference = self._reference
            with ort.one_thread():
                self._floats = float_rows(
                    self._runnable(self._model.to_proto()) if reference is None else reference,
                    tensors,
                    ranks,
                    self._samples(),
                    max(1, -(-self._rows // max(1, count))),
                    self._spill,
                    self._threads,
                    data_dir=self._model.data_dir,
                    progress=lambda done: self._progress(done, count),
                )
            self.runs += self._floats.samples
        return self._floats


_HELD, _HELD_LAST = 4.0, 0.1
"""What a bias may lose that half precision holds: its square, in parts of what means miss by sample.

Of its means, not of its values: what a bias misses is the same at all positions, and stays where these are
averaged. The layers behind are fitted to it; nothing makes up for what reaches an output past them, as of a
last layer. Measured, of float16: up to 3.8 of YuNet's first layers, where that gains 0.3 dB, and 3 nodes stay
float32 in place of 32; 1.0 to 1.3 of SqueezeNet's last layer, of which it costs 2.8 dB."""


class _Fit:
    """One fit."""

    def __init__(
        self,
        fitter: Fitter,
        floats: FloatRows,
        model: Model,
        maps: Mapping[str, ChannelMap],
        draft: Draft,
    ) -> None:
        self._fitter, self._floats, self._model, self._maps, self._draft = fitter, floats, model, maps, draft
        self._threads, self._spill = fitter._threads, fitter._spill
        self._codes = dict(draft.patches.codes)
        self._biases = dict(draft.patches.biases)
        self._constants = dict(draft.patches.constants)
        self._moved = self._shifted = self._most_rows = 0
        self._rows_each = math.inf
        self._tensors = model.tensors()
        layers, skipped = fit_layers(model, draft.plan)
        self._steps = {name: draft.steps_of(name) for name in (*layers, *skipped)}
        self._skipped = {name: why for name, why in skipped.items() if self._steps[name]}
        self._layers = {name: layer for name, layer in layers.items() if self._steps[name]}
        biased = {n for n, layer in self._layers.items() if "bias" in self._steps[n] and not layer.no_bias}
        self._last = _last(model, biased)

    def run(self) -> Fitted:
        """Goes through the model."""
        patches = self._draft.patches
        inserted = insert(self._model, self._draft.plan, self._draft.scales, patches)
        proto = self._fitter._runnable(inserted.model.to_proto(handover=True))
        stops = dict.fromkeys(self._layers, 0)
        stream = Stream(proto, stops, self._spill, self._threads, data_dir=inserted.model.data_dir)
        for name in [name for name in self._layers if not stream.has(name)]:
            del self._layers[name]
            self._skipped[name] = reason("does-not-run")
        if self._layers:
            self._stream(stream)
        return Fitted(
            Patches(self._constants, self._biases, self._codes, patches.amax),
            rows=self._most_rows,
            changed={"biases": self._shifted, "codes": self._moved},
            skipped=self._skipped,
            rows_each=self._rows_each,
        )

    def _stream(self, stream: Stream) -> None:
        try:
            stream.begin(self._fitter._samples())
            if stream.samples != self._floats.samples:
                raise Fault(f"there were {self._floats.samples} samples, and now {stream.samples}")
            if not stream.samples:
                self._skipped.update(dict.fromkeys(self._layers, reason("no-sample.any")))
                return
            for stage, names in enumerate(stream.stages):
                for name in names:
                    self._fit(stream, self._layers[name])
                stream.run(stage)
                done = stream.samples * (stage + 1) // len(stream.stages)
                self._fitter._progress(done, stream.samples)
            self._fitter.runs += stream.samples
        finally:
            stream.close()

    def _fit(self, stream: Stream, layer: FitLayer) -> None:
        """Fits a layer, and tells the stream."""
        steps, name = self._steps[layer.node], layer.node
        work = _Work(self, stream, layer)
        whys = [work.why_not] if work.why_not else []
        bias = "bias" in steps and not whys
        gptq = "gptq" in steps and not whys
        if bias and layer.no_bias:
            whys.append(layer.no_bias)
            bias = False
        if gptq and (why := layer.no_codes or work.no_codes):
            whys.append(why)
            gptq = False
        if gptq and layer.terms > self._fitter._most_terms:
            whys.append(reason("many-terms", terms=layer.terms))
            gptq = False
        if bias or gptq:
            count = work.count()
            self._most_rows = max(self._most_rows, count)
            if count < _FEW:
                whys.append(reason("few-samples-to-fit", rows=count))
                bias = gptq = False
        if bias or gptq:
            self._rows_each = min(self._rows_each, count / (layer.terms if gptq else 1))
        if gptq:
            codes = work.rounded(centred=bias)
            self._moved += int(np.count_nonzero(codes != work.codes))
            work.codes = codes
            self._codes[layer.weight] = layer.from_groups(codes)
            stream.set_constant(work.codes_name, self._codes[layer.weight])
        if bias:
            self._set_bias(stream, layer, work)
        if whys:
            self._skipped[name] = "; ".join(whys)

    def _set_bias(self, stream: Stream, layer: FitLayer, work: _Work) -> None:
        old = work.bias
        exact, quantized, samples = work.both()
        output = self._tensors[layer.output]
        rank = len(layer.shape) if layer.op == "Conv" else output.rank
        if gives_logits(output, layer.axis, layer.outputs):
            shift, missed = logit_shifts(exact, quantized, samples)
        else:
            activation = activation_of(self._model, layer.output, layer.axis, layer.outputs, rank)
            shift, missed = shifts(exact, quantized, activation, samples)
        new = self._bias_in_file(layer, old.astype(np.float64) + shift / layer.beta, old)
        half = self._in_half(new)
        lost = np.square((half.astype(np.float64) - new) * layer.beta).sum()
        if lost <= (_HELD_LAST if layer.node in self._last else _HELD) * missed.sum():
            new = half
        self._shifted += bool((new.reshape(-1) != old.reshape(-1)).any())
        operands = stream.operands(layer.node)
        if layer.addend:
            self._constants[layer.bias] = new
            held = stream.constant(layer.bias)
            assert held is not None
            stream.set_constant(layer.bias, new.astype(held.dtype))
        else:
            self._biases[layer.node] = new
            held = stream.constant(operands[2]) if len(operands) > 2 and operands[2] else None
            dtype = work.dtype if held is None else held.dtype
            stream.set_bias(layer.node, new.astype(dtype))

    def _in_half(self, bias: np.ndarray) -> np.ndarray:
        """A bias as the body holds it, where it makes another type of float32."""
        kind = self._draft.body.kind
        if kind is None or bias.dtype != np.float32:
            return bias
        held = narrowed(bias, kind).astype(bias.dtype)
        return np.where(np.isfinite(held), held, bias)

    def _bias_in_file(self, layer: FitLayer, values: np.ndarray, old: np.ndarray) -> np.ndarray:
        """A bias as patches have it: of the type and the shape of the one it replaces."""
        if layer.addend:
            old = self.constant(layer.bias)
            return _as(values, old).reshape(old.shape)
        bias = _as(values, old.astype(self._tensors[layer.weight].dtype))
        if layer.bias:
            bias = bias.reshape(self.constant(layer.bias).shape)
        return bias

    def constant(self, name: str) -> np.ndarray:
        """A constant of the edited model, with the patches so far."""
        values = self._constants.get(name)
        values = self._tensors[name].constant if values is None else values
        assert values is not None
        return values


def _last(model: Model, names: Collection[str]) -> set[str]:
    """The nodes from which a way leads to an output, or into the body of a node, past all of these."""
    found: set[str] = set()
    main = {*model.nodes}
    for node in reversed(model.nodes):
        users = [user for tensor in node.outputs for user in tensor.users]
        ends = any(tensor.is_output for tensor in node.outputs)
        past = (user not in main or (user.name in found and user.name not in names) for user in users)
        if ends or any(past):
            found.add(node.name)
    return found


def _as(values: np.ndarray, old: np.ndarray) -> np.ndarray:
    """Values in the type of old ones; where they are too large for it, the old ones."""
    with np.errstate(over="ignore"):
        cast = values.astype(old.dtype)
    return np.where(np.isfinite(cast.astype(np.float64)), cast, old.reshape(-1)).astype(old.dtype)


class _Work:
    """A layer while it is fitted: its rows, its codes."""

    def __init__(self, fit: _Fit, stream: Stream, layer: FitLayer) -> None:
        self._fit, self._stream, self._layer = fit, stream, layer
        self._used: list[int] = []
        self._data = stream.codes(layer.node, 0)
        self.no_codes = ""
        self._format = layer.site.numbers
        self._plain = self._data is not None and self._data.plain(self._format)
        if not self._plain:
            self.no_codes = reason("other-input-codes", format=self._format.name)
        several = self._data is not None and self._data.scale.size != 1
        self.why_not = reason("several-scales") if several else ""
        weights = np.asarray(fit.constant(layer.weight), np.float32)
        self._weights = layer.by_group(weights)
        self.codes_name, self.dtype = stream.weights(layer.node, 1)
        amax = fit._draft.patches.amax.get((layer.site.tensor, layer.site.axis))
        codes, scales = quantize_weights(weights, layer.site.axis, amax, self._format)
        self._scales = np.broadcast_to(scales, layer.outputs).reshape(layer.groups, -1)
        self.codes = layer.by_group(fit._codes.get(layer.weight, codes))
        self._kept: dict[int, np.ndarray] | None = None
        self._moved = np.zeros(self._scales.shape)  # the mean of sums of codes, by what codes became

    @property
    def codes(self) -> np.ndarray:
        """Of its weights, [groups, outputs, terms]."""
        return self._codes

    @codes.setter
    def codes(self, values: np.ndarray) -> None:
        self._codes = values
        self._factors = values.astype(np.float32)

    @property
    def bias(self) -> np.ndarray:
        """As it is now, [outputs], less what codes moved the mean by: more, perhaps, than a fit may shift."""
        layer = self._layer
        bias = self._fit._biases.get(layer.node)
        if bias is None and layer.bias:
            bias = self._fit.constant(layer.bias)
        bias = np.zeros(layer.outputs, np.float32) if bias is None else np.asarray(bias).reshape(-1)
        return bias - (self._moved * self._steps).reshape(-1) / layer.beta if self._moved.any() else bias

    @property
    def _steps(self) -> np.ndarray:
        """What one product of codes stands for, float64 [groups, outputs]."""
        unit = float(self._data.scale.reshape(-1)[0]) if self._data is not None and self._plain else 1.0
        return self._scales.astype(np.float64) * self._layer.alpha * unit

    def _samples(self) -> Iterator[int]:
        """Those in which the float model has as many positions."""
        for sample in range(self._stream.samples):
            places = self._fit._floats.places(self._layer.output, sample)
            if places is not None and places == self._layer.places(
                self._stream.shape(self._layer.node, sample)
            ):
                yield sample

    def count(self) -> int:
        """With how many rows it is fitted."""
        self._used = list(self._samples())
        return sum(self._fit._floats.count(self._layer.output, sample) for sample in self._used)

    def _rows(self, sample: int) -> np.ndarray:
        """What is multiplied at the rows of a sample: [rows, groups, terms]."""
        if self._kept is not None:
            return self._kept[sample]
        at = self._fit._floats.of(self._layer.output, sample).at
        values = self._stream.value(self._layer.node, sample)
        if self._data is not None and not self._plain:
            values = self._data.values(values)  # what is padded is 0 then
        return self._layer.rows(values, at)

    def rounded(self, *, centred: bool) -> np.ndarray:
        """Codes by GPTQ, [groups, outputs, terms].

        Args:
            centred: the mean belongs to the bias, and weights are refitted first.
        """
        used = [*self._used[::2], *self._used[1::2]]  # two halves, for what they say of each other
        each = list(self._fit._threads.map(self._rows, used))
        ends = np.cumsum([len(one) for one in each])
        rows, middle = np.concatenate(each), int(ends[(len(used) - 1) // 2])
        del each  # of the same memory from here on
        self._kept = dict(zip(used, np.split(rows, ends[:-1]), strict=True))
        aims = self._aims(used) if centred else None
        threads, codes = self._fit._threads, []
        for group in range(self._layer.groups):
            steps = self._weights[group].astype(np.float64) / self._scales[group][:, None]
            weights = steps.astype(np.float32)
            halves = [
                RowMoments.of(some, threads, None if aims is None else aims[part, group] - some @ weights.T)
                for part in (slice(middle), slice(middle, None))
                for some in [rows[part, group].astype(np.float32)]
            ]
            aim, whole = steps, halves[0] + halves[1]
            if centred:
                aim = steps + refit(halves, np.square(self._scales[group].astype(np.float64)))
            second = second_moment(whole, centred=centred)
            codes.append(rounded(aim, second, threads.map, format=self._format))
            del second
            if centred:
                self._moved[group] = (codes[-1] - steps) @ (whole.sums / whole.count)
        return np.stack(codes)

    def _aims(self, samples: Sequence[int]) -> np.ndarray:
        """What products of codes are to be, in steps of them: float32 [rows, groups, outputs]."""
        layer, steps = self._layer, self._steps.reshape(-1)
        aims = np.concatenate([self._exact(sample) for sample in samples])
        aims -= (self.bias.astype(np.float64) * layer.beta).astype(np.float32)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            aims /= steps.astype(np.float32)
        return aims.reshape(len(aims), layer.groups, -1)

    def _exact(self, sample: int) -> np.ndarray:
        """What the float layer gives at the rows of a sample, float32 [rows, outputs]."""
        rows = self._fit._floats.of(self._layer.output, sample).rows
        change = self._fit._maps.get(self._layer.output)
        return rows if change is None or change.wide else np.asarray(change.apply(rows, 1), np.float32)

    def both(self) -> tuple[list[np.ndarray], list[np.ndarray], list[list[int]]]:
        """What the float layer gives, and what this one does: float32 [rows, outputs], in parts.

        The third says how many rows each sample of a part has, where that is not none.
        """
        parts = [self._used[start : start + _BLOCK] for start in range(0, len(self._used), _BLOCK)]
        exact = [[self._exact(sample) for sample in part] for part in parts]
        return (
            [np.concatenate(part) for part in exact],
            list(self._fit._threads.map(self._sums, parts)),
            [[len(rows) for rows in part if len(rows)] for part in exact],
        )

    def _sums(self, samples: Sequence[int]) -> np.ndarray:
        """What the layer gives at the rows of samples, float32 [rows, outputs]."""
        layer = self._layer
        rows = np.concatenate([self._rows(sample) for sample in samples])
        sums = _products(rows.astype(np.float32), self._factors)
        sums *= self._steps.astype(np.float32)
        outputs = sums.reshape(len(rows), layer.outputs)
        outputs += (self.bias.astype(np.float64) * layer.beta).astype(np.float32)
        return outputs


def _products(rows: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """The products of rows and weights, group by group: float32 [rows, groups, outputs].

    Those of codes are exact as far as `EXACT_ROWS` of them are summed, and added up in one order: the same
    bits by any library of matrix products.

    Args:
        rows: float32 [rows, groups, terms].
        wide: float32 [groups, outputs, terms].
    """
    groups, outputs, terms = wide.shape
    total = np.empty((len(rows), groups, outputs), np.float32)
    for start in range(0, max(terms, 1), EXACT_ROWS):
        part = slice(start, start + EXACT_ROWS)
        if groups == 1:
            product = (rows[:, 0, part] @ wide[0, :, part].T)[:, None]
        else:
            product = np.einsum("rgt,got->rgo", rows[:, :, part], wide[:, :, part])
        if start:
            total += product
        else:
            total[:] = product
    return total


# Weights with which products of quantized inputs give what the float layer gives.
#
# GPTQ makes up for the rounding of weights, on inputs as if they were exact. They are not: they are codes,
# of a model that is quantized in front of the layer. With x these inputs, Y what the float layer gives and
# R = Y - W x, the change D of the weights is where |R - D x|^2 + penalty |D|^2 is least, ridge regression:
# D = E[R xT] (E[x xT] + penalty I)^-1, as in ERQ (arXiv 2407.06794); GPTAQ (arXiv 2504.02692) aims at the
# same, term by term. What a fit to one half of the samples gains on the other half chooses the penalty, or
# that nothing is changed.

PENALTIES = (3.0, 0.3, 0.03, 0.003)
"""Of the mean of the diagonal of E[x xT]; each is tried where the one before it gained most so far."""

_OUTPUTS = 128  # that choose the penalty, about: evenly spread over all


def refit(halves: Sequence[RowMoments], price: np.ndarray) -> np.ndarray:
    """What is to be added to weights; the means belong to the bias.

    Args:
        halves: of the rows of two halves of the samples.
        price: what the square of an error of an output counts, float64 [outputs].

    Returns:
        float64 [outputs, terms]; 0 where no change is shown to gain.
    """
    whole = halves[0] + halves[1]
    if not all(half.count and np.isfinite(half.crossed).all() for half in halves):
        return np.zeros(whole.crossed.shape)
    some = slice(None, None, max(1, len(price) // _OUTPUTS))
    second = [half.second(centred=True) for half in halves]
    cross = [half.cross()[some] for half in halves]

    def gain(penalty: float) -> float:
        total = 0.0
        for fits, judges in ((0, 1), (1, 0)):
            change = _ridge(second[fits], cross[fits], penalty)
            error = ((change @ second[judges] - 2 * cross[judges]) * change).sum(axis=1)
            total -= halves[judges].count * float(price[some] @ error)
        return total

    best, most = 0.0, 0.0
    for penalty in PENALTIES:
        gained = gain(penalty)
        if not gained > most:  # a lesser one fits chance the more
            break
        best, most = penalty, gained
    if not best:
        return np.zeros(whole.crossed.shape)
    return _ridge(whole.second(centred=True), whole.cross(), best)


def _ridge(second: np.ndarray, cross: np.ndarray, penalty: float) -> np.ndarray:
    diagonal = np.diagonal(second)
    added = penalty * float(diagonal.mean())
    if not added > 0:
        return np.zeros(cross.shape)
    damped = second.copy()
    damped[np.diag_indices_from(damped)] += added
    return np.asarray(np.linalg.solve(damped, cross.T).T)


# Which layers give logits: what they give is moved about, and read by a Sigmoid alone.
#
# Between is whatever puts the heads of a detector together: their channels are followed.

_FURTHEST = 64  # nodes


class _Span(NamedTuple):
    """Channels on their way: those from `start` to `stop` along an axis of a tensor."""

    tensor: Tensor
    axis: int
    start: int
    stop: int


def gives_logits(tensor: Tensor, axis: int, channels: int) -> bool:
    """Whether all of a layer's channels are read by Sigmoids, however they are moved before.

    Args:
        tensor: what the layer gives.
        axis: its channel axis.
        channels: how many there are.
    """
    rank = tensor.rank
    if rank is None:
        return False
    waiting, seen = [_Span(tensor, axis % rank, 0, channels)], 0
    while waiting:
        span = waiting.pop()
        if span.tensor.is_output or not span.tensor.users:
            return False
        for user in span.tensor.users:
            seen += 1
            if user.domain or seen > _FURTHEST:
                return False
            if user.op == "Sigmoid":
                continue
            moved = list(_moved(user, span))
            if not moved and user.op not in ("Split", "Slice"):
                return False
            waiting += moved
    return True


def _moved(node: Node, span: _Span) -> Iterator[_Span]:
    """Where channels are behind a node that only moves them; nothing where it is another one."""
    tensor, axis, start, stop = span
    shape, out = tensor.shape, node.outputs[0]
    match node.op:
        case "Identity" | "Cast":
            yield span._replace(tensor=out)
        case "Concat" if (rank := tensor.rank) is not None:
            before = node.inputs[: node.inputs.index(tensor)]
            along = node.attr("axis", 0) % rank == axis
            sizes = [None if t is None or t.shape is None else t.shape[axis] for t in before] if along else []
            if all(isinstance(size, int) for size in sizes):
                offset = sum(size for size in sizes if isinstance(size, int))
                yield _Span(out, axis, start + offset, stop + offset)
        case "Transpose" if (perm := node.attr("perm")) is not None:
            yield span._replace(tensor=out, axis=list(perm).index(axis))
        case "Reshape" | "Flatten" | "Squeeze" | "Unsqueeze":
            # the channels stay one axis where it, and all in front of it, are as they were
            front = None if shape is None or out.shape is None else list(out.shape[: axis + 1])
            if shape is not None and front == list(shape[: axis + 1]):
                yield span._replace(tensor=out)
        case "Split" | "Slice":
            yield from _cut(node, span)


def _cut(node: Node, span: _Span) -> Iterator[_Span]:
    """What parts of a tensor hold of the channels."""
    tensor, axis, start, stop = span
    rank, shape = tensor.rank, tensor.shape
    if rank is None or shape is None:
        yield span._replace(tensor=tensor)
        return
    if node.op == "Split":
        if node.attr("axis", 0) % rank != axis:
            yield from (span._replace(tensor=out) for out in node.outputs)
            return
        first = 0
        for out in node.outputs:
            size = None if out.shape is None else out.shape[axis]
            if not isinstance(size, int):
                return
            if (low := max(start, first)) < (high := min(stop, first + size)):
                yield _Span(out, axis, low - first, high - first)
            first += size
        return
    starts, ends, axes, steps = (
        _numbers(one) for one in (*node.inputs[1:5], *[None] * (5 - len(node.inputs)))
    )
    if starts is None or ends is None:
        return
    cut = list(range(len(starts))) if axes is None else [one % rank for one in axes]
    if axis not in cut:
        yield span._replace(tensor=node.outputs[0])
        return
    place, size = cut.index(axis), shape[axis]
    if not isinstance(size, int) or (steps is not None and steps[place] != 1):
        return
    first, last, _ = slice(starts[place], ends[place]).indices(size)
    if (low := max(start, first)) < (high := min(stop, last)):
        yield _Span(node.outputs[0], axis, low - first, high - first)


def _numbers(tensor: Tensor | None) -> list[int] | None:
    values = None if tensor is None else tensor.constant
    return None if values is None else [int(one) for one in np.ravel(values)]

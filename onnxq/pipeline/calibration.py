"""The calibration step: which tensors are measured, on which samples, and what was found."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

import numpy as np
import onnx

from onnxq.base.errors import UserError
from onnxq.base.reason import code_of, noted, reason
from onnxq.calib import stats_file, trt_cache
from onnxq.calib.collect import Counting, Request, Watch, collect
from onnxq.calib.shapes import shapes_of
from onnxq.calib.stats import Stats
from onnxq.calib.stats_file import StatsFile
from onnxq.data.samples import Sample, digest
from onnxq.data.sources import Source
from onnxq.data.split import Split, split
from onnxq.formats import INT8
from onnxq.graph.deciders import freeze_hint
from onnxq.graph.layers import balance, layer_of, multiplies, other_macs
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, is_float
from onnxq.graph.view import Node
from onnxq.options.config import LayerRule
from onnxq.options.method import parameters, searched
from onnxq.options.parameters import stated
from onnxq.options.settings import Calibration, Feeding, Format
from onnxq.pipeline.building import FloatModel
from onnxq.pipeline.file_pairs import of_groups
from onnxq.pipeline.job import Job
from onnxq.pipeline.layer_rules import LayerRules
from onnxq.quant.draft.body import BodyPlan
from onnxq.quant.draft.draft import Draft
from onnxq.quant.draft.edits import FloatEdit
from onnxq.quant.draft.from_file import draft_of, edited_as_stated
from onnxq.quant.heads import in_float
from onnxq.quant.placement import make_plan
from onnxq.quant.plan import VETOES, QuantPlan
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.ranges import Range
from onnxq.quant.thresholds import Method, needs_histogram
from onnxq.quant.weights import WeightsStated
from onnxq.run import ort
from onnxq.run.deployment import Deployment
from onnxq.run.deployments import main_of

GOAL = "goal"
"""The code of what is left in float for a goal, see `onnxq.pipeline.accuracy`."""

STATED = reason("cache", "user")


@dataclass(frozen=True, slots=True)
class Calibrating(Calibration):
    """How a model is calibrated, with what is said elsewhere than among the options of calibration.

    Attributes:
        layers: what is different for some layers.
        skip_bad: whether bad samples are left out.
        own_methods: those that a plan file names for single tensors.

    Raises:
        UserError: a value makes no sense.
    """

    layers: tuple[LayerRule, ...] = ()
    skip_bad: bool = False
    own_methods: tuple[str, ...] = ()

    @staticmethod
    def of(options: Calibration, layers: Sequence[LayerRule], feeding: Feeding) -> Calibrating:
        """That of the user's options.

        Raises:
            UserError: a value makes no sense.
        """
        values = {entry.name: getattr(options, entry.name) for entry in fields(options)}
        calibrating = Calibrating(**values, layers=tuple(layers), skip_bad=feeding.skip_bad)
        _ = calibrating.parameters  # which are checked
        return calibrating

    @property
    def default(self) -> Method:
        """The method where none is chosen by the outputs."""
        name = self.method
        if name == "auto":
            return Method(searched()[0] if self.search else "mse")
        own = [key for key, owner in parameters().items() if owner.name == name]
        return Method(name, **{key: getattr(self, key) for key in own})

    @property
    def parameters(self) -> Method:
        """The parameters of the methods of `[[layer]]` entries that leave them open."""
        return Method("mse" if self.method == "auto" else self.method, **stated(self))

    @property
    def chooses(self) -> bool:
        """Whether scales are chosen by the model's outputs."""
        return self.method == "auto" or self.search

    @property
    def counting(self) -> Counting:
        """What the histograms are made of."""
        own = [
            *self.own_methods,
            *(rule.method for rule in self.layers if rule.method and rule.of != "weights"),
        ]
        counted = any(needs_histogram(Method(name)) for name in own)
        if not (self.chooses or needs_histogram(self.default) or counted):
            return "none"
        return "exact" if self.exact else "sampled"


@dataclass(frozen=True, slots=True)
class Prepared:
    """A model that is ready to be calibrated.

    Attributes:
        draft: what is going to be quantized, with what a plan file states of it.
        floats: the model without pairs.
        unedited: the reference without the draft's edits; where a file's pairs are adopted, the file.
        layers: the `[[layer]]` that gives a tensor its range.
        steps: which steps of repair nodes may have that not all may have.
        weights: what entries about weights make of them, by weight.
        measured: the tensors whose ranges are measured, in any of the formats that are asked for.
        drafted: the draft whose layers have these number formats, by name, without measured ranges; and the
            `[[layer]]` that gives a tensor its range.
    """

    draft: Draft
    floats: FloatModel
    unedited: onnx.ModelProto
    layers: Mapping[str, LayerRule]
    steps: Mapping[str, tuple[str, ...]]
    weights: Mapping[str, WeightsStated]
    measured: tuple[str, ...]
    drafted: Callable[[Mapping[str, str]], tuple[Draft, Mapping[str, LayerRule]]]

    def without(self, empty: Collection[str]) -> Prepared:
        """The same with what reads tensors without values, whose ranges nobody knows, in float."""

        def drafted(formats: Mapping[str, str]) -> tuple[Draft, Mapping[str, LayerRule]]:
            draft, rules = self.drafted(formats)
            return draft.without(empty, self.floats.model), rules

        if not empty:
            return self
        draft = self.draft.without(empty, self.floats.model)
        measured = tuple(name for name in self.measured if name not in empty)
        return replace(self, draft=draft, measured=measured, drafted=drafted)


def prepare(
    job: Job,
    deployments: Sequence[Deployment],
    format: Format,
    layers: Sequence[LayerRule],
    body: BodyPlan,
    file: PlanFile | None = None,
    *,
    quantizes: bool = True,
    usual: Sequence[Sample | None] = (),
) -> Prepared:
    """Upgrades the model where Q/DQ needs it, and plans; what the user may not expect is noted by the job.

    Args:
        job: of a sanitized model.
        deployments: what it is for: their usual sizes, and their shares of the work.
        format: what is kept in float, as globs, and the form of weight scales.
        layers: what the configuration says of layers.
        body: what is not quantized.
        file: the plan to obey; where it says something, the configuration does not count.
        quantizes: whether anything is to be quantized.
        usual: a typical sample of each, for sizes that inference leaves open; none where there are no data.

    Raises:
        UserError: a glob or an entry matches nothing.
    """
    if job.model.opset < job.opset:
        with job.step("upgrade"):
            job.upgrade()
    with job.step("plan"):
        main, several = main_of(deployments), deployments if len(deployments) > 1 else ()
        job.model.set_typical_input(main.usual, [(one.name, one.weight, one.usual) for one in several])
        floats = FloatModel.of(job)
        unedited = floats.reference
        if job.taken is not None and job.taken.adopted:
            unedited = job.runnable(job.part(job.taken.file)[0])
        edits: tuple[FloatEdit, ...] = ()
        if file is not None and file.repair.edits:
            model, edits = edited_as_stated(file, job.model)
            floats = floats.edited(job, model)
        model = floats.model
        if usual and (first := usual[deployments.index(main)]) is not None:
            measure_open_sizes(job, floats, first, usual)
        balance(model)
        vetoes: dict[str, str] = {
            node: reason("not-calibrated", op=op) for node, op in floats.not_run.items()
        }
        vetoes.update(body.asked)
        own = LayerRules(model, layers)
        rules = job.rules if quantizes else ()
        if file is None:
            vetoes.update(in_float(model) if format.loud == "float" else {})
            vetoes.update(own.floats)

        def make(
            floats: Mapping[str, str], wanted: Mapping[str, Sequence[int]], formats: Mapping[str, str]
        ) -> QuantPlan:
            # plans name the tensors of the model before edits
            vetoed = {**floats, **vetoes}
            ops = format.keep_float_op
            plan = make_plan(job.model, rules, format.keep_float, vetoed, wanted, ops, formats)
            return plan.per_tensor() if file is None and format.scale_form == "per-tensor" else plan

        methods: Mapping[str, LayerRule] = {}
        if file is None:
            draft = Draft(make({}, {}, {}))
        else:
            draft, methods, notes = draft_of(file, edits, model, make)
            job.notes.extend(notes)

    def with_stated(draft: Draft) -> tuple[Draft, Mapping[str, LayerRule], list[str]]:
        """A draft with what is stated of its ranges; the `[[layer]]` of the others; what is to be said."""
        ranges, taken = own.ranges(draft.plan), job.taken
        notes: list[str] = []
        amax = {**own.weights(draft.plan), **draft.patches.amax}
        if file is None and taken is not None:
            said = taken.ranges(draft.plan) if taken.adopted else {}
            notes += taken.told(draft.plan, said, judged=any(one is not None for one in usual))
            asked = {name: said[name] for name in draft.plan.measured if name in said and name not in ranges}
            draft = replace(draft, ranges={**asked, **draft.ranges})
            amax = {**(taken.weights(draft.plan, model) if taken.adopted else {}), **amax}
        draft = replace(draft, patches=replace(draft.patches, amax=amax), body=body)
        left = {name: rule for name, rule in {**ranges, **methods}.items() if name not in draft.ranges}
        return draft, left, notes

    def drafted(formats: Mapping[str, str]) -> tuple[Draft, Mapping[str, LayerRule]]:
        return with_stated(Draft(make({}, {}, formats)))[:2]

    draft, ranges, said = with_stated(draft)
    job.notes.extend([*said, *own.notes])
    stated = dict(own.stated)  # other drafts have their own
    if layers and file is not None:
        job.notes.append(noted("layers-beside-plan"))
    measured = draft.plan.measured
    for name in [*job.target.formats][1:] if file is None and quantizes else ():
        other, _ = drafted({layer.node: name for layer in draft.plan.layers})
        measured = tuple(dict.fromkeys((*measured, *other.plan.measured)))
        drafted({})  # the graph has the formats of the draft again
    return Prepared(draft, floats, unedited, ranges, own.steps, stated, measured, drafted)


def activations(plan: QuantPlan, floats: FloatModel) -> tuple[str, ...]:
    """The float activations of the main graph: those that TensorRT's own calibration has scales for.

    Without those that the user keeps in float, and those that onnxruntime does not compute.
    """
    kept = {entry.node for entry in plan.kept_float if code_of(entry.because) in (*VETOES, GOAL)}
    names = [one.name for one in floats.model.inputs if one.dtype is not None and is_float(one.dtype)]
    for node in floats.model.nodes:
        if node.name not in kept:
            names += [t.name for t in node.outputs if t.dtype is not None and is_float(t.dtype)]
    computed = floats.computed
    return tuple(name for name in names if name in computed)


@dataclass(slots=True)
class Given:
    """Statistics that the user gives: read before anything else is done.

    Attributes:
        path: the file.
        stats: what `onnxq calibrate` wrote, or None.
        cache: a TensorRT calibration cache, or None.
    """

    path: Path
    stats: StatsFile | None = None
    cache: trt_cache.Cache | None = None

    @staticmethod
    def read(path: str | os.PathLike[str], *, partial: bool = False) -> Given:
        """Reads either.

        Args:
            path: the file.
            partial: whether statistics may lack samples, those of some shards.

        Raises:
            UserError: it is neither, or lacks samples.
        """
        path = Path(path)
        if trt_cache.is_cache(path):
            return Given(path, cache=trt_cache.read_cache(path))
        given = Given(path, stats=stats_file.read(path))
        given._check_samples(partial)
        return given

    def _check_samples(self, partial: bool) -> None:
        assert self.stats is not None
        hint = "merge it with those of the other shards: onnxq calibrate --merge"
        if not self.stats.stats.samples:
            raise UserError(f"{str(self.path)!r} holds statistics of no samples", hint=hint)
        if self.missing and not partial:
            raise UserError(
                f"{str(self.path)!r} {self._lacks()}",
                hint=f"{hint}; or take what is there: partial = true under [calibration] of onnxq.toml",
            )

    @property
    def missing(self) -> list[int]:
        """The samples that statistics lack, by index."""
        return self.stats.missing if self.stats is not None else []

    @property
    def notes(self) -> list[str]:
        """What the user may not expect."""
        return [f"{self.path} {self._lacks()}"] if self.missing else []

    def _lacks(self) -> str:
        assert self.stats is not None
        held, chosen = self.stats.stats.samples, self.stats.origin.samples
        return noted("partial-statistics", held=held, chosen=chosen, missing=self.stats.missing_text())

    def check_model(self, job: Job) -> None:
        """Refuses statistics of another model.

        Raises:
            UserError: they are.
        """
        if self.stats is not None and self.stats.origin.model != job.fingerprint():
            raise UserError(
                f"{str(self.path)!r} holds statistics of another model: its hash has changed, or what "
                "--shape, --assume and --freeze state of its inputs, or --pairs of its pairs",
                hint="take them again: onnxq calibrate MODEL --calib DATA",
            )

    def check_data(self, source: Source) -> None:
        """Refuses statistics of other data, as far as the first, the middle and the last sample tell.

        Raises:
            UserError: they are.
        """
        if self.stats is None:
            return
        indices = self.stats.stats.indices
        places = sorted({0, len(indices) // 2, len(indices) - 1})
        samples = {sample.index: sample for sample in source.good(indices[places].tolist())}
        for place in places:
            sample = samples.get(int(indices[place]))
            if sample is None or digest(sample) != self.stats.digests[place].tobytes():
                where = f"sample {indices[place]}" + (f" ({sample.where})" if sample is not None else "")
                raise UserError(
                    f"{str(self.path)!r} holds statistics of other data: {where} is another one now, or is "
                    "prepared in another way",
                    hint="give the data and the image options of the statistics, or take them again",
                )


def divide(
    source: Source, options: Calibrating, given: Given | None, *, choose: bool, confirm: bool = False
) -> tuple[Split, Iterator[Sample]]:
    """Divides the samples; see `onnxq.data.split`.

    Returns:
        The parts, and an iterator over the samples that calibrate.

    Raises:
        UserError: they are not those of the given statistics.
    """
    seen = None
    if given is not None and given.stats is not None:
        seen = frozenset(map(int, given.stats.stats.indices))
        if source.count is not None and max(seen) >= source.count:
            raise UserError(
                f"{str(given.path)!r} holds statistics of other data: of a sample {max(seen)}, and there "
                f"are only {source.count} now",
                hint="give the data that the statistics were taken of, or take them again",
            )
    parts = split(source, options.samples, options.seed, choose=choose, confirm=confirm, seen=seen)
    return parts, parts.calibration()


def measure(
    job: Job,
    prepared: Prepared,
    tensors: Sequence[str],
    bounded: Sequence[str],
    counting: Counting,
    samples: Iterator[Sample],
    first: Sample,
    total: int | None,
    skip: Callable[[Sample, UserError], None] | None,
    channels: Mapping[str, int] | None = None,
    done: int = 0,
) -> Stats:
    """Takes statistics of tensors, and the ends of others; of none where no part of the model runs.

    `channels` is the channel axis of those tensors whose channels are told apart; `done`: how many samples
    were taken before.

    Raises:
        UserError: see `collect`.
    """
    floats = prepared.floats
    if not floats.runs:
        return Stats({}, np.zeros(0, np.int64))
    (ready,) = job.feeds([first])
    computed = floats.computed
    request = Request(
        tensors, counting, [name for name in bounded if name in computed], channels or {}, samples=total,
        shapes=floats.model.typical_shapes, first=ready,
    )  # fmt: skip
    watch = Watch(lambda more: job.observe("calibrate", done + more, total), skip)
    try:
        return collect(
            floats.reference, request, job.feeds(samples), data_dir=floats.model.data_dir, watch=watch
        )
    except ort.RunError as error:
        raise unloadable(error, job.model) from error


def unloadable(error: ort.RunError, model: Model) -> UserError:
    """The error for a float model that onnxruntime does not load."""
    if error.hint:
        hint = error.hint
    elif error.is_about_types:
        hint = "calibration runs the float model on the CPU: export it in float32"
    else:
        hint = freeze_hint(model.to_proto(weights=False)) or (
            "calibration runs the float model on the CPU: export one that onnxruntime takes, or cut off what "
            "it refuses: onnxq pieces split MODEL --at TENSOR"
        )
    return UserError(f"onnxruntime does not load the model: {error}", hint=hint)


def stated_by(cache: trt_cache.Cache | None, plan: QuantPlan) -> dict[str, Range]:
    """The ranges that a calibration cache states; those of a group's sources by any member."""
    if cache is None:
        return {}
    return of_groups(
        {name: Range(float(s) * INT8.greatest, STATED) for name, s in cache.scales.items()}, plan
    )


# Sizes of layers that inference leaves open, as they are in a sample: behind a Loop, a NonZero and such.


def measure_open_sizes(
    job: Job, floats: FloatModel, sample: Sample, each: Sequence[Sample | None] = ()
) -> None:
    """Completes the model's typical shapes for layers of which a size is not known, by one run.

    A sample that does not run leaves them open: calibration says so, or skips it.

    Args:
        job: of the model.
        floats: the model, whose typical shapes are those that inference finds.
        sample: the sample that they are typical of.
        each: the samples that its workloads are typical of, in their order.
    """
    model, reference = floats.model, floats.reference
    made = floats.computed
    layers = [node for node in model.nodes if multiplies(node) and _is_open(node)]
    read = [
        tensor for node in layers for tensor in (*node.operands(2), node.outputs[0]) if tensor is not None
    ]
    names = list(dict.fromkeys(t.name for t in read if t.name in made and not t.is_constant))
    if not names:
        return

    def completed(known: Mapping[str, Shape], own: Sample | None) -> dict[str, Shape]:
        try:
            fed = list(job.feeds([own])) if own is not None else []
            by_sample = [shapes_of(reference, names, one, known, model.data_dir) for one in fed]
        except (UserError, ort.RunError):
            return dict(known)
        # where the sample has nothing (a detection, say), it tells nothing of others
        measured = {name: shape for one in by_sample for name, shape in one.items() if 0 not in shape}
        return {**known, **measured}

    model.typical_shapes = completed(model.typical_shapes, sample)
    model.workloads = tuple(
        replace(one, shapes=completed(one.shapes, own))
        for one, own in zip(model.workloads, each if model.workloads else (), strict=True)
    )


def _is_open(node: Node) -> bool:
    layer = layer_of(node, quantized=True)
    return (other_macs(node) if layer is None else layer.macs) is None

"""A model on its way through the steps: loading, the user's statements, repair, the report."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx.external_data_helper import load_external_data_for_model

from onnxq.base import remarks
from onnxq.base.errors import UserError, unknown_name
from onnxq.base.plain import extended
from onnxq.base.process import cpu_seconds, peak_memory_mb
from onnxq.base.progress import Observer, told
from onnxq.base.reason import noted, reason
from onnxq.base.shown import counted, shorten
from onnxq.base.time_limit import TimeLimit
from onnxq.base.version import VERSION
from onnxq.data.glance import Glance
from onnxq.data.layout import deployed_batch
from onnxq.data.samples import InputSpec, Sample, as_float32, named, specs_of
from onnxq.data.sources import DataSource, Source, open_source
from onnxq.data.warnings import DataDoubts
from onnxq.documents.changes import ChangeOfInterface, ChangesCounted, ExactProduct, FileSizes
from onnxq.documents.data import DataPlaced
from onnxq.documents.report import REPORT_SCHEMA, Nothing, Report, RunDocument
from onnxq.formats import FORMATS
from onnxq.graph import plainly
from onnxq.graph.deciders import freeze_hint
from onnxq.graph.fingerprint import fingerprint
from onnxq.graph.inlining import inlining
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.names import LONGEST, long_ends, long_names
from onnxq.graph.pairs import PairIndex
from onnxq.graph.parts import runnable_part
from onnxq.graph.past import Lengths, caches, lengths
from onnxq.graph.plainly import densify, has_other_floats, lower_opset, speaks_bfloat16
from onnxq.graph.types import Shape, bind, shape_text
from onnxq.graph.unquantized import QUANTIZED, centre_codes, unquantized, without_pairs
from onnxq.graph.upgrade import BLOCKS, upgrade, withdrawn
from onnxq.graph.validity import check_sizes
from onnxq.graph.view import every_node
from onnxq.judge.output_parts import OutputParts
from onnxq.options.settings import PAIRS, Feeding, ImageOptions, Inputs, Repairs
from onnxq.pipeline.engine_part import engine_not_run
from onnxq.pipeline.file_pairs import TakenPairs, in_whole_numbers, not_in_blocks
from onnxq.pipeline.not_taken import deciding_inputs, miscomputed, misread_pairs, plugin_nodes, unsupported
from onnxq.pipeline.recorded_run import place_of
from onnxq.pipeline.result import Result
from onnxq.pipeline.runtime import taken_by_runtime
from onnxq.pipeline.sanitizing import Sanitizing
from onnxq.pipeline.stated_batch import StatedBatch, stated_batch
from onnxq.rewrite.changes import Assumption, Change
from onnxq.rewrite.engine import RewriteReport
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.whole import Differs, WholeModel, proof_of
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules, select
from onnxq.run import ort, own_ops
from onnxq.run.deployment import Deployment
from onnxq.run.deployments import all_deployed, stated_deployments
from onnxq.run.phases import PHASES, phases
from onnxq.run.versions import newest_opset, unreadable
from onnxq.targets import Target, load_target

R = TypeVar("R", bound=RunDocument)


@dataclass(frozen=True, eq=False, repr=False)
class Job:
    """One run over one model: the model, its clock and what its report will say.

    Nothing of it is another one later: what changes the model gives another job, which shares the clock and
    the notes.

    Attributes:
        source: the model as the user gave it.
        repairs: how the user wants it repaired.
        inputs: what the user states of its inputs.
        target: what it is made ready for.
        rules: those that are on.
        model: the model as it stands.
        observe: is told the steps.
        limit: when its searches end.
        before: inputs and outputs of the model as it was.
        first_nodes: how many nodes it had.
        was_opset: its opset, where that was lowered.
        whole: compares the whole model with what it was; None where nothing is proved.
        stated: what the user states, for the report.
        rewrites: what rules did.
        notes: what the user may not expect of its calibration, as it is noticed.
        phases: how long steps took so far, by name, seconds.
        began: when it began, and what the processors had taken by then.
        in_blocks: whether the opset was raised so that weights stay in blocks.
        by_plan: whether a plan states the sizes.
        wide_io: whether inputs that are of half precision in the data are float32.
        place: where the data are, see `place_of`.
        data_names: what inputs are called in the data.
        glance: what was seen of the data; None without any.
        parts: those of the outputs, found on samples; None until then.
        pairs: what becomes of the pairs that the file came with, of `onnxq.options.settings.PAIRS`.
        inexact: how many of them are kept, as nobody asks for anything else, and become float arithmetic, as
            int8 around 0 does not hold their numbers.
        taken: those pairs, where they were taken out; None until then, and where they are kept.
        batch: how the batch was made dynamic; None where it is as it was.
    """

    source: ModelSource
    repairs: Repairs
    inputs: Inputs
    target: Target
    rules: Sequence[Rule]
    model: Model
    observe: Observer
    limit: TimeLimit
    before: Mapping[str, tuple[str, str]]
    first_nodes: int
    was_opset: int | None
    whole: WholeModel | None
    stated: Sequence[Assumption]
    phases: dict[str, float]
    began: tuple[float, float]
    rewrites: RewriteReport = field(default_factory=RewriteReport)
    notes: list[str] = field(default_factory=list)
    in_blocks: bool = False
    by_plan: bool = False
    wide_io: bool = False
    place: DataPlaced | None = None
    data_names: Mapping[str, str] | None = None
    glance: Glance | None = None
    parts: OutputParts | None = None
    pairs: str = "keep"
    inexact: int = 0
    taken: TakenPairs | None = None
    batch: StatedBatch | None = None

    @staticmethod
    def of(
        source: ModelSource,
        repairs: Repairs,
        inputs: Inputs,
        observe: Observer | None,
        time_limit: float | None = None,
        formats: Sequence[str] = (),
    ) -> Job:
        """Loads a model, and applies what the user states about its inputs.

        `time_limit`: the seconds after which its searches end; None: they take as long as they take.
        `formats`: the number formats of its plans, by name; none: those of the model's own pairs, where the
        target has them, else the target's first one.

        Raises:
            UserError: it or an option cannot be used.
        """
        began, phases = (time.perf_counter(), cpu_seconds()), dict[str, float]()
        limit = TimeLimit(time_limit)
        heard = limit.observing(told(observe))
        target = load_target(repairs.target).with_plugins(repairs.plugin)
        if formats:
            target = target.in_formats(formats)
        known = load_rules(repairs.rules)
        for name in repairs.accept:
            if name not in {rule.id for rule in known}:
                raise unknown_name("rule", name, [rule.id for rule in known])
        rules = select(known, repairs.enable, repairs.skip)
        with _timed(heard, phases, "load"):
            model = _opened(source)
            why, was = unreadable(model.source), model.opset
            newer = _lowered(model, repairs.prove) if why is not None else ""
            if why is not None and newer:
                raise UserError(
                    f"the model has {why}",
                    hint=f"export it with an older opset, or upgrade onnxruntime ({newer})",
                )
            if not formats:
                held = PairIndex.of(model).formats
                target = target.in_formats([name for name in held if name in target.formats])
            model.set_target(target)
        before, nodes = interface(model), len([*every_node(model)])
        whole = WholeModel(model) if repairs.prove != "never" else None
        stated, fixed = _stated(model, inputs)
        check_sizes((one.name, bind(one.shape, model.assumed)) for one in model.inputs)
        if whole is not None and stated + list(inputs.shapes or ()):
            whole = WholeModel(model, fixed, stated=True)
        job = Job(
            source, repairs, inputs, target, rules, model, heard, limit, before, nodes,
            None if why is None else was, whole, stated, phases, began,
        )  # fmt: skip
        job = job._batched(fixed)
        pairs, inexact = job._pairs_asked()
        return replace(job, pairs=pairs, inexact=inexact)

    def step(self, name: str) -> AbstractContextManager[None]:
        """Times a step and tells the observer."""
        return _timed(self.observe, self.phases, name)

    def spent(self) -> tuple[float, float]:
        """What the run has taken so far: seconds, and seconds of the processors, children included."""
        began, taken = self.began
        return time.perf_counter() - began, cpu_seconds() - taken

    @property
    def statements(self) -> tuple[Mapping[str, Any] | None, ...]:
        """What is stated of inputs: shapes, sizes of dimensions, values."""
        return self.inputs.shapes, self.inputs.assume, self.inputs.freeze

    def _batched(self, fixed: Mapping[str, np.ndarray]) -> Job:
        """The job of the model with the batch that is stated, where another one is written into it.

        `fixed`: the values of inputs that are constants now.
        """
        if not self.inputs.batch or self._has_fixed_batch():
            return self
        made = stated_batch(
            self._file,
            WholeModel(self.model, fixed, stated=True),
            self.input_specs(),
            self.inputs.batch,
        )
        if made is None:
            return self
        batch, model, change = made
        whole = None if self.whole is None else WholeModel(Model(model.to_proto(), None, model.data_dir))
        return replace(self, model=model, whole=whole, batch=batch, rewrites=RewriteReport([change]))

    def _has_fixed_batch(self) -> bool:
        """Whether the user gives a size to a first dimension that is dynamic in the file."""
        return any(
            spec.shape and own.shape and isinstance(spec.shape[0], int) and not isinstance(own.shape[0], int)
            for spec, own in zip(self.input_specs(), _opened(self.source).inputs, strict=True)
        )

    def _fresh(self) -> Model:
        """The model as the rules are given it, once more: without the pairs that were taken out."""
        if self.taken is None:
            return self._file()
        model = self._made(self.taken.floats)
        model.source = self.taken.floats
        return model

    def _file(self) -> Model:
        """The model as the user gave it, once more."""
        model = _opened(self.source)
        model.set_target(self.target)
        if self.was_opset is not None:
            _lowered(model, self.repairs.prove)
        _stated(model, self.inputs)
        if self.in_blocks:
            upgrade(model, BLOCKS)
        densify(model)
        if self.batch is not None:
            self.batch.write(model)
        return model

    def original(self) -> Path | onnx.ModelProto | Model:
        """The model as the user gave it; opened where something is stated of its inputs."""
        if self.taken is not None and not self.taken.adopted:
            return self._fresh()
        if any(self.statements) or self.was_opset is not None or self.batch is not None:
            model = self._file()
            model.bind_dims(self.statements[1] or {})
            return model
        return self.source if isinstance(self.source, onnx.ModelProto) else Path(self.source)

    def unquantized(self) -> Model | None:
        """The model without the quantization that it came with; None where it came with none.

        Its pairs are taken out before any rule writes them as float arithmetic, which would stay and round.
        Constants may have other values.
        """

        def opened() -> Model:
            model = self._fresh()
            centre_codes(model)
            return model

        if not any(node.op.startswith(QUANTIZED) for node in self._fresh().nodes):
            return None
        model = self._with_pairs(opened)
        return Model(unquantized(model.to_proto(), model.data_dir), None, model.data_dir)

    def _with_pairs(self, opened: Callable[[], Model]) -> Model:
        """The model as rules make it that write no pair as arithmetic; nothing is proved."""
        lacks = self._lacks_beside_codes
        return Sanitizing(self.rules, lacks, "never", None, opened, lambda _: None).run(opened())[0]

    def _lacks_beside_codes(self, name: str) -> bool:
        """Whether the target lacks a feature, if it had pairs of any codes: those are to be taken out."""
        return name != "asymmetric-quantization" and self.target.lacks_feature(name)

    def _pairs_asked(self) -> tuple[str, int]:
        """What becomes of the file's pairs: what the user says, or `adopt` where that is exact; `inexact`."""
        asked, keep = self.repairs.pairs, PAIRS[0]
        quantized = any(node.op.startswith(QUANTIZED) for node in self.model.nodes)
        if asked not in (None, keep) and not quantized:
            self.notes.append(noted("no-pairs", asked=asked))
        if asked == keep or not quantized:
            return keep, 0
        if asked is not None or not self.target.explicit:
            return asked or keep, 0
        model = self._with_pairs(self._file)
        stated = without_pairs(model.to_proto(), model.data_dir, in_whole_numbers)[1]
        exact, native = (all(getattr(one, name) for one in stated) for name in ("exact", "native"))
        return "adopt" if exact and not native else keep, sum(not one.on_grid for one in stated)

    def fingerprint(self) -> str:
        """The hash of the model as the user gave it, with what is stated of its inputs."""
        shapes, assume, freeze = self.statements
        values = {name: np.asarray(value).tolist() for name, value in (freeze or {}).items()}
        sizes = {name: list(shape) for name, shape in (shapes or {}).items()}
        stated: list[object] = [sorted(entries.items()) for entries in (sizes, assume or {}, values)]
        if self.pairs != PAIRS[0]:
            stated.append("without pairs")
        return fingerprint(self.source, *stated)

    def sanitized(self) -> Job:
        """The job of the model that the rules make; without the file's pairs, where they are not kept."""
        if self.pairs == PAIRS[0]:
            return self._repaired()
        job = self._without_pairs()._repaired()
        job.model.source = self.model.source  # what the report compares sizes with
        return job

    def with_pairs(self, pairs: str) -> Job:
        """The job of the same file and data with something else done with its pairs; nothing is proved."""
        repairs = replace(self.repairs, pairs=pairs, prove="never")
        job = Job.of(self.source, repairs, self.inputs, self.observe, None, [*self.target.formats])
        job = replace(job, place=self.place, data_names=self.data_names, parts=self.parts)
        return job.sanitized()

    def _without_pairs(self) -> Job:
        """The job of the model without the pairs of the file, as the rules make it that keep pairs."""
        job = self._repaired(self._lacks_beside_codes)
        adopted, file = self.pairs == "adopt", job.model.to_proto()
        takes = in_whole_numbers if adopted else not_in_blocks
        floats, stated = without_pairs(file, job.model.data_dir, takes)
        if job.model.data_dir is not None:  # a model without pairs may have nothing beside it, and no folder
            load_external_data_for_model(file, str(job.model.data_dir))
        job = replace(job, taken=TakenPairs(adopted, stated, file, floats))
        model = job._fresh()
        whole = None if self.whole is None else WholeModel(model)
        return replace(job, model=model, whole=whole, before=interface(model))

    def _repaired(self, lacks: Callable[[str], bool] | None = None) -> Job:
        """The job of the model that the rules make, for a target that lacks some features; None: its own."""
        with self.step("sanitize"):
            done = self.rewrites
            job, changes = self._raised()
            written = densify(job.model)
            repair = Sanitizing(
                job.rules,
                lacks or job.target.lacks_feature,
                job.repairs.prove,
                job.whole,
                job._fresh,
                lambda stage: job.observe(f"sanitize: {stage}", None, None),
                job.repairs.allow_interface_changes,
                job.repairs.accept,
            )
            model, rewrites = repair.run(job.model)
            if rewrites.accepted and job.whole is not None:  # what comes later is compared with this
                job = replace(job, whole=WholeModel(Model(model.to_proto(), None, model.data_dir)))
            for name in written:  # a sparse weight is a dense one now
                proof = job._compared(model, exact=rewrites.exact)
                changes.append(Change("dense_weights", "upgrade", name, (), (), proof))
            if job.was_opset is not None and self.taken is None:
                why = noted("opset-alone")
                node = f"opset {job.was_opset} to {model.opset}"
                proof = Proof("unproven", why=why)
                changes.insert(0, Change("lower_opset", "upgrade", node, (), (), proof))
            rewrites.changes[:0] = [*done.changes, *changes]
            rewrites.rejected[:0] = done.rejected
            rewrites.whole[:0] = done.whole
            return replace(job, model=model, rewrites=rewrites)

    def _raised(self) -> tuple[Job, list[Change]]:
        """With the opset raised where weights need it to stay in their blocks; says where they cannot."""
        was, target = self.model.opset, self.target
        packed = any(node.operator == "com.microsoft.MatMulNBits" for node in every_node(self.model))
        if not packed or all(rule.id != "unfuse_matmul_nbits" for rule in self.rules):
            return self, []
        raised, proof = self, Proof("failed", why=noted("no-blocks", target=target.title))
        if target.max_opset >= BLOCKS and target.limits.get("weight-blocks") != 0:
            if was >= BLOCKS:
                return self, []
            raised = replace(self, in_blocks=True)
            try:
                raised = replace(raised, model=raised._fresh())
                proof = self._compared(raised.model, exact=False)
            except (UserError, Differs) as error:
                proof = Proof("failed", why=noted("no-blocks.opset", opset=BLOCKS, error=error))
        if proof.verdict == "failed" or (self.repairs.prove == "always" and not proof.holds):
            remarks.remark(noted("blocks-become-float", why=proof.why))
            return self, []
        return raised, [Change("upgrade_opset", "upgrade", f"opset {was} to {BLOCKS}", (), (), proof)]

    def _compared(self, model: Model, *, exact: bool) -> Proof:
        """The proof of a change that only the whole model can prove."""
        if self.whole is None:
            return Proof("unproven", why="proofs are off")
        return proof_of(self.whole.compare(model, "upgrade", exact=exact))

    def check_loads(self) -> None:
        """Refuses sizes with which a part of the model, a branch that never runs perhaps, cannot be.

        Where the whole model was compared it runs, and where nothing is stated nobody asked for it.

        Raises:
            UserError: onnxruntime loads the model as it was, but not as it is with what is stated.
        """
        shapes, assume, freeze = self.statements
        compared = bool(self.rewrites.whole) and self.rewrites.whole[-1].verdict != "unproven"
        if compared or not (shapes or assume or freeze):
            return
        try:
            ort.load(self.model.to_proto(), optimize=False, data_dir=self.model.data_dir)
        except ort.RunError as error:
            if not ort.loads(self.model.source, self.model.data_dir):
                return  # nor does it load the original: custom operators, say
            sizes = {name: "x".join(map(str, shape)) for name, shape in (shapes or {}).items()}
            stated = [f"--shape {name}={size}" for name, size in sizes.items()]
            stated += [f"--assume {name}={size}" for name, size in (assume or {}).items()]
            stated += [
                f"--freeze {name}={np.asarray(value).tolist()}" for name, value in (freeze or {}).items()
            ]
            raise UserError(
                f"with {' '.join(stated)} onnxruntime does not load the model any more: {error}",
                hint=freeze_hint(self.model.to_proto(weights=False))
                or "give values that every part of the model takes, branches that never run included",
            ) from error

    def with_data(
        self,
        data: DataSource,
        images: ImageOptions | None,
        feeding: Feeding,
        *,
        pictures: bool = False,
    ) -> tuple[Job, Source]:
        """Opens calibration data for the model's inputs; the job looks at what is read of them.

        `pictures`: whether pictures of some are kept.
        """
        job = replace(self, data_names=feeding.input_names)
        specs = job.input_specs()
        source = open_source(data, specs, options=images, skip_bad=feeding.skip_bad)
        glance = Glance(self.model, specs, source, pictures=pictures)
        return replace(job, place=place_of(data, images, feeding), glance=glance), source

    def doubts(self, count: int | None = None) -> DataDoubts:
        """What is doubtful about the data, see `Glance.doubts`."""
        return DataDoubts() if self.glance is None else self.glance.doubts(count=count)

    def sizes(self, without: Collection[int] = ()) -> Sequence[Mapping[str, tuple[int, ...]]]:
        """The shapes of the inputs in each sample that was read, but those of these indices."""
        return () if self.glance is None else self.glance.sizes(without)

    def deployments(
        self, seen: Sequence[Mapping[str, tuple[int, ...]]] = (), *, every: bool = True
    ) -> tuple[Deployment, ...]:
        """What the model is deployed for: as it is stated, else as the samples of these shapes have it.

        `every`: whether these are all samples.

        Raises:
            UserError: what is stated does not fit the model, or the samples.
        """
        specs = self.input_specs()
        names = [spec.name for spec in specs]
        sizes = [(spec.name, spec.shape) for spec in specs]
        tokens, inputs = self.lengths, self.inputs
        batched = deployed_batch(specs, stated=bool(inputs.batch), seen=seen)
        weights = inputs.profile_weights or {}
        if tokens is not None and {*weights} <= {*PHASES}:
            as_stated = stated_deployments(names, replace(inputs, profile_weights=None))
            if not as_stated[0].name and (
                apart := phases(sizes, as_stated[0], seen, tokens, weights=weights, batched=batched)
            ):
                return apart
            if not (as_stated[0].name or seen):  # samples are to tell them apart
                inputs = replace(inputs, profile_weights=None)
        stated = stated_deployments(names, inputs)
        sums = () if tokens is None else tokens.sums
        every &= not self.by_plan  # whose sizes may be those of a phase that was assumed
        return all_deployed(sizes, stated, seen, batched=batched, every=every, sums=sums)

    @cached_property
    def lengths(self) -> Lengths | None:
        """What the dynamic dimensions of a decoder's inputs count; None of other models."""
        return lengths(self.model, caches(self.model))

    def input_specs(self) -> list[InputSpec]:
        """The inputs, as data must fit them."""
        self.model.check_fed()
        specs = []
        for spec in specs_of(self.model):
            bound = tuple(self.model.assumed.get(d, d) if isinstance(d, str) else d for d in spec.shape or ())
            specs.append(replace(spec, shape=None if spec.shape is None else bound))
        return named(specs, self.data_names)

    def part(self, proto: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
        """The part of a model that onnxruntime knows, and the operators that the rest depends on."""
        if ort.has_more_operators() and ort.loads(proto, data_dir=self.model.data_dir):
            return proto, {}
        return runnable_part(proto, own_ops.stands_for)

    def parts_of(self, outputs: Sequence[str]) -> OutputParts:
        """The parts in which outputs are judged: those that were found, else each as a whole."""
        return OutputParts.of(outputs) if self.parts is None else self.parts.only(outputs)

    @cached_property
    def in_float32(self) -> bool:
        """Whether onnxruntime runs the model only as float32."""
        if not has_other_floats(self.model.to_proto(weights=False)):
            return False
        proto = self.part(self.model.to_proto(handover=True))[0]
        if not has_other_floats(proto):
            return False
        return speaks_bfloat16(proto) or not ort.loads(proto, data_dir=self.model.data_dir)

    def runnable(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """The model in the type that it is run in."""
        return plainly.as_float32(proto, self.model.data_dir) if self.in_float32 else proto

    def widened(self, *, io: bool) -> Job:
        """The job of the model in which float32 is what was float16 or bfloat16; `io`: its ends too."""
        was = self.model
        proto = plainly.widened(was.to_proto(handover=True), was.data_dir, io=io)
        return replace(self, model=self._made(proto), wide_io=io)

    def _made(self, proto: onnx.ModelProto) -> Model:
        """What was made of the model, open, with all that is known of it."""
        was = self.model
        model = Model(proto, was.path, was.data_dir)
        model.runtime, model.spool = was.runtime, was.spool
        model.set_target(self.target)
        model.assumed, model.interface_changes = was.assumed, was.interface_changes
        model.source = was.source
        return model

    def feeds(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Samples in the type that the model runs in."""
        cast = self.in_float32 or self.wide_io
        return as_float32(samples, float16=self.wide_io) if cast else iter(samples)

    @property
    def opset(self) -> int:
        """The first that has the Q/DQ pairs of its plans."""
        return max(FORMATS[name].opset for name in self.target.formats)

    def upgrade(self) -> None:
        """Raises the opset where it is too old for Q/DQ, and compares the model before and after."""
        was, opset, lost = self.model.opset, self.opset, withdrawn(self.model)
        upgrade(self.model, opset)
        proof = Proof("unproven", why="proofs are off")
        if lost:
            proof = Proof("unproven", why=noted("opset-lacks", opset=opset, ops=", ".join(lost)))
        elif self.whole is not None:
            try:
                comparison = self.whole.compare(self.model, "upgrade", exact=False)
            except Differs as error:
                raise UserError(
                    f"raising the model's opset from {was} to {opset} would change what it computes: {error}",
                    hint=f"export the model again with opset {opset} or newer",
                ) from error
            self.rewrites.whole.append(comparison)
            proof = proof_of(comparison)
        if self.repairs.prove == "always" and not proof.holds:
            raise UserError(
                f"raising the model's opset from {was} to {opset}, which Q/DQ pairs need, is not proved: "
                f"{proof.why}",
                hint=f"export the model again with opset {opset} or newer, or do not ask for proofs always",
            )
        node = f"opset {was} to {self.model.opset}"
        self.rewrites.changes.append(Change("upgrade_opset", "upgrade", node, (), (), proof))

    def result(self, proto: onnx.ModelProto, inserted: Model | None = None) -> Result:
        """The result, with what its report says of surgery and of the run so far.

        Args:
            proto: the model as it is written.
            inserted: the same model, open, where it is another one than the job's: with Q/DQ pairs.
        """
        model = self.model if inserted is None else inserted
        for note in deciding_inputs(model):
            remarks.remark(note)
        for note in inlining(model.source).notes():
            remarks.remark(note)
        if names := long_names(model.source):
            remarks.remark(noted("long-names", names=counted(len(names), "name"), most=LONGEST))
        for name in long_ends(model.source):
            remarks.remark(noted("long-names.input", name=shorten(name), most=LONGEST))
        for entry in (*plugin_nodes(model, self.target), *miscomputed(model, self.target)):
            remarks.remark(f"{entry.node} ({entry.op}): {entry.reason}; {entry.advice}")
        left = frozenset(node.name for node in every_node(model))
        rewrites = self.rewrites
        changes = tuple(change.told(left) for change in rewrites.changes)
        report = extended(
            Report,
            self.run(model),
            nodes_before=self.first_nodes,
            assumptions=(*self.stated, *(one for one in rewrites.assumptions if one.flag != "--assume")),
            changes=changes,
            rejected=tuple(change.told() for change in rewrites.rejected),
            near_misses=tuple(rewrites.near_misses),
            whole_model=tuple(rewrites.whole),
            proved=ChangesCounted.of(changes),
            interface_changes=interface_changes(
                self.before,
                interface(model),
                {change.name: change.because for change in model.interface_changes},
            ),
            float32_only=tuple(model.float32_only),
            exact_products=tuple(ExactProduct(*entry) for entry in model.exact_products.items()),
            unsupported=(*unsupported(model, self.target), *misread_pairs(model)),
            runtime=taken_by_runtime(model, rewrites, proto),
            dropped_initializers=tuple(model.dropped),
            size=FileSizes.of(model.source, proto),
            plan=Nothing(),
            body=Nothing(),
            calibration=Nothing(),
            accuracy=(),
            about_mean=None,
            goal=None,
            repair=None,
            engine=engine_not_run(reason("sanitize-compiles-nothing")),
            verdict=None,
            commands=(),
        )
        return Result(proto, report, model.data_dir, model.path, _spool=model.spool)

    def run(self, model: Model, kind: str = "report") -> RunDocument:
        """What a report of a model that is not saved yet says of the run; `kind`: what document it is of."""
        nodes = len([*every_node(model)])
        path = None if model.path is None else str(model.path)
        return self.finished(
            RunDocument(
                kind, REPORT_SCHEMA, VERSION, path, None, self.target.name, model.opset,
                model.envelope.ir_version, nodes, notes=(), seconds=0.0, phases={}, peak_memory_mb=0.0,
            )
        )  # fmt: skip

    def finished(self, report: R) -> R:
        """A report with what was remarked and how long the run took, so far."""
        return replace(
            report,
            notes=tuple(remarks.so_far()),
            seconds=round(self.spent()[0], 3),
            phases=dict(self.phases),
            peak_memory_mb=peak_memory_mb(),
        )


@contextmanager
def _timed(observe: Observer, phases: dict[str, float], name: str) -> Iterator[None]:
    observe(name, None, None)
    start = time.perf_counter()
    try:
        yield
    finally:
        spent = time.perf_counter() - start
        phases[name] = round(phases.get(name, 0.0) + spent, 3)


def _lowered(model: Model, prove: str) -> str:
    """Lowers the opset to one that onnxruntime reads; why not, where it does not."""
    newest = newest_opset()
    if model.opset <= newest or prove == "always":
        return "or do not ask for proofs always" if model.opset > newest else "its IR version is newer"
    return lower_opset(model, newest)


def _opened(source: ModelSource) -> Model:
    """The model as the user gave it, with the types of what the user's functions give.

    Raises:
        UserError: it cannot be read.
    """
    model = Model.open(source)
    model.runtime = ort.evaluate
    if not own_ops.paths():
        return model
    typed = ort.with_types(model.source, model.data_dir)
    if typed is not model.source:
        model = Model(typed, model.path, model.data_dir)
        model.runtime = ort.evaluate
    return model


def _stated(model: Model, inputs: Inputs) -> tuple[list[Assumption], dict[str, np.ndarray]]:
    """Applies the user's statements to a model; returns them, and the values of frozen inputs."""
    shapes, assume, freeze = inputs.shapes, inputs.assume, inputs.freeze
    stated, fixed = [], {}
    for name, value in (freeze or {}).items():
        fixed[name] = model.freeze_input(name, np.asarray(value))
        stated.append(Assumption("--freeze", name, np.asarray(value).tolist(), "stated"))
    for name, shape in (shapes or {}).items():
        model.set_input_shape(name, shape)
    if shapes or freeze:
        model.infer_shapes()
    symbols = model.dim_symbols() if assume else set()
    for name, size in (assume or {}).items():
        if name not in symbols:
            raise unknown_name("dynamic dimension", name, sorted(symbols))
        if size < 1:
            raise UserError(f"--assume {name}={size}: a size is at least 1")
        model.assumed[name] = int(size)
        stated.append(Assumption("--assume", name, int(size), "stated"))
    return stated, fixed


def interface(model: Model) -> dict[str, tuple[str, str]]:
    """Each input and output of a model as (kind, type and shape), for a reader."""
    types = {}
    for kind, entries in (("input", model.inputs), ("output", model.outputs)):
        for tensor in entries:
            types[tensor.name] = (kind, _type_text(tensor.dtype, tensor.shape, model.symbols))
    return types


def interface_changes(
    before: Mapping[str, tuple[str, str]],
    after: Mapping[str, tuple[str, str]],
    because: Mapping[str, str] | None = None,
) -> tuple[ChangeOfInterface, ...]:
    """What of a model's interface is another now, and why where a rule changed it."""
    changes = []
    for name, (kind, text) in before.items():
        now = after.get(name)
        if now is None:
            changes.append(ChangeOfInterface(name, f"{kind} {text}", "constant"))
        elif now[1] != text:
            why = (because or {}).get(name)
            changes.append(ChangeOfInterface(name, f"{kind} {text}", f"{now[0]} {now[1]}", why))
    return tuple(changes)


def _type_text(dtype: np.dtype | None, shape: Shape | None, symbols: set[str]) -> str:
    if shape is not None:
        shape = tuple(None if dim in symbols else dim for dim in shape)
    return f"{dtype if dtype is not None else 'unknown'} {shape_text(shape)}"

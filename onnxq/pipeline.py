"""The main job, one step after another: load, sanitize, plan, calibrate, insert, verify, compile."""

from __future__ import annotations

import dataclasses
import itertools
import os
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import onnx
from numpy.typing import ArrayLike

from onnxq import report as reporting
from onnxq.calib.collect import Stats, collect
from onnxq.calib.image_options import ImageOptions, image_options
from onnxq.calib.samples import InputSpec, Sample, watched
from onnxq.calib.sources import Source, open_source
from onnxq.calib.split import Split, split
from onnxq.emit import files
from onnxq.emit.commands import Profile, commands
from onnxq.errors import Fault, UserError, unknown_name
from onnxq.graph.float32 import as_float32, has_other_floats, speaks_bfloat16
from onnxq.graph.model import Model
from onnxq.graph.part import runnable_part
from onnxq.graph.spool import LARGE, Spool, weight_bytes
from onnxq.graph.types import is_float
from onnxq.graph.upgrade import OPSET, upgrade, withdrawn
from onnxq.heap import steady_heap, uncollected
from onnxq.quant.insert import insert
from onnxq.quant.plan import QuantPlan, make_plan
from onnxq.quant.scales import activation_scales
from onnxq.rewrite.engine import Assumption, Change, Prove, RewriteReport, rewrite
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.whole import Diverged, WholeModel
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules, select
from onnxq.run import ort, trt
from onnxq.run.compare import OutputAccuracy, Recording, compare_models
from onnxq.run.profiles import resolve_profiles
from onnxq.target import Target, load_target

ModelSource = str | os.PathLike[str] | onnx.ModelProto
DataSource = str | os.PathLike[str] | Iterable[Mapping[str, np.ndarray]]
Observer = Callable[[str, int | None, int | None], None]
"""Is told each step's name; while samples run, how many are done, and of how many where known."""


@dataclass(slots=True)
class Result:
    """What a run made.

    Attributes:
        model: the new model. External data, if any, is where the source has it; of a large model new
            weights are in a temporary file, as long as this object lives.
        report: the report, the document of `X.report.json`.
        data_dir: the folder that external data is relative to, or None.
        source: the path of the original model, or None.
        profiles: smallest, usual and largest shape of each dynamic input.
    """

    model: onnx.ModelProto
    report: dict[str, Any]
    data_dir: Path | None = None
    source: Path | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    _spool: Spool | None = field(default=None, repr=False)

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Writes `X.onnx` (`X.onnx.data` where the weights need it) and `X.report.json`.

        Args:
            path: the model's path.
            force: replace a file that onnxq did not write.

        Returns:
            The files written.

        Raises:
            UserError: the path is the input, or cannot be written.
        """
        output = Path(path)
        files.check_output(output, self.source, force=force)
        data = [output.with_name(output.name + ".data")] if files.needs_data_file(self.model) else []
        written = [output, *data, files.report_path(output)]
        self.report["output"] = str(output)
        self.report["files"] = [str(file) for file in written]
        self.report["commands"] = commands(output, self.report["target"], self.profiles, self.source)
        return files.save_model(self.model, output, self.data_dir, self.report)


def sanitize(
    model: ModelSource,
    *,
    target: str = "tensorrt-11",
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    assume: Mapping[str, int] | None = None,
    freeze: Mapping[str, ArrayLike] | None = None,
    rules: Sequence[str | os.PathLike[str]] = (),
    prove: Prove = "when-possible",
    enable: Sequence[str] = (),
    skip: Sequence[str] = (),
    ort_ops: Sequence[str | os.PathLike[str]] = (),
    observe: Observer | None = None,
) -> Result:
    """Repairs a model so that the target takes it; what it computes does not change.

    Args:
        model: a path or a ModelProto, which is not modified.
        target: the TensorRT version, see `onnxq.target.NAMES`.
        shapes: shapes of inputs, to give dynamic dimensions a size or a symbol.
        assume: sizes of dimension symbols that the user states; recorded in the report.
        freeze: values of inputs that become constants.
        rules: folders of the user's own rules; their Python is run.
        prove: `always` keeps only changes that are proved, `when-possible` lists the others,
            `never` proves nothing.
        enable: rules to turn on whatever the target lacks.
        skip: rules to leave out.
        ort_ops: libraries of custom operators for onnxruntime, which runs the model for the proofs.
        observe: is told the steps.

    Raises:
        UserError: the model or an argument cannot be used.
        Fault: a fault of onnxq.
    """
    with ort.custom_ops(ort_ops), uncollected():
        run = _Run(model, target, rules, enable, skip, prove, observe)
        run.bind(shapes, assume, freeze)
        run.sanitize()
        part = {"engine": reporting.engine_not_run("sanitize does not compile")}
        return run.result(run.model.to_proto(), part)


def quantize(
    model: ModelSource,
    data: DataSource,
    *,
    images: ImageOptions | Mapping[str, Any] | None = None,
    target: str = "tensorrt-11",
    shapes: Mapping[str, Sequence[int | str]] | None = None,
    assume: Mapping[str, int] | None = None,
    freeze: Mapping[str, ArrayLike] | None = None,
    rules: Sequence[str | os.PathLike[str]] = (),
    prove: Prove = "when-possible",
    method: Literal["minmax"] = "minmax",
    body: Literal["fp32"] = "fp32",
    samples: int = 512,
    seed: int = 0,
    keep_float: Sequence[str] = (),
    plan: None = None,
    stats: None = None,
    enable: Sequence[str] = (),
    skip: Sequence[str] = (),
    ort_ops: Sequence[str | os.PathLike[str]] = (),
    sm: int = 89,
    profiles: Mapping[str, Profile] | None = None,
    compile: bool = True,
    observe: Observer | None = None,
) -> Result:
    """Sanitizes a model and quantizes it to INT8 with explicit Q/DQ pairs.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: calibration data: a path, or `{input: array}` for each sample.
        images: how image files become input values: `ImageOptions`, or a mapping of its fields.
        target: the TensorRT version, see `onnxq.target.NAMES`.
        shapes: as in `sanitize`.
        assume: as in `sanitize`.
        freeze: as in `sanitize`.
        rules: as in `sanitize`.
        prove: as in `sanitize`.
        method: how ranges are chosen; `minmax` so far.
        body: the type of what stays in float; `fp32` so far.
        samples: how many samples calibrate at most.
        seed: chooses them where there are more.
        keep_float: names of nodes to keep in float, as globs.
        plan: reserved for plan files.
        stats: reserved for statistics files.
        enable: as in `sanitize`.
        skip: as in `sanitize`.
        ort_ops: as in `sanitize`; without them the part of the model that runs is calibrated.
        sm: the compute capability to compile for, 89 for 8.9.
        profiles: smallest, usual and largest shape of dynamic inputs, for the compiler.
        compile: whether to compile the result where NVIDIA's compiler is installed.
        observe: is told the steps.

    Raises:
        UserError: the model, the data or an argument cannot be used.
        Fault: a fault of onnxq.
    """
    steady_heap()
    _check_choices(method, body, plan, stats, samples)
    known = load_target(target)
    if not known.explicit:
        raise UserError(
            f"{known.title} takes no Q/DQ pairs, so there is no INT8 model to write for it",
            hint=f"onnxq sanitize --target {target} repairs the float model; TensorRT calibrates it itself",
        )
    with ort.custom_ops(ort_ops):
        with uncollected():
            run = _Run(model, target, rules, enable, skip, prove, observe)
            run.bind(shapes, assume, freeze)
            source = run.open_data(data, image_options(images))
            run.sanitize()
        return run.quantize(source, samples, seed, keep_float, sm, profiles, compile)


def _check_choices(method: str, body: str, plan: Any, stats: Any, samples: int) -> None:
    for flag, value, known in (("method", method, ("minmax",)), ("body", body, ("fp32",))):
        if value not in known:
            later = {"fp16", "bf16", "average", "percentile", "entropy", "mse", "auto"}
            if value in later:
                raise UserError(f"{flag} {value!r} is not there yet", hint=f"this version has {known[0]!r}")
            raise unknown_name(flag, value, known)
    if plan is not None or stats is not None:
        raise UserError("plan and statistics files are not read yet", hint="leave them out")
    if samples < 1:
        raise UserError(f"{samples} calibration samples are too few", hint="give at least 1")


class _Run:
    """One run over one model: its steps, its clock and what its report will say."""

    def __init__(
        self,
        model: ModelSource,
        target: str,
        rules: Sequence[str | os.PathLike[str]],
        enable: Sequence[str],
        skip: Sequence[str],
        prove: Prove,
        observe: Observer | None,
    ) -> None:
        if prove not in ("always", "when-possible", "never"):
            raise unknown_name("proof level", prove, ("always", "when-possible", "never"))
        self.started = time.perf_counter()
        self.phases: dict[str, float] = {}
        self.observe = observe or (lambda step, done, total: None)
        self.prove = prove
        self.target: Target = load_target(target)
        self.rules: list[Rule] = select(load_rules(rules), enable, skip)
        self.source = model
        with self.step("load"):
            self.model = Model.open(model)
            why = ort.unreadable(self.model.source)
            if why is not None:
                raise UserError(
                    f"the model has {why}",
                    hint="export it with an older opset, or upgrade onnxruntime",
                )
            self.model.runtime = ort.evaluate
        self.before = reporting.interface(self.model)
        self.first_nodes = sum(len(graph.nodes) for graph in self.model.graphs())
        self.whole = WholeModel(self.model) if prove != "never" else None
        self.rewrites = RewriteReport()
        self.stated: list[Assumption] = []
        self.in_float32 = False  # whether onnxruntime runs the model as float32

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Times a step and tells the observer."""
        self.observe(name, None, None)
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.phases[name] = round(self.phases.get(name, 0.0) + spent, 3)

    def bind(
        self,
        shapes: Mapping[str, Sequence[int | str]] | None,
        assume: Mapping[str, int] | None,
        freeze: Mapping[str, ArrayLike] | None,
    ) -> None:
        """Applies what the user states about inputs and dimensions."""
        self.statements = (shapes, assume, freeze)
        fixed = {}
        for name, value in (freeze or {}).items():
            fixed[name] = self.model.freeze_input(name, np.asarray(value))
            self.stated.append(Assumption("--freeze", name, np.asarray(value).tolist(), "stated"))
        for name, shape in (shapes or {}).items():
            self.model.set_input_shape(name, shape)
        if shapes or freeze:
            self.model.infer_shapes()
        symbols = self.model.dim_symbols() if assume else set()
        for name, size in (assume or {}).items():
            if name not in symbols:
                raise unknown_name("dynamic dimension", name, sorted(symbols))
            if size < 1:
                raise UserError(f"--assume {name}={size}: a size is at least 1")
            self.model.assumed[name] = int(size)
            self.stated.append(Assumption("--assume", name, int(size), "stated"))
        if self.whole is not None and (shapes or freeze):
            self.whole = WholeModel(self.model, fixed)

    def sanitize(self) -> None:
        """Runs the rules; again without those whose close changes add up to another model."""
        with self.step("sanitize"):
            while True:
                try:
                    return self._sanitize()
                except Diverged as error:
                    self._restart_without(error)

    def _restart_without(self, error: Diverged) -> None:
        """Begins anew without the rules whose changes are close."""
        culprits = {change.rule for change in error.changes}
        if not culprits:
            raise Fault(str(error), hint="leave rules out with --skip, and report this") from error
        self.rules = [rule for rule in self.rules if rule.id not in culprits]
        self.rewrites = RewriteReport(rejected=[*self.rewrites.rejected, *error.changes])
        self.model = Model.open(self.source)
        self.model.runtime = ort.evaluate
        self.whole = WholeModel(self.model)
        self.stated.clear()
        self.bind(*self.statements)

    def _sanitize(self) -> None:
        """Runs the rules; once more after sizes that changes rely on are written into the inputs."""
        self._rewrite()
        if self.model.assumed:
            self.model.bind_dims(self.model.assumed)
            self.model.infer_shapes()
            self._rewrite()

    def _rewrite(self) -> None:
        found = rewrite(
            self.model,
            self.rules,
            self.target.lacks_feature,
            prove=self.prove,
            reproducers=Path(tempfile.gettempdir()) / "onnxq-reproducers",
            whole=self.whole,
            exact=all(change.proof.verdict != "close" for change in self.rewrites.changes),
            observe=lambda stage: self.observe(f"sanitize: {stage}", None, None),
        )
        self.rewrites.changes += found.changes
        self.rewrites.rejected += found.rejected
        self.rewrites.near_misses = found.near_misses
        self.rewrites.assumptions += found.assumptions
        self.rewrites.whole += found.whole

    def open_data(self, data: DataSource, images: ImageOptions | None) -> Source:
        """Opens calibration data for the model's inputs."""
        specs = []
        for name, dtype, shape in self.model.inputs:
            if dtype is None:
                raise UserError(f"the type of input {name!r} is not known")
            bound = tuple(self.model.assumed.get(d, d) if isinstance(d, str) else d for d in shape or ())
            specs.append(InputSpec(name, dtype, bound if shape is not None else None))
        return open_source(data, specs, options=images)

    def quantize(
        self,
        source: Source,
        samples: int,
        seed: int,
        keep_float: Sequence[str],
        sm: int,
        profiles: Mapping[str, Profile] | None,
        compile: bool,
    ) -> Result:
        """Plans, calibrates, inserts, verifies and compiles."""
        self._resolve(profiles, None)  # refuses bad ones before the data is read
        halves = split(source, samples, seed)
        calibration = halves.calibration()
        first = next(calibration)
        profiles = self._resolve(profiles, first)
        if self.model.opset < OPSET:
            with self.step("upgrade"):
                self._upgrade()
        with self.step("plan"):
            self.model.set_typical_input({name: a.shape for name, a in first.feeds.items()})
            reference, not_run = self._part(self.model.to_proto())
            self.in_float32 = self._needs_float32(reference)
            reference = self._runnable(reference)
            unknown = "not calibrated: it is or depends on {} (its library: --ort-ops)"
            vetoes = {node: unknown.format(op) for node, op in not_run.items()}
            plan = make_plan(self.model, self.rules, keep_float, vetoes)
        with self.step("calibrate"):
            chosen = itertools.chain([first], calibration)
            stats = self._calibrate(reference, plan, chosen, halves.used)
            expected = self._expected(reference, halves)
        with self.step("insert"):
            scales = activation_scales(plan, {n: t.amax for n, t in stats.tensors.items()})
            insert(self.model, plan, scales)
            proto = self.model.to_proto(handover=True)
        with self.step("verify"):
            accuracy = self._verify(expected, proto, self._watched_held_out(halves))
        part = {
            "plan": plan.to_json(),
            "calibration": {
                **reporting.calibration_part(stats, scales, plan, source, halves.shared, seed, not_run),
                "in_float32": self.in_float32,
            },
            "accuracy": [entry.to_json() for entry in accuracy],
        }
        result = self.result(proto, part)
        result.profiles = profiles
        with self.step("compile"):
            engine = self._compile(result, plan, sm, profiles) if compile else None
        result.report["engine"] = engine or reporting.engine_not_run("not asked for", len(plan.planned))
        result.report["unsupported"] += reporting.refused(
            result.report["engine"], result.report["unsupported"]
        )
        self._finish(result.report)
        return result

    def _part(self, proto: onnx.ModelProto) -> tuple[onnx.ModelProto, dict[str, str]]:
        """The part of a model that onnxruntime knows, and the operators that the rest depends on."""
        if ort.custom_libraries() and ort.loads(proto, data_dir=self.model.data_dir):
            return proto, {}
        return runnable_part(proto)

    def _needs_float32(self, proto: onnx.ModelProto) -> bool:
        """Whether onnxruntime runs a model only as float32."""
        if not has_other_floats(proto):
            return False
        return speaks_bfloat16(proto) or not ort.loads(proto, data_dir=self.model.data_dir)

    def _runnable(self, proto: onnx.ModelProto) -> onnx.ModelProto:
        """The model in the type that it is run in."""
        return as_float32(proto, self.model.data_dir) if self.in_float32 else proto

    def _feeds(self, samples: Iterable[Sample]) -> Iterator[Sample]:
        """Samples in the type that the model runs in."""
        for sample in samples:
            if self.in_float32:
                cast = {
                    name: array.astype(np.float32) if is_float(array.dtype) else array
                    for name, array in sample.feeds.items()
                }
                sample = dataclasses.replace(sample, feeds=cast)
            yield sample

    def _resolve(
        self, profiles: Mapping[str, Profile] | None, sample: Sample | None
    ) -> Mapping[str, Profile]:
        """The profiles of all dynamic inputs: the user's, else the sizes of a sample."""
        sizes = {
            name: [dim if isinstance(dim, int) else -1 for dim in shape]
            for name, _, shape in self.model.inputs
            if shape is not None
        }
        usual = {name: array.shape for name, array in sample.feeds.items()} if sample is not None else {}
        return resolve_profiles(sizes, profiles or {}, usual)

    def _calibrate(
        self, reference: onnx.ModelProto, plan: QuantPlan, samples: Iterable[Sample], total: int | None
    ) -> Stats:
        """The ranges of what the plan measures; none where no part of the model runs."""
        if not reference.graph.output:
            return Stats({}, 0, 0.0)
        try:
            return collect(
                reference,
                plan.measured,
                self._feeds(samples),
                data_dir=self.model.data_dir,
                progress=lambda done: self.observe("calibrate", done, total),
            )
        except ort.RunError as error:
            raise UserError(
                f"onnxruntime does not load the model: {error}",
                hint="calibration runs the float model on the CPU: export it in float32",
            ) from error

    def _expected(self, reference: onnx.ModelProto, halves: Split) -> ort.Session | Recording | None:
        """The float model to verify with; of a large one its outputs, so that it is not in memory twice."""
        if not reference.graph.output:
            return None
        session = ort.load(reference, data_dir=self.model.data_dir)
        if weight_bytes(reference) < LARGE:
            return session
        return Recording(session, (sample.feeds for sample in self._feeds(self._watched_held_out(halves))))

    def _watched_held_out(self, halves: Split) -> Iterator[Sample]:
        """The samples that verify; the observer is told."""
        held_out = halves.held_out()
        return watched(held_out, lambda done: self.observe("verify", done, halves.held))

    def _verify(
        self,
        expected: ort.Session | Recording | None,
        proto: onnx.ModelProto,
        samples: Iterable[Sample],
    ) -> list[OutputAccuracy]:
        """The outputs of the quantized model against those of the float one."""
        if expected is None:
            return []
        feeds = (sample.feeds for sample in self._feeds(samples))
        return compare_models(expected, self._load_quantized(proto), feeds)

    def _load_quantized(self, proto: onnx.ModelProto) -> ort.Session:
        try:
            part = self._runnable(self._part(proto)[0])
            return ort.load(part, data_dir=self.model.data_dir)
        except ort.RunError as error:
            raise Fault(f"onnxruntime does not load the quantized model: {error}") from error

    def _upgrade(self) -> None:
        """Raises the opset where it is too old for Q/DQ, and compares the model before and after."""
        was, lost = self.model.opset, withdrawn(self.model)
        upgrade(self.model)
        proof = Proof("unproven", why="proofs are off")
        if lost:
            proof = Proof("unproven", why=f"opset {OPSET} has no {', '.join(lost)}: it does not run any more")
        elif self.whole is not None:
            try:
                found = self.whole.compare(self.model, "upgrade", exact=False)
            except Diverged as error:
                raise UserError(
                    f"raising the model's opset from {was} to {OPSET} would change what it computes: {error}",
                    hint=f"export the model again with opset {OPSET} or newer",
                ) from error
            self.rewrites.whole.append(found)
            proof = Proof(found.verdict, int(found.verdict != "unproven"), 0, found.max_abs, why=found.why)
        if self.prove == "always" and not proof.holds:
            raise UserError(
                f"raising the model's opset from {was} to {OPSET}, which Q/DQ pairs need, is not proved: "
                f"{proof.why}",
                hint=f"export the model again with opset {OPSET} or newer, or leave --prove always out",
            )
        node = f"opset {was} to {self.model.opset}"
        self.rewrites.changes.append(Change("upgrade_opset", "upgrade", node, (), (), proof))

    def _compile(
        self, result: Result, plan: QuantPlan, sm: int, profiles: Mapping[str, Profile]
    ) -> dict[str, Any]:
        if trt.installed() is None:
            engine = trt.compile_engine(Path(), sm=sm, profiles=profiles)
        else:
            with tempfile.TemporaryDirectory(prefix="onnxq-") as folder:
                path = Path(folder) / "model.onnx"
                files.save_model(result.model, path, self.model.data_dir)
                try:
                    engine = trt.compile_engine(path, sm=sm, profiles=profiles)
                except UserError as error:  # the profiles do not fit what the parser makes of the inputs
                    return reporting.engine_not_run(str(error), len(plan.planned))
        return reporting.engine_part(engine, plan.planned)

    def result(self, proto: onnx.ModelProto, part: Mapping[str, Any]) -> Result:
        """The result, with all of the report that does not depend on where it is saved."""
        document = {
            **reporting.header(self.model, self.target),
            "nodes_before": self.first_nodes,
            **reporting.rewrite_part(self.rewrites),
            "interface_changes": reporting.interface_changes(self.before, reporting.interface(self.model)),
            "unsupported": [
                *reporting.unsupported(self.model, self.target),
                *reporting.misread_pairs(self.model),
            ],
            "dropped_initializers": self.model.dropped,
            "plan": {},
            "calibration": {},
            "accuracy": [],
            **part,
            "files": [],
            "commands": [],
        }
        stated = [dataclasses.asdict(entry) for entry in self.stated]
        derived = [a for a in document["assumptions"] if a["flag"] != "--assume"]
        document["assumptions"] = stated + derived
        self._finish(document)
        document = reporting.to_json(document)
        return Result(proto, document, self.model.data_dir, self.model.path, _spool=self.model.spool)

    def _finish(self, document: dict[str, Any]) -> None:
        document["seconds"] = round(time.perf_counter() - self.started, 3)
        document["phases"] = dict(self.phases)
        document["peak_memory_mb"] = reporting.peak_memory_mb()

"""A model's engine, read: compiled on this CPU, or as TensorRT exported it from a GPU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, count
from onnxq.compiled.engine_difference import SideBySide, engine_difference
from onnxq.compiled.exported import RunTimes, read_exported, read_runs
from onnxq.compiled.reading import EngineReading, operators_of, read, reading_of
from onnxq.compiled.traffic import Traffic, traffic
from onnxq.compiled.verdict import Verdict
from onnxq.emit.recorded import recorded_profiles
from onnxq.graph.model import Model
from onnxq.options.flag_words import tells_keywords
from onnxq.options.settings import Compilation
from onnxq.pipeline.verdict import against_fp16 as compared_with_fp16
from onnxq.run import trt
from onnxq.run.deployments import profiles_of
from onnxq.run.profiles import Profile, as_profile
from onnxq.targets import COMPILER, load_target

Profiles = Mapping[str, tuple[Sequence[int], Sequence[int], Sequence[int]]]
ModelFile = str | PathLike[str]


@dataclass(frozen=True, slots=True)
class ReadEngine(DocumentPart):
    """A model and its engine.

    Attributes:
        model: the model's file.
        engine: what came of compiling it; None where the engine is TensorRT's, of exported files.
        traffic: what the kernels move; None where there is no engine, or none that was compiled here.
        reading: what stands in the engine, None where there is none, or its layers are not understood.
        profiles_from: where the shapes of dynamic inputs are from, "" where they were stated or need not be.
        runs: what runs take, of the file of `trtexec --exportTimes`; None where none was given.
    """

    model: str
    engine: trt.Engine | None
    traffic: Traffic | None
    reading: EngineReading | None
    profiles_from: str
    runs: RunTimes | None = None


@dataclass(frozen=True, slots=True, repr=False)
class EngineDocument(Shown, DocumentPart):
    """What `onnxq engine` says.

    Attributes:
        kind: "engine".
        schema: the version of this form.
        model: the model's file.
        engine: what came of compiling it; None where files of trtexec were read.
        traffic: what the kernels move; None where there is no engine that was compiled here.
        profiles_from: where the shapes of dynamic inputs are from, "" where they were stated or need not be.
        reading: what stands in the engine: in figures, by ONNX node, by kernel; None where there is none.
        layer_info: the file of `trtexec --exportLayerInfo` that was read, or None.
        profile_times: the file of `trtexec --exportProfile` that was read, or None.
        other: the model that it is compared with and its engine, or None.
        differences: what each of both lost; None where nothing was compared, or one has no engine.
        verdict: what int8 does to it, against plain float16, or None.
        runs: what its runs take, of the file of `trtexec --exportTimes`; None where none was given.
    """

    kind: str
    schema: int
    model: str
    engine: trt.Engine | None
    traffic: Traffic | None
    profiles_from: str
    reading: EngineReading | None
    layer_info: str | None
    profile_times: str | None
    other: ReadEngine | None
    differences: SideBySide | None
    verdict: Verdict | None = None
    runs: RunTimes | None = None

    def words(self) -> Words:
        """Whether it compiles, what multiplies in which type, and the products that were lost."""
        if self.reading is None:
            reason = "" if self.engine is None else self.engine.reason
            return Words(f"engine of {self.model}: none", alarms=[reason] if reason else [])
        totals = self.reading.totals
        products = ", ".join(f"{number} {kind}" for kind, number in totals.products.items())
        facts = [
            count(totals.kernels, "kernel"),
            f"products: {products}" if products else "",
            say("as-planned.words", done=totals.as_planned, planned=totals.planned) * bool(totals.planned),
            say("dequantized-weights", weights=count(totals.runtime_weights, "weight"))
            * bool(totals.runtime_weights),
        ]
        return Words(f"engine of {self.model}", facts)

    @property
    def compiles(self) -> bool:
        """Whether there is an engine, of the other model too where one is given."""
        engines = (self.engine, self.other.engine if self.other else None)
        return all(engine is None or engine.status == "compiled" for engine in engines)


@tells_keywords
def engine(
    model: ModelFile,
    *,
    compare: ModelFile | None = None,
    layer_info: ModelFile | None = None,
    profile_times: ModelFile | None = None,
    run_times: ModelFile | None = None,
    compare_profile_times: ModelFile | None = None,
    compare_run_times: ModelFile | None = None,
    against_fp16: bool = False,
    device: str | int | Path | None = None,
    profiles: Profiles | None = None,
    observe: Observer | None = None,
) -> EngineDocument:
    """What an engine makes of a model: its kernels, what became of each node, bytes and multiply-accumulates.

    The model is compiled by NVIDIA's compiler, which needs no GPU. With `layer_info` or `profile_times` it is
    not: the engine is the one that those files of trtexec describe.

    Args:
        model: the ONNX file.
        compare: another version of the network, whose engine is set beside it; with files of trtexec the
            `--exportLayerInfo` of another engine, whose nodes have the same names.
        layer_info: the file of `trtexec --exportLayerInfo`.
        profile_times: the file of `trtexec --exportProfile`, which has a time for each kernel.
        run_times: the file of `trtexec --exportTimes`, which has a time for each run.
        compare_profile_times: `profile_times` of the other engine.
        compare_run_times: `run_times` of the other engine.
        against_fp16: whether the model without its Q/DQ pairs is compiled in plain float16, too: what does
            int8 move, and in how many kernels?
        device: the GPU to compile for, its name or its compute capability; None: 8.9.
        profiles: smallest, usual and largest shape of dynamic inputs; without, those in the report that
            onnxq wrote beside the model.
        observe: is told the steps.

    Returns:
        The engine; of a model that the compiler rejects, why there is none.

    Raises:
        UserError: a file cannot be read, the compiler is not installed, or a profile does not fit.
        Fault: a fault of onnxq.
    """
    exported = layer_info is not None or profile_times is not None
    if exported and (against_fp16 or (compare is not None and Path(compare).suffix == ".onnx")):
        raise UserError(
            "an engine from a GPU is not compared with one that is compiled here: they are of two compilers",
            hint="leave out --against-fp16, or --layer-info and --profile-times; --compare takes the "
            "--exportLayerInfo of a second engine of trtexec",
        )
    _check_asked(compare, layer_info, run_times, compare_profile_times, compare_run_times, exported=exported)
    path, tell, sm = Path(model), told(observe), Compilation(device=device).sm(load_target(COMPILER))
    other = None
    if exported:
        opened = Model.open(path)
        first = _exported(opened, path, layer_info, profile_times, run_times)
        if compare is not None:
            other = _exported(opened, Path(compare), compare, compare_profile_times, compare_run_times)
    else:
        first = _compiled(path, sm, profiles, tell, "compile")
        other = _compiled(Path(compare), sm, profiles, tell, "compile: other") if compare else None
    verdict = None
    if against_fp16:
        tell("compile: plain float16", None, None)
        shapes = next(iter(_profiles(path, Model.open(path), profiles)[0]), {})
        verdict = compared_with_fp16(path, sm=sm, profiles=shapes)
    both = other is not None and other.reading is not None and first.reading is not None
    return EngineDocument(
        kind="engine",
        schema=3,
        model=first.model,
        engine=first.engine,
        traffic=first.traffic,
        profiles_from=first.profiles_from,
        reading=first.reading,
        layer_info=str(layer_info) if layer_info is not None else None,
        profile_times=str(profile_times) if profile_times is not None else None,
        other=other,
        differences=engine_difference(first.reading, other.reading) if both else None,  # type: ignore[arg-type, union-attr]
        verdict=verdict,
        runs=first.runs,
    )


def _check_asked(
    compare: ModelFile | None,
    layer_info: ModelFile | None,
    run_times: ModelFile | None,
    *others: ModelFile | None,
    exported: bool,
) -> None:
    """Refuses files of trtexec that nothing would be read for.

    Raises:
        UserError: there are such; `others`: the times of a second engine.
    """
    if run_times is not None and not exported:
        raise UserError(
            "the times of runs are of an engine that trtexec built, and none of its files is given",
            hint="give --layer-info or --profile-times of the same engine, too",
        )
    if exported and compare is not None and layer_info is None:
        raise UserError(
            "the other engine has a list of layers, and this one has none",
            hint="give --layer-info, too: the file of trtexec --exportLayerInfo",
        )
    if any(others) and not (exported and compare is not None):
        raise UserError(
            "the times of another engine are given, and not that engine",
            hint="give --layer-info A.json, and --compare B.json, the other's --exportLayerInfo",
        )


def _exported(
    model: Model, name: Path, info: ModelFile | None, times: ModelFile | None, runs: ModelFile | None
) -> ReadEngine:
    """An engine as files of trtexec describe it.

    Args:
        model: the model that it was built from, or another version of it.
        name: what it is called.
        info: the file of `--exportLayerInfo`.
        times: that of `--exportProfile`.
        runs: that of `--exportTimes`.
    """
    layers, profile = (None if file is None else Path(file) for file in (info, times))
    reading = reading_of(read_exported(layers, profile, operators_of(model)), model)
    _check_files(model.path or name, reading, layers or profile)
    timed = None if runs is None else read_runs(Path(runs))
    return ReadEngine(str(name), None, None, reading, "", timed)


def _check_files(model: Path, reading: EngineReading, file: Path | None) -> None:
    """Refuses files of another model: none of its nodes is in them."""
    if reading.nodes and not any(node.kernels for node in reading.nodes):
        raise UserError(
            f"{file} names no node of {model}",
            hint="give the model that the engine was built from",
        )


def _profiles(path: Path, model: Model, stated: Profiles | None) -> tuple[list[dict[str, Profile]], str]:
    """The shapes of dynamic inputs in each deployment, and where they are from.

    That is, stated, or of the report beside the model.
    """
    if stated:
        of_inputs = {name: as_profile(shapes) for name, shapes in stated.items()}
        return list(profiles_of([tensor.name for tensor in model.inputs], of_inputs).values()), ""
    return recorded_profiles(path)


def _compiled(path: Path, sm: int, profiles: Profiles | None, tell: Observer, step: str) -> ReadEngine:
    model = Model.open(path)  # its errors are clearer than the compiler's
    several, note = _profiles(path, model, profiles)
    wanted, *more = several or [{}]
    tell(step, None, None)
    built = trt.compile_engine(path, sm=sm, profiles=wanted, more=more)
    if built.status == "not-installed":
        message, _, hint = built.reason.partition("; ")
        raise UserError(message, hint=hint)
    layers = built.layers
    moved = traffic(layers) if layers else None
    reading = read(layers, model) if built.status == "compiled" and not built.unread else None
    return ReadEngine(str(path), built, moved, reading, note)

"""Models in pieces: cut, written with a manifest, run in a chain and compared with the original."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import onnx

from onnxq.base import interrupts
from onnxq.base.errors import UserError
from onnxq.base.json_file import read_plain_document
from onnxq.base.plain import extended
from onnxq.base.progress import Observer, told
from onnxq.base.reason import noted
from onnxq.base.shown import Shown, Words, count, model_name, tally
from onnxq.base.typed import Unlike, typed
from onnxq.base.version import VERSION
from onnxq.data.samples import InputSpec, specs_of, watched
from onnxq.data.sources import DataSource
from onnxq.documents.data import path_of
from onnxq.documents.pieces import (
    EXTRACT_SCHEMA,
    PIECES_SCHEMA,
    RUN_SCHEMA,
    ChainRun,
    ExtractReport,
    Manifest,
    OutputOfChain,
    PieceWritten,
    TensorDescribed,
    UntilCompiles,
)
from onnxq.emit import files
from onnxq.graph.cut import Piece, cut, extract_between, extract_node, operator_name
from onnxq.graph.deciders import freeze_hint
from onnxq.graph.load import ModelSource
from onnxq.graph.model import Model
from onnxq.graph.types import dtype_of, elem_type_of, shape_of
from onnxq.graph.view import Tensor
from onnxq.inspection.opened_data import open_data
from onnxq.inspection.until_compiles import Cutting, TensorsSeen, check_compiles, share_in_engines
from onnxq.options.call_options import ExtractOptions, RunPiecesOptions, SplitOptions
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.pipeline.compiler import check_device
from onnxq.pipeline.job import Job
from onnxq.pipeline.not_taken import beyond_compiler
from onnxq.rewrite.whole import WholeModel
from onnxq.run import ort, trt
from onnxq.run.compare import OutputAccuracy, compare_models
from onnxq.run.deployments import profiles_of
from onnxq.run.ort import RunError, Session
from onnxq.targets import load_target

Feeds = Mapping[str, np.ndarray]

_ROWS = 10
_SAMPLES = 8
"""Samples at most on which pieces are run while they are sought."""


@dataclass(slots=True, repr=False)
class Pieces(Shown):
    """A model in pieces.

    Attributes:
        pieces: the pieces, in the order in which they run.
        manifest: the document of `X.split.json`, complete once it is saved.
        data_dir: the folder of the external data that the pieces refer to, or None.
        source: the path of the original model, or None.
    """

    pieces: list[Piece]
    manifest: Manifest
    data_dir: Path | None
    source: Path | None

    def words(self) -> Words:
        """How many pieces there are, and each."""
        rows = [
            (str(number), one.runs, f"{one.nodes:,}", *_ends(one))
            for number, one in enumerate(self.manifest.pieces)
        ]
        head = f"{model_name(self.source)} in {count(len(self.pieces), 'piece')}"
        titles = ("piece", "runs in", "nodes", "inputs", "outputs")
        return Words(head, self.manifest.notes, titles, rows[:_ROWS])

    def save(self, prefix: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Writes `X.0.onnx`, `X.1.onnx`, ... (`.data` where the weights need it) and `X.split.json`.

        Args:
            prefix: X, a path.
            force: replace files that onnxq did not write.

        Returns:
            The files written.

        Raises:
            UserError: a path is the input, or cannot be written.
        """
        base = Path(prefix)
        record = base.with_name(f"{base.name}.split.json")
        names = [f"{base.name}.{number}.onnx" for number in range(len(self.pieces))]
        for name in names:
            files.check_output(base.with_name(name), self.source, force=force, record=record)
        models = dict(zip(names, (piece.model for piece in self.pieces), strict=True))
        data = [f"{name}.data" for name, model in models.items() if files.needs_data_file(model)]
        self.manifest = replace(
            self.manifest,
            model=self.manifest.model if self.source is None else _relative(self.source, base.parent),
            pieces=tuple(
                replace(piece, file=name) for name, piece in zip(names, self.manifest.pieces, strict=True)
            ),
            files=tuple(sorted([*names, *data, record.name])),
        )
        return files.save_models(base.parent, models, self.data_dir, {record.name: self.manifest.to_dict()})


@dataclass(slots=True, repr=False)
class Extract(Shown):
    """A part of a model.

    Attributes:
        piece: the part.
        report: the document of `X.report.json`, complete once it is saved.
        data_dir: the folder of the external data that the part refers to, or None.
        source: the path of the original model, or None.
    """

    piece: Piece
    report: ExtractReport
    data_dir: Path | None
    source: Path | None

    def words(self) -> Words:
        """What it is a part of, and what it holds."""
        reads, gives = _ends(self.report)
        ops = sorted(self.report.ops.items(), key=lambda entry: -entry[1])
        rows = [(op, f"{number:,}") for op, number in ops]
        head = f"a part of {model_name(self.report.model)}: "
        head += count(len(self.piece.nodes), "node")
        return Words(head, [f"from {reads} to {gives}"], ("operator", "nodes"), rows[:_ROWS])

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> list[Path]:
        """Writes `X.onnx` (`X.onnx.data` where the weights need it) and `X.report.json`.

        Raises:
            UserError: the path is the input, or cannot be written.
        """
        output = Path(path)
        files.check_output(output, self.source, force=force)
        data = [output.with_name(output.name + ".data")] if files.needs_data_file(self.piece.model) else []
        written = (output, *data, files.report_path(output))
        self.report = replace(self.report, output=str(output), files=tuple(map(str, written)))
        return files.save_model(self.piece.model, output, self.data_dir, self.report.to_dict())


@takes_options
def split(
    model: ModelSource,
    data: DataSource | None = None,
    *,
    at: Sequence[str | Sequence[str]] = (),
    at_op: Sequence[str] = (),
    until_compiles: bool = False,
    observe: Observer | None = None,
    **options: Unpack[SplitOptions],
) -> Pieces:
    """Cuts a model into pieces that run one after another.

    Args:
        model: a path or a ModelProto, which is not modified.
        data: with `until_compiles`: what the pieces run on beside the original, and what sizes they have; by
            default made-up samples.
        at: tensors, or sets of tensors. Each set cuts all that it depends on from the rest.
        at_op: operators (`Op` or `domain.Op`) whose nodes go into pieces of their own, which run in
            onnxruntime; the pieces between them are for TensorRT.
        until_compiles: asks NVIDIA's compiler, and cuts around what it refuses until each piece that is for
            TensorRT compiles; the rest runs in onnxruntime.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `target="tensorrt-rtx"`. All
            but `runtime` are for `until_compiles`.

    Raises:
        UserError: the model cannot be read, or cannot be cut there; with `until_compiles` also where NVIDIA's
            compiler is not installed, or does not speak for the target.
        RunError: the model does not run on a sample.
        TypeError: there is no such keyword.
    """
    asked, tell = Options.of("split", options), told(observe)
    if until_compiles == bool(at or at_op):
        raise UserError(
            "it is not said where to cut" if not until_compiles else "it is said twice where to cut",
            hint="give tensors (--at) or operators (--at-op), or --until-compiles",
        )
    if data is not None and not until_compiles:
        raise UserError("data are for --until-compiles", hint="onnxq pieces run takes them otherwise")
    tell("split", None, None)
    opened = Model.open(model)
    sets = [[entry] if isinstance(entry, str) else list(entry) for entry in at]
    with ort.running(asked.runtime):
        if until_compiles:
            return _until_compiles(opened, data, asked, tell)
        return _pieces(opened, cut(opened, sets, at_op, ort.output_types))


def _pieces(opened: Model, pieces: Sequence[Piece]) -> Pieces:
    manifest = Manifest(
        kind="pieces",
        schema=PIECES_SCHEMA,
        onnxq=VERSION,
        model=None,
        sha256=files.sha256(opened.path) if opened.path is not None else None,
        inputs=tuple(map(_described, opened.inputs)),
        outputs=tuple(map(_described, opened.outputs)),
        pieces=tuple(
            PieceWritten(
                file=None,
                runs="onnxruntime" if piece.isolated else "tensorrt",
                nodes=len(piece.nodes),
                inputs=_infos(piece.model.graph.input),
                outputs=_infos(piece.model.graph.output),
            )
            for piece in pieces
        ),
        notes=_rankless(pieces),
        files=(),
    )
    return Pieces(list(pieces), manifest, opened.data_dir, opened.path)


def _until_compiles(opened: Model, data: DataSource | None, asked: Options, tell: Observer) -> Pieces:
    target = load_target(asked.repairs.target)
    check_compiles(target)
    check_device(asked.compilation, target)
    samples, fed = _samples_of(opened, data, asked, tell)
    sm = asked.compilation.sm(target)

    def cutting(model: Model) -> Cutting:
        return Cutting(
            model, target, sm, TensorsSeen.of(model, fed), lambda done: tell("compile", done, None)
        )

    model, first, changes = opened, cutting(opened), 0
    tried = [first]
    if first.whole:  # what `sanitize` makes of it may compile, or more of it
        repairs = replace(asked.repairs, pairs="keep")
        job = Job.of(opened.path or opened.source, repairs, asked.inputs, tell).sanitized()
        if job.rewrites.changes:
            model, changes = job.model, len(job.rewrites.changes)
            tried.append(cutting(model))
    around = tried[-1].around()
    macs, share, uncounted = share_in_engines(model, around)
    outputs = _chained(opened, around.pieces, samples) if samples else []
    made = _pieces(opened, around.pieces)
    until = UntilCompiles(
        target=target.name,
        sm=sm,
        compiler=trt.installed() or "",
        compilations=sum(one.compilations for one in tried),
        whole=first.whole,
        repairs=changes,
        share=share,
        uncounted=tuple(uncounted),
        samples=len(samples),
        outputs=_judged(outputs),
    )
    pieces = tuple(
        replace(
            one, macs=count, profiles=profiles, numbers=numbers,
            refused=tuple(around.refused[node] for node in piece.nodes if node in around.refused),
        )
        for one, piece, count, profiles, numbers in zip(
            made.manifest.pieces, around.pieces, macs, around.profiles, around.numbers, strict=True
        )
    )  # fmt: skip
    hint = freeze_hint(opened.source) if around.refused.keys() & {*uncounted} else ""
    ops = dict.fromkeys(beyond_compiler(opened, target).values())
    beyond = noted("pieces.beyond", target=target.title, ops=", ".join(ops)) if ops else ""
    notes = filter(None, ["" if samples else noted("pieces.not-run"), beyond, hint])
    manifest = replace(made.manifest, pieces=pieces, until=until, notes=(*made.manifest.notes, *notes))
    return replace(made, manifest=manifest)


def _samples_of(
    opened: Model, data: DataSource | None, asked: Options, tell: Observer
) -> tuple[Sequence[Feeds], Sequence[Feeds]]:
    """The samples that the chain is compared on, and those that tell sizes; none where nothing runs."""
    stated = profiles_of([one.name for one in opened.inputs], asked.inputs.profiles or {})
    points = [
        {name: profile[place] for name, profile in one.items()}
        for one in stated.values()
        for place in (1, 0, 2)
    ]
    tell("run", None, None)
    sizes = [one for shapes in filter(None, points) for one in WholeModel(opened, shapes=shapes).made_up(1)]
    if data is not None and ort.loads(opened.source, opened.data_dir):
        _, chosen, progress = open_data(data, specs_of(opened), asked, _SAMPLES, tell, "run")
        samples = [sample.feeds for sample in watched(chosen, progress)]
    else:
        samples = sizes or WholeModel(opened).made_up(2)
    return samples, sizes + samples * (samples is not sizes)


def _chained(opened: Model, pieces: Sequence[Piece], samples: Sequence[Feeds]) -> list[OutputAccuracy]:
    """Each output of the pieces in a chain beside the model's."""

    def loaded(model: onnx.ModelProto) -> Session:
        return ort.load(model, optimize=False, data_dir=opened.data_dir)

    sessions = {f"piece {number}": loaded(piece.model) for number, piece in enumerate(pieces)}
    ends = ([one.name for one in side] for side in (opened.inputs, opened.outputs))
    return compare_models(loaded(opened.source), Chain(sessions, *ends), samples)


def _judged(outputs: Iterable[OutputAccuracy]) -> tuple[OutputOfChain, ...]:
    return tuple(
        extended(OutputOfChain, entry, verdict="equal" if _equal(entry) else "differs") for entry in outputs
    )


@takes_options
def extract(
    model: ModelSource,
    *,
    start: Sequence[str] = (),
    end: Sequence[str] = (),
    node: str | None = None,
    observe: Observer | None = None,
    **options: Unpack[ExtractOptions],
) -> Extract:
    """Takes a part out of a model.

    Args:
        model: a path or a ModelProto, which is not modified.
        start: tensors that become the part's inputs; without any, all that `end` needs is taken.
        end: tensors that become its outputs.
        node: the name of a node, to take that one with its weights instead.
        observe: is told the steps.
        options: libraries of custom operators: `runtime`, or `ort_ops` in its place.

    Raises:
        UserError: the model cannot be read, there is no such tensor or node, or it cannot be cut
            there.
        TypeError: there is no such keyword.
    """
    runtime = Options.of("extract", options).runtime
    if bool(end) == (node is not None) or (start and node is not None):
        raise UserError(
            "it is not clear what to take out",
            hint="give tensors to end at (--to) and perhaps to start from (--from), or one --node",
        )
    told(observe)("extract", None, None)
    opened = Model.open(model)
    with ort.running(runtime):
        if node is not None:
            piece = extract_node(opened, node, ort.output_types)
        else:
            piece = extract_between(opened, start, end, ort.output_types)
    report = ExtractReport(
        kind="extract",
        schema=EXTRACT_SCHEMA,
        onnxq=VERSION,
        model=str(opened.path) if opened.path is not None else None,
        output=None,
        start=tuple(start),
        to=tuple(end),
        node=node,
        ops=tally(map(operator_name, piece.model.graph.node)),
        inputs=_infos(piece.model.graph.input),
        outputs=_infos(piece.model.graph.output),
        files=(),
    )
    return Extract(piece, report, opened.data_dir, opened.path)


@takes_options
def run_pieces(
    manifest: str | os.PathLike[str],
    data: DataSource,
    *,
    original: str | os.PathLike[str] | None = None,
    use: Mapping[int, str | os.PathLike[str]] | None = None,
    samples: int | None = None,
    tolerance: float | None = None,
    save: str | os.PathLike[str] | None = None,
    observe: Observer | None = None,
    **options: Unpack[RunPiecesOptions],
) -> ChainRun:
    """Runs the pieces of a model in a chain, and compares the outputs with the original's.

    Both run in onnxruntime with its optimizations off, node by node. Then each node computes the
    same in a piece as in the whole, and the outputs are equal. With optimizations on they would not
    be: what is fused across a cut in the whole cannot be in the pieces.

    Args:
        manifest: the file `X.split.json` that `Pieces.save` wrote.
        data: a path, or `{input: array}` for each sample.
        original: the original model; by default the one of the manifest, where it is still there.
        use: files to run instead of pieces, by the pieces' numbers: quantized ones, say.
        samples: how many samples at most; all by default.
        tolerance: the least SQNR in dB that an output may have. None: all outputs must be equal.
            Outputs that are not floats must be equal in any case.
        save: a new folder. It gets a file for each sample, `00000.npz` and on, with the inputs, what passes
            between the pieces, and the outputs. These are calibration data for each piece.
        observe: is told the steps.
        options: groups of options, or fields of these as keywords of their own: `skip_bad=True`; bad samples
            that are left out are counted in the document.

    Returns:
        What `onnxq pieces run --json` prints; `within` says whether all outputs are near
        enough, None where there is no original.

    Raises:
        UserError: the manifest, a model or the data cannot be read.
        RunError: a model does not run.
        TypeError: there is no such keyword.
    """
    asked = Options.of("run_pieces", options)
    with ort.running(asked.runtime):
        return _run(Path(manifest), data, original, use or {}, samples, tolerance, asked, save, told(observe))


def _run(
    path: Path,
    data: DataSource,
    original: str | os.PathLike[str] | None,
    use: Mapping[int, str | os.PathLike[str]],
    samples: int | None,
    tolerance: float | None,
    asked: Options,
    save: str | os.PathLike[str] | None,
    observe: Observer,
) -> ChainRun:
    document = _read_manifest(path)
    observe("load", None, None)
    chain = _load_chain(document, path.parent, use)
    reference, notes = _find_original(document, path.parent, original)
    specs = [_spec(entry, path) for entry in document.inputs]
    source, chosen, progress = open_data(data, specs, asked, samples, observe, "run")
    feeds = (sample.feeds for sample in watched(chosen, progress))
    runner = chain if save is None else _Saving(chain, _new_folder(Path(save)))
    observe("run", None, None)
    outputs: list[OutputAccuracy] = []
    count = 0
    if reference is not None:
        outputs = compare_models(ort.load(reference, optimize=False), runner, feeds)
        count = outputs[0].samples
    else:
        for sample in feeds:
            runner.run(sample)
            count += 1
    return ChainRun(
        kind="run",
        schema=RUN_SCHEMA,
        manifest=str(path),
        original=None if reference is None else str(reference),
        pieces=tuple(chain.labels),
        data=source.told(path_of(data)),
        samples=count,
        tolerance_db=tolerance,
        outputs=_judged(outputs),
        within=all(_within(entry, tolerance) for entry in outputs) if reference is not None else None,
        saved=None if save is None else str(save),
        notes=tuple(notes),
    )


def _ends(part: PieceWritten | ExtractReport) -> tuple[str, str]:
    """The names of inputs and of outputs."""
    return ", ".join(one.name for one in part.inputs), ", ".join(one.name for one in part.outputs)


def _rankless(pieces: Sequence[Piece]) -> tuple[str, ...]:
    """What a piece for TensorRT reads and TensorRT cannot take."""
    names = [
        entry.name
        for piece in pieces
        if not piece.isolated
        for entry in _infos(piece.model.graph.input)
        if entry.shape is None
    ]
    return (noted("pieces.no-rank", names=", ".join(names)),) if names else ()


def _equal(entry: OutputAccuracy) -> bool:
    return not entry.mismatched and entry.equal in (1.0, None)


def _within(entry: OutputAccuracy, tolerance: float | None) -> bool:
    if tolerance is None or entry.sqnr_db is None or entry.mismatched:
        return _equal(entry)
    return entry.sqnr_db >= tolerance


class _Saving:
    """A chain that writes a file for each sample.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
    """

    def __init__(self, chain: Chain, folder: Path) -> None:
        self.inputs, self.outputs = chain.inputs, chain.outputs
        self._chain, self._folder, self._count = chain, folder, 0

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """Runs the chain once."""
        names = list(dict.fromkeys((*self._chain.passed, *self.outputs)))
        values = {**feeds, **dict(zip(names, self._chain.run(feeds, names), strict=True))}
        _write_npz(self._folder / f"{self._count:05}.npz", values)
        self._count += 1
        return [values[name] for name in (self.outputs if outputs is None else outputs)]


def _write_npz(path: Path, values: Mapping[str, Any]) -> None:
    """Writes arrays of numbers under any name: `np.savez` takes none that it has an argument for."""
    try:
        with interrupts.Folder(path.parent) as stage:
            with zipfile.ZipFile(Path(stage, path.name), "w") as archive:
                for name, value in values.items():
                    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
                        with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                            np.lib.format.write_array(file, value, allow_pickle=False)
            os.replace(Path(stage, path.name), path)
    except OSError as error:
        raise UserError(f"cannot write {str(path)!r}: {error.strerror}", hint="is the disk full?") from error


def _new_folder(folder: Path) -> Path:
    try:
        folder.mkdir(exist_ok=True)
        empty = not any(folder.iterdir())
    except OSError as error:
        raise UserError(
            f"cannot write to the folder {str(folder)!r}: {error.strerror}",
            hint="give another folder with --save",
        ) from error
    if not empty:
        raise UserError(
            f"the folder {str(folder)!r} is not empty", hint="give a new one with --save, or empty it"
        )
    return folder


def _read_manifest(path: Path) -> Manifest:
    hint = "give the X.split.json that onnxq pieces split wrote"
    document = read_plain_document(path, {"pieces": PIECES_SCHEMA}, "manifest of pieces", hint)
    try:
        return typed(Manifest, document)
    except Unlike as error:
        raise UserError(f"{str(path)!r} is no manifest of pieces: {error}", hint=hint) from error


def _load_chain(document: Manifest, folder: Path, use: Mapping[int, str | os.PathLike[str]]) -> Chain:
    pieces = document.pieces
    for number in use:
        if not 0 <= number < len(pieces):
            raise UserError(
                f"there is no piece {number}", hint=f"the pieces are 0 to {len(pieces) - 1}, see the manifest"
            )
    paths = [Path(use.get(number, folder / (piece.file or ""))) for number, piece in enumerate(pieces)]
    sessions = {}
    for path in paths:
        if not os.path.isfile(path):
            raise UserError(f"there is no piece {str(path)!r}", hint="keep the pieces beside the manifest")
        sessions[str(path)] = ort.load(path, optimize=False)
    inputs, outputs = ([entry.name for entry in side] for side in (document.inputs, document.outputs))
    return Chain(sessions, inputs, outputs)


def _find_original(
    document: Manifest, folder: Path, given: str | os.PathLike[str] | None
) -> tuple[Path | None, list[str]]:
    """The model to compare with, None where there is none, and what the user may not expect of it."""
    if given is None and document.model is None:
        return None, [noted("pieces.no-file")]
    path = Path(given) if given is not None else folder / (document.model or "")
    if not os.path.isfile(path):
        if given is not None:
            raise UserError(f"there is no model file {str(path)!r}", hint="check --original")
        return None, [noted("pieces.gone", path=str(path))]
    if files.sha256(path) != document.sha256:
        return path, [noted("pieces.other-file", path=str(path))]
    return path, []


def _spec(entry: TensorDescribed, path: Path) -> InputSpec:
    if entry.dtype is None:
        raise UserError(
            f"input {entry.name!r} is no tensor, so that no data can be fed to it",
            hint="give a model all of whose inputs are tensors",
        )
    try:
        dtype = np.dtype(entry.dtype)
        elem_type_of(dtype)
    except (TypeError, ValueError, KeyError) as error:
        raise UserError(
            f"{str(path)!r}: input {entry.name!r} is of type {entry.dtype!r}, which no tensor has",
            hint="give the X.split.json as onnxq pieces split wrote it",
        ) from error
    return InputSpec(entry.name, dtype, entry.shape)


def _infos(infos: Iterable[onnx.ValueInfoProto]) -> tuple[TensorDescribed, ...]:
    """Inputs or outputs of a model."""
    return tuple(map(_info, infos))


def _info(info: onnx.ValueInfoProto) -> TensorDescribed:
    kind = info.type.tensor_type
    dtype, shape = dtype_of(kind.elem_type), shape_of(kind.shape) if kind.HasField("shape") else None
    return TensorDescribed(info.name, None if dtype is None else str(dtype), shape)


def _described(tensor: Tensor) -> TensorDescribed:
    dtype = None if tensor.dtype is None else str(tensor.dtype)
    return TensorDescribed(tensor.name, dtype, tensor.shape)


def _relative(path: Path, folder: Path) -> str:
    try:
        return Path(os.path.relpath(path, folder)).as_posix()
    except ValueError:  # on another drive
        return str(path.resolve())


# Models that run one after another, each on the inputs and on what the ones before it gave.


class Chain:
    """Sessions in a chain; a tensor is dropped after its last use.

    Attributes:
        inputs: names of the inputs.
        outputs: names of the outputs.
        labels: what errors call the sessions.
        passed: names of the tensors that a session gives and a later one reads, in order.
    """

    def __init__(
        self, sessions: Mapping[str, Session], inputs: Sequence[str], outputs: Sequence[str]
    ) -> None:
        """Checks that the sessions fit together.

        Args:
            sessions: the sessions in order, by the names that errors call them.
            inputs: names of what is fed to the chain.
            outputs: names of what it gives.

        Raises:
            UserError: a session reads, or the chain is to give, what no session before it gives.
        """
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.labels = tuple(sessions)
        self._sessions = dict(sessions)
        self._last: dict[str, str] = {}
        known = dict.fromkeys(inputs, "")
        for name, session in sessions.items():
            _check(f"{name!r} reads", session.inputs, known)
            self._last |= dict.fromkeys(session.inputs, name)
            known |= dict.fromkeys(session.outputs, name)
        _check("the chain is to give", outputs, known)
        self.passed = tuple(name for name, maker in known.items() if maker and name in self._last)

    def run(self, feeds: Mapping[str, np.ndarray], outputs: Sequence[str] | None = None) -> list[Any]:
        """Runs the chain once.

        Args:
            feeds: an array for each input.
            outputs: the outputs wanted, or tensors that are passed; all outputs by default.

        Raises:
            RunError: a session does not run; the message names it.
        """
        wanted = self.outputs if outputs is None else outputs
        values: dict[str, Any] = dict(feeds)
        for label, session in self._sessions.items():
            needed = [name for name in session.outputs if name in wanted or name in self._last]
            try:  # for no outputs onnxruntime gives all
                given = session.run({name: values[name] for name in session.inputs}, needed) if needed else []
            except RunError as error:
                raise RunError(f"{label}: {error}", hint=error.hint) from error
            values.update(zip(needed, given, strict=True))
            for name in session.inputs:
                if self._last[name] == label and name not in wanted:
                    del values[name]
        return [values[name] for name in wanted]


def _check(who: str, names: Sequence[str], known: Mapping[str, str]) -> None:
    for name in names:
        if name not in known:
            raise UserError(
                f"{who} {name!r}, which nothing before it gives",
                hint="a piece must keep the names of the inputs and outputs that it was cut with",
            )

"""A bundle: candidates of one model, what the float model answers, and the script that measures them."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np

from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, count, decibels
from onnxq.base.version import VERSION
from onnxq.body.emulate import Emulated
from onnxq.data.samples import specs_of
from onnxq.data.sources import DataSource
from onnxq.documents.measurements import read_measurements
from onnxq.documents.reading import Readable, read_document
from onnxq.emit import measure
from onnxq.emit.files import save_file, save_model, sha256
from onnxq.graph.half import speaks_half
from onnxq.graph.layers import layer_of, multiplies
from onnxq.graph.model import Model
from onnxq.inspection.inner_tensors import inner_tensors
from onnxq.inspection.measured_bundle import (
    BASELINE,
    WHOLE,
    layer_times,
    longer_in_int8,
    proposed,
    times_of,
)
from onnxq.inspection.opened_data import open_data
from onnxq.options.call_options import BundleOptions
from onnxq.options.config import LayerRule
from onnxq.options.grouped import Options
from onnxq.options.keywords import takes_options
from onnxq.options.settings import Format
from onnxq.pipeline.compiler import check_device
from onnxq.pipeline.jobs import plan, quantize
from onnxq.pipeline.repairing import sanitize
from onnxq.pipeline.result import Result
from onnxq.quant.heads import heads
from onnxq.quant.plan_file import PlanFile
from onnxq.quant.plan_reading import read_plan
from onnxq.run import ort
from onnxq.run.compare import Recording, compare_models
from onnxq.run.ort import Feeds
from onnxq.run.profiles import Profile
from onnxq.targets import load_target
from onnxq.targets.devices import device_of

REFERENCES = 4
"""How many samples have to give the same answers on the device."""
GROUPS = 4
"""In how many parts all layers are left in float in turns."""
MOST = 12
"""How many candidates there are at most."""
SCALES, LONGER = "scales", "longer-layers"


@dataclass(frozen=True, slots=True)
class BundledModel(DocumentPart):
    """A model that is measured.

    Attributes:
        name: its name, which its files begin with.
        file: its file.
        plan: the plan that makes it again; None of the float one.
        what: what is in int8, in words.
        layers: how many layers are in each type.
        build: the flags of trtexec that it is built with.
        outputs_db: how near its outputs are to the float model's on the samples of the bundle, in
            onnxruntime, dB.
        near_db: the worst of them.
        near: how near they are, in words: on the samples kept apart, where there are some.
        parts: the other candidates that it combines.
    """

    name: str
    file: str
    plan: str | None
    what: str
    layers: Mapping[str, int]
    build: tuple[str, ...]
    outputs_db: Mapping[str, float]
    near_db: float
    near: str
    parts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class Bundle(Shown, DocumentPart):
    """A folder to copy to the device, `manifest.json`.

    Attributes:
        kind: "bundle".
        schema: 1.
        onnxq: the version of onnxq.
        folder: the folder.
        model: the name of the float model's file.
        model_sha256: its hash, in hexadecimal.
        target: what it is for.
        tensorrt: its release, "10.3"; "" where any will do.
        tool: the command that builds engines.
        explains: whether that writes the layers of an engine, and what each takes.
        device: the device that was named, or "".
        dynamic: the shapes that are timed, as trtexec takes them; "" where all are fixed.
        baseline: the name of the candidate that others have to beat.
        candidates: the models.
        inputs: the inputs, by name and type, in the order of the samples' arrays.
        outputs: likewise the outputs.
        samples: the files of the samples.
        left_out: candidates that could not be made, and why.
        files: the hash of each file, by name.
        answer: what was measured so far, in lines.
        done: whether nothing is left to be tried.
    """

    kind: str
    schema: int
    onnxq: str
    folder: str
    model: str
    model_sha256: str
    target: str
    tensorrt: str
    tool: str
    explains: bool
    device: str
    dynamic: str
    baseline: str
    candidates: tuple[BundledModel, ...]
    inputs: tuple[Mapping[str, str], ...]
    outputs: tuple[Mapping[str, str], ...]
    samples: tuple[str, ...]
    left_out: Mapping[str, str]
    files: Mapping[str, str]
    answer: tuple[str, ...] = ()
    done: bool = False

    @property
    def command(self) -> str:
        """What is typed on the device, in the folder."""
        return f"python3 {measure.SCRIPT}"

    @property
    def following(self) -> str:
        """What is to be done with it, in words."""
        if self.done:
            return say("bundle.done")
        return say("bundle", folder=shlex.quote(self.folder), command=self.command)

    def words(self) -> Words:
        """What is measured, and by what."""
        size = sum((Path(self.folder) / name).stat().st_size for name in self.files)
        facts = [
            count(len(self.candidates), "candidate"), count(len(self.samples), "sample"),
            f"{size / 1e6:.1f} MB", self.following,
        ]  # fmt: skip
        facts += [say("bundle.left", name=name, why=why) for name, why in self.left_out.items()]
        rows = [(one.name, one.what, one.near) for one in self.candidates]
        return Words(
            f"bundle of {self.model}, for {self.target}", facts, ("candidate", "what", "outputs"), rows
        )


@takes_options
def bundle(
    model: str | os.PathLike[str],
    data: DataSource,
    output: str | os.PathLike[str],
    *,
    references: int = REFERENCES,
    also: Sequence[str | os.PathLike[str]] = (),
    layers: Sequence[LayerRule] = (),
    observe: Observer | None = None,
    **options: Unpack[BundleOptions],
) -> Bundle:
    """Makes candidates of a model and all that measures them on the device, in one folder.

    The candidates are few, and differ in what costs time: the float model in half precision, all in int8,
    and parts of that in float. In a folder that was measured one more is made, of what was shown to gain.

    Args:
        model: the path of the float model.
        data: as in `quantize`.
        output: the folder where all is written; it is made, and has to be empty, or measured.
        references: how many samples have to give the same answers on the device.
        also: finished models with the same inputs and outputs, by whatever tool: they are measured beside.
        layers: as in `quantize`.
        observe: is told the steps.
        options: as in `plan`.

    Raises:
        UserError: the model, the data, an option or the folder cannot be used.
        TypeError: there is no such keyword.
        Fault: a fault of onnxq.
    """
    asked, out = Options.of("bundle", options), Path(output)
    if references < 1:
        raise UserError(f"--references {references}: there must be at least 1")
    target = load_target(asked.repairs.target)
    if not target.explicit:
        raise UserError(
            f"{target.title} calibrates by itself, and there is one int8 model to measure",
            hint="give a --target that takes Q/DQ pairs",
        )
    check_device(asked.compilation, target)
    heard = told(observe)
    if (out / measure.RESULTS).is_file():
        found = read_bundle(out)
        refs = _References.of(Path(model), data, asked, len(found.samples), heard)
        return _Made(
            Path(model), data, out, asked, layers, heard, refs, found.candidates
        ).again(found)  # fmt: skip
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{str(out)!r} exists, and is not an empty folder", hint="give another one with -o")
    refs = _References.of(Path(model), data, asked, references, heard)
    return _Made(Path(model), data, out, asked, layers, heard, refs).bundle(also)


@dataclass(frozen=True, slots=True)
class _References:
    """Samples, and what the float model gives for each.

    Attributes:
        feeds: the samples.
        floats: the float model's outputs.
        files: where both are written, in a folder.
    """

    feeds: Sequence[Feeds]
    floats: Recording
    files: tuple[str, ...]

    @classmethod
    def of(cls, model: Path, data: DataSource, asked: Options, most: int, observe: Observer) -> _References:
        """Those of a model and the first of the data.

        Raises:
            UserError: the model does not run, or there are no samples.
        """
        _, chosen, _ = open_data(data, specs_of(Model.open(model)), asked, most, observe, "compare")
        feeds = [dict(sample.feeds) for sample in chosen]
        if not feeds:
            raise UserError("there are no samples", hint="give --calib DATA")
        names = tuple(f"sample_{place}.npz" for place in range(len(feeds)))
        return cls(feeds, Recording.of(ort.load(model), feeds), names)

    def save(self, folder: Path) -> tuple[Mapping[str, str], ...]:
        """Writes them; the outputs by name and type."""
        folder.mkdir(parents=True, exist_ok=True)
        self.floats.again()
        for name, given in zip(self.files, self.feeds, strict=True):
            answers = self.floats.run(given)
            arrays = {f"in{place}": np.asarray(one) for place, one in enumerate(given.values())}
            arrays |= {f"out{place}": np.asarray(one) for place, one in enumerate(answers)}
            np.savez_compressed(folder / name, **arrays)  # type: ignore[arg-type]
        return _typed(dict(zip(self.floats.outputs, answers, strict=True)))

    def levels(self, path: Path) -> dict[str, float]:
        """How near the outputs of a file are to the float model's, in onnxruntime, dB."""
        model = Model.open(path)
        half = speaks_half(model.to_proto(weights=False))
        runs = Emulated(model.source, data_dir=model.data_dir) if half else ort.load(path)
        types = {tensor.name: tensor.dtype for tensor in model.inputs}
        self.floats.again()
        found = compare_models(self.floats, runs, self.feeds, types)
        return {one.output: 99.9 if one.sqnr_db is None else min(99.9, one.sqnr_db) for one in found}


class _Made:
    """What is made so far, in a folder.

    Attributes:
        candidates: the models.
        left_out: candidates that could not be made, and why.
        profiles: the smallest, usual and largest shape of each dynamic input.
    """

    def __init__(
        self, model: Path, data: DataSource, folder: Path, asked: Options, layers: Sequence[LayerRule],
        observe: Observer, references: _References, candidates: Sequence[BundledModel] = (),
    ) -> None:  # fmt: skip
        self.candidates, self.left_out = [*candidates], dict[str, str]()
        self.profiles: dict[str, Profile] = {}
        self._model, self._data, self._folder, self._asked = model, data, folder, asked
        self._target, self._layers, self._observe = load_target(asked.repairs.target), layers, observe
        self._references = references
        self._hashes = {sha256(folder / one.file) for one in candidates}

    def bundle(self, also: Sequence[str | os.PathLike[str]]) -> Bundle:
        """All of it; `also`: finished models."""
        asked, references = self._asked, self._references
        planned = plan(
            self._model, self._data, layers=self._layers, observe=self._observe, **self._both(),
            calibration=asked.calibration, accuracy=asked.accuracy, format=asked.format,
            compilation={"device": asked.compilation.device},
        )  # fmt: skip
        outputs = references.save(self._folder)
        self._float16()
        self._variant(WHOLE, say("bundle.int8"), planned.file)
        for name, what, out in self._parts(planned.file):
            self._variant(name, what, _in_float(planned.file, out))
        scaled = self._scaled(planned.file)
        if scaled is not None:
            self._variant(SCALES, say("bundle.scales", form=_form(scaled)), scaled)
        self._in_fp8()
        for path in also:
            self.finished(Path(path))
        save_file(self._folder / measure.SCRIPT, Path(measure.__file__).read_bytes())
        release = self._target.name.rpartition("-")[2]
        at = self._asked.compilation.device
        return self._written(Bundle(
            "bundle", 1, VERSION, str(self._folder), self._model.name, sha256(self._model),
            self._target.name, "" if self._target.compiler == "own" else release, self._target.tool,
            self._target.explains, "" if at is None else device_of(at).title,
            _shapes({name: usual for name, (_, usual, _) in self.profiles.items()}), BASELINE,
            tuple(self.candidates), _typed(references.feeds[0]), outputs, references.files, self.left_out, {},
        ))  # fmt: skip

    def _written(self, found: Bundle) -> Bundle:
        own = {measure.MANIFEST, measure.RESULTS}
        names = [measure.SCRIPT, *found.samples, *(one.file for one in found.candidates)]
        names += [
            path.name for pattern in ("*.onnx.data", "*.tensors.npz") for path in self._folder.glob(pattern)
        ]
        found = replace(found, files={name: sha256(self._folder / name) for name in names if name not in own})
        text = json.dumps(found.to_dict(), indent=1) + "\n"
        save_file(self._folder / measure.MANIFEST, text.encode())
        return found

    def again(self, found: Bundle) -> Bundle:
        """A bundle that was measured, with what was shown to gain together.

        Raises:
            UserError: it is of another model, or its files cannot be read.
        """
        if found.model_sha256 != sha256(self._model):
            raise UserError(
                f"{str(self._folder)!r} is a bundle of another model", hint="give another folder with -o"
            )
        said = read_measurements(self._folder / measure.RESULTS)
        times, answer = times_of(said), said.answer
        file = read_plan(self._folder / f"{WHOLE}.plan.toml")
        parts = {name: out for name, _, out in self._parts(file)}
        files = {
            one.name: self._folder / one.file for one in found.candidates if one.name in (BASELINE, WHOLE)
        }
        longer = longer_in_int8(layer_times(self._folder, files)) & {
            one.node for one in file.layers if one.format != "float"
        }
        scaled = self._scaled(file)
        known = {*parts, *[SCALES] * (scaled is not None)}
        made = {WHOLE: frozenset[str](), **{name: frozenset([name]) for name in known}}
        made |= {one.name: frozenset(one.parts) for one in found.candidates if one.parts}
        room = MOST - len(found.candidates)
        tries = proposed(times, made, room)
        if longer and all(longer != out for out in parts.values()):
            parts[LONGER] = longer
            tries = [(LONGER,), *tries][:room] if frozenset([LONGER]) not in made.values() else tries
        if not tries:
            return replace(found, answer=answer, done=True)
        for parts_of in tries:
            name = f"combined-{sum(bool(one.parts) for one in self.candidates) + 1}"
            out = set[str]().union(*(parts[one] for one in parts_of if one in parts))
            base = scaled if scaled is not None and SCALES in parts_of else file
            what = say("bundle.combined", parts=", ".join(parts_of))
            self._variant(name, what, _in_float(base, out), parts_of)
        left = {**found.left_out, **self.left_out}
        return self._written(replace(found, candidates=tuple(self.candidates), left_out=left, answer=answer))

    def _both(self) -> dict[str, Any]:
        asked = self._asked
        return {
            "repairs": asked.repairs, "inputs": asked.inputs, "images": asked.images,
            "feeding": asked.feeding, "runtime": asked.runtime,
        }  # fmt: skip

    # -- the candidates ---------------------------------------------------------------------------

    def _float16(self) -> None:
        typed = self._target.strongly_typed
        given: dict[str, Any] = {"format": Format(body="fp16")}
        result = sanitize(
            self._model, self._data if typed else None, observe=self._observe,
            **{**self._both(), **(given if typed else {"images": None, "feeding": None})},
        )  # fmt: skip
        self._add(BASELINE, say("bundle.float16"), result, None, () if typed else ("--fp16",))

    def _parts(self, file: PlanFile) -> Iterator[tuple[str, str, Set[str]]]:
        """Parts of what is in int8 that may be better off in float: a name, what it is, the nodes."""
        model = Model.open(self._folder / f"{WHOLE}.onnx")
        nodes = {node.name: node for node in model.nodes}
        int8 = [name for name in nodes if name in {one.node for one in file.layers if one.format != "float"}]
        products = [name for name in int8 if multiplies(nodes[name])]
        attention = {name for name in products if layer_of(nodes[name], quantized=True) is None}
        parts: dict[str, tuple[str, Set[str]]] = {
            "products": (say("bundle.products"), set(int8) - set(products)),
            "attention-float": (say("bundle.attention"), attention),
            "heads-float": (say("bundle.heads"), set(heads(model)) & set(int8)),
        }
        for name, (what, out) in parts.items():
            if out and out != set(int8):
                yield name, what, out
        cuts = [len(products) * place // GROUPS for place in range(GROUPS + 1)] if len(products) > 1 else []
        for place, (start, end) in enumerate(itertools.pairwise(dict.fromkeys(cuts))):
            first, last = products[start], products[end - 1]
            stop = int8.index(products[end]) if end < len(products) else len(int8)
            out = set(int8[int8.index(first) if start else 0 : stop])
            if all(out != part for _, part in parts.values()):
                what = (
                    say("bundle.without", first=first, last=last)
                    if first != last
                    else say("bundle.one", node=first)
                )
                yield f"without-{place + 1}", what, out

    def _scaled(self, file: PlanFile) -> PlanFile | None:
        """The plan with the other form of weight scales: a scale a channel where any layer has one scale."""
        nodes = {node.name: node for node in Model.open(self._folder / f"{WHOLE}.onnx").nodes}
        own = {one.node: one.scales for one in file.layers if one.format != "float" and one.node in nodes}
        weighted = {name for name in own if layer_of(nodes[name], quantized=True) is not None}
        form = "" if any(own[name] for name in weighted) else "post-scale"
        if not weighted or not (file.body and file.body.settled):
            return None
        return replace(
            file,
            layers=tuple(replace(one, scales=form) if one.node in weighted else one for one in file.layers),
        )

    def _variant(self, name: str, what: str, file: PlanFile, parts: tuple[str, ...] = ()) -> None:
        """A plan, and the model that it makes."""
        path = self._folder / f"{name}.plan.toml"
        for one, content in file.files(path.name).items():
            save_file(self._folder / one, content)
        try:
            result = quantize(
                self._model, self._data, plan=path, compile=False, observe=self._observe, **self._both()
            )
        except UserError as error:
            if name == WHOLE:
                raise
            self.left_out[name] = str(error)
            return
        types = tuple(" ".join(self._target.types[:1]).split())
        self._add(name, what, result, path.name, types, parts)

    def _in_fp8(self) -> None:
        """The same in FP8, where the target has it, and the device that is named multiplies in it."""
        at, asked = self._asked.compilation.device, self._asked
        if "fp8" not in self._target.formats or at is None or not device_of(at).multiplies("fp8"):
            return
        result = quantize(
            self._model, self._data, compile=False, layers=self._layers, observe=self._observe,
            **self._both(), calibration=asked.calibration, accuracy=asked.accuracy,
            format=replace(asked.format, number_format="fp8"),
        )  # fmt: skip
        types = tuple(" ".join(self._target.types[:1]).replace("--int8", "--fp8").split())
        self._add("fp8", say("bundle.fp8"), result, None, types)

    def _add(
        self, name: str, what: str, result: Result, planned: str | None, types: Sequence[str],
        parts: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Writes a candidate, unless it is one that is there."""
        result.save(self._folder / f"{name}.onnx", page=False)
        self.profiles.update(result.profiles)
        report = result.report
        kinds: list[str] = [layer.format for layer in report.plan.layers] if report.plan else []
        figures = () if report.task is None else report.task.figures[:1]
        kept = [f"{one.name} {one.percent:.1f} %" for one in figures if one.percent is not None]
        about = None if report.about_mean is None else report.about_mean.sqnr_about_mean_db
        counts = {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)}
        self._enter(name, what, types, about, kept, planned=planned, counts=counts, parts=parts)

    def finished(self, path: Path) -> None:
        """Adds a file of the user's, which was made by whatever tool."""
        name, model = re.sub(r"[^\w-]", "_", path.stem), Model.open(path)
        while (self._folder / f"{name}.onnx").exists():
            name += "_"
        save_model(model.to_proto(), self._folder / f"{name}.onnx", model.data_dir)
        types = () if self._target.strongly_typed else " ".join(self._target.types[:1]).split()
        try:
            self._enter(name, say("bundle.finished", file=path.name), types)
        except UserError as error:
            self._leave_out(name, str(error))

    def _enter(
        self, name: str, what: str, types: Sequence[str], level: float | None = None,
        kept: Sequence[str] = (), *, planned: str | None = None, counts: Mapping[str, int] | None = None,
        parts: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        """Enters a candidate that is written; `level`: how near it is on samples kept apart, dB."""
        path = self._folder / f"{name}.onnx"
        if (digest := sha256(path)) in self._hashes:
            self._leave_out(name, say("bundle.same"))
            return
        levels = self._references.levels(path)
        inner = inner_tensors(Model.open(path), self._references.feeds[0])
        save_file(self._folder / f"{name}.tensors.npz", inner)
        self._hashes.add(digest)
        shapes = {
            key: _shapes({one: sizes[place] for one, sizes in self.profiles.items()})
            for place, key in enumerate(("minShapes", "optShapes", "maxShapes"))
        }
        least = min(levels.values())
        near = ", ".join([f"outputs at {decibels(least if level is None else level)}", *kept])
        build = (*types, *(f"--{key}={said}" for key, said in shapes.items() if said))
        self.candidates.append(
            BundledModel(name, path.name, planned, what, counts or {}, build, levels, least, near, parts)
        )

    def _leave_out(self, name: str, why: str) -> None:
        for one in self._folder.glob(f"{name}.*"):
            one.unlink()
        self.left_out[name] = why


def read_bundle(folder: Path) -> Bundle:
    """The bundle in a folder.

    Raises:
        UserError: there is none.
    """
    kinds = {"bundle": Readable(Bundle, 1)}
    return read_document(
        folder / measure.MANIFEST, kinds, "bundle of onnxq", hint="give a folder that onnxq bundle wrote"
    ).document


def _form(file: PlanFile) -> str:
    return "post-scale" if any(one.scales for one in file.layers) else "per-channel"


def _in_float(file: PlanFile, nodes: Set[str]) -> PlanFile:
    """A plan with nodes in float."""
    because = say("bundle.float")
    return replace(file, layers=tuple(
        replace(one, format="float", because=because, scales="") if one.node in nodes else one
        for one in file.layers
    ))  # fmt: skip


def _typed(arrays: Feeds) -> tuple[Mapping[str, str], ...]:
    return tuple({"name": name, "dtype": str(np.asarray(one).dtype)} for name, one in arrays.items())


def _shapes(sizes: Mapping[str, Sequence[int]]) -> str:
    """As trtexec takes them: `x:1x3x8x8,y:1x4`."""
    return ",".join(f"{measure.quoted(name)}:{'x'.join(map(str, shape))}" for name, shape in sizes.items())

"""What a run made, and where it is saved."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnx

from onnxq.advice.advise import advise
from onnxq.base.shown import Shown, Words
from onnxq.documents.advice import Advice
from onnxq.documents.calibration import CalibrationPart
from onnxq.documents.report import Report
from onnxq.emit import files
from onnxq.emit.serving import Served, bindings, check_servers, serving_path, serving_text
from onnxq.graph.spool import Spool
from onnxq.options.settings import Papers
from onnxq.pipeline.words import result_words
from onnxq.pipeline.written_page import page_text
from onnxq.run.deployment import Deployment
from onnxq.run.deployments import main_of
from onnxq.run.profiles import Profile
from onnxq.targets import load_target


@dataclass(slots=True, repr=False)
class Result(Shown):
    """What a run made.

    Attributes:
        model: the new model. External data, if any, is where the source has it; of a large model new
            weights are in a temporary file, as long as this object lives.
        report: the report, the document of `X.report.json`; complete once it is saved.
        data_dir: the folder that external data is relative to, or None.
        source: the path of the original model, or None.
        profiles: smallest, usual and largest shape of each dynamic input; of several deployments, those of
            the one with most of the work.
        deployments: the profiles of each of several deployments, by its name.
        cache: the TensorRT calibration cache, or None.
    """

    model: onnx.ModelProto
    report: Report
    data_dir: Path | None = None
    source: Path | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    deployments: Mapping[str, Mapping[str, Profile]] = field(default_factory=dict)
    cache: str | None = None
    _spool: Spool | None = field(default=None, repr=False)

    def words(self) -> Words:
        """What it is, how near its outputs are, what runs in int8 and whether that pays."""
        return result_words(self.report)

    @property
    def advice(self) -> Advice:
        """Whether to ship it, why, and what to do."""
        return advise(self.report)

    def deployed(self, deployments: Sequence[Deployment]) -> Result:
        """It, with the profiles of these deployments, which its commands have when it is saved."""
        self.profiles = main_of(deployments).profiles
        self.deployments = {one.name: one.profiles for one in deployments if one.name}
        return self

    def save(
        self, path: str | os.PathLike[str], *, force: bool = False, page: bool = True,
        deploy: str | Sequence[str] | None = None,
    ) -> list[Path]:  # fmt: skip
        """Writes `X.onnx` (`X.onnx.data`), `X.report.json`, `X.report.html`, and any `X.cache`.

        Args:
            path: the model's path.
            force: replace a file that onnxq did not write.
            page: write the report as a page too. One that cannot be made is left out, with a remark.
            deploy: write for these servers too, of "triton", "deepstream", "trtexec" (docs/usage.md).

        Returns:
            The files written.

        Raises:
            UserError: the path is the input, or cannot be written; or there is no such server.
        """
        save_made(self, path, Papers(page=page, deploy=deploy), force=force)
        if page:
            save_page(self)
        return sorted(map(Path, self.report.files))


def save_made(result: Result, path: str | os.PathLike[str], papers: Papers, *, force: bool = False) -> None:
    """Writes all of a result but its page; one of an earlier run goes, as it is not of this model.

    Args:
        result: the result.
        path: the model's path.
        papers: what is written beside it; the page is to come.
        force: replace a file that onnxq did not write.

    Raises:
        UserError: the path is the input, or cannot be written.
    """
    output, told = Path(path), result.report
    serving = {name: serving_path(output, name) for name in papers.servers}
    check_servers(papers.servers, load_target(told.target))
    files.check_output(
        output, result.source, force=force, cache=result.cache is not None, page=papers.page,
        beside=list(serving.values()),
    )  # fmt: skip
    data = [output.with_name(output.name + ".data")] if files.needs_data_file(result.model) else []
    cache = files.cache_path(output) if result.cache is not None else None
    record = files.report_path(output)
    result.report = replace(
        told,
        output=str(output),
        files=tuple(
            str(file) for file in (output, *data, cache, *serving.values(), record) if file is not None
        ),
        commands=_commands(result, output, cache),
        profiles={name: tuple(map(tuple, shapes)) for name, shapes in result.profiles.items()},
    )
    _advised(result)

    def report(hashes: Mapping[str, str]) -> dict[str, Any]:
        result.report = replace(result.report, sha256=hashes[output.name])
        return result.report.to_dict()

    documents: dict[str, Any] = {record.name: report}
    served = _served(result, output, cache)
    documents |= {file.name: serving_text(name, served) for name, file in serving.items()}
    if papers.page:
        documents[files.page_path(record).name] = None
    if cache is not None:
        documents[cache.name] = result.cache
    files.save_models(output.parent, {output.name: result.model}, result.data_dir, documents)


def _advised(result: Result) -> None:
    result.report = replace(result.report, advice=advise(result.report))


def _served(result: Result, output: Path, cache: Path | None) -> Served:
    """The engine of a saved result, for who serves it."""
    told, graph = result.report, result.model.graph
    constants = {one.name for one in graph.initializer}
    dims = [*told.deployment.dimensions, *(dim for one in told.deployments for dim in one.dimensions)]
    data = told.calibration.data if isinstance(told.calibration, CalibrationPart) else None
    return Served(
        model=output,
        inputs=bindings([one for one in graph.input if one.name not in constants]),
        outputs=bindings(graph.output),
        profiles=tuple(filter(None, result.deployments.values() or [result.profiles])),
        batch=frozenset(dim.name for dim in dims if dim.batch),
        images=data.images if data is not None else (),
        build=_commands(result, Path(output.name), cache and Path(cache.name))[0],  # run where they lie
    )


def _commands(result: Result, output: Path, cache: Path | None) -> tuple[str, ...]:
    """The commands that build an engine of a saved result."""
    told = result.report
    target = load_target(told.target)
    implicit = cache is not None and not target.explicit
    types = target.types if told.plan else ()
    formats = " ".join(f"--{name}" for name in told.number_format.split(" and "))
    types = tuple(flags.replace("--int8", formats) for flags in types)
    if told.body and told.body.type == "bf16":
        types = tuple(flags.replace("--fp16", "--bf16") for flags in types)
    first, *more = list(result.deployments.values()) or [result.profiles]
    return tuple(
        commands(
            output,
            target.tool,
            first,
            result.source,
            cache,
            implicit,
            types,
            more=more,
            exact=bool(told.exact_products),
            explain=target.explains,
        )
    )


def save_told(result: Result) -> None:
    """Writes the report of a saved result once more, with what is known since.

    Raises:
        UserError: it cannot be written.
    """
    record = _record(result)
    _advised(result)
    files.save_models(record.parent, {}, None, {record.name: result.report.to_dict()})


def save_page(result: Result) -> None:
    """Writes the page of a saved result, and into its report that it is there.

    A page that cannot be made is remarked.

    Raises:
        UserError: they cannot be written.
    """
    record = _record(result)
    shown = files.page_path(record)
    report = replace(result.report, files=(*result.report.files, str(shown)))
    text = page_text(report)
    if text is not None:
        result.report = report
        files.save_models(record.parent, {}, None, {shown.name: text, record.name: report.to_dict()})


def _record(result: Result) -> Path:
    """The file of a saved result's report."""
    assert result.report.output is not None
    return files.report_path(Path(result.report.output))


def commands(
    model: Path,
    tool: str,
    profiles: Mapping[str, Profile],
    original: Path | None,
    cache: Path | None = None,
    implicit: bool = False,
    types: Sequence[str] = (),
    *,
    more: Sequence[Mapping[str, Profile]] = (),
    exact: bool = False,
    explain: bool = True,
) -> list[str]:
    """Command lines for an output file.

    Args:
        model: the file that was written.
        tool: the command that builds engines of the target.
        profiles: smallest, usual and largest shape of each dynamic input.
        original: the float model, to compare with.
        cache: the calibration cache, or None.
        implicit: whether TensorRT quantizes the model itself, by the cache.
        types: flags of trtexec and of Polygraphy that let TensorRT run the types of Q/DQ pairs.
        more: likewise of further optimization profiles.
        exact: whether TensorRT must not round the factors of float32 products to TF32, as it does by itself
            (Polygraphy does not).
        explain: whether the tool can write what `onnxq engine --layer-info --profile-times` reads: the layers
            of the engine, and what each takes, in a run of its own after the one that is measured.
    """
    build_types, run_types = types or ("", "")
    build = [tool, f"--onnx={model}", f"--saveEngine={model.with_suffix('.engine').name}"]
    if implicit and cache is not None:
        build += ["--int8", f"--calib={cache}"]
    elif build_types:
        build += build_types.split()
    if exact:
        build.append("--noTF32")
    several = [one for one in (profiles, *more) if one]
    for number, one in enumerate(several):
        build += [f"--profile={number}"] if len(several) > 1 else []
        for position, flag in enumerate(("minShapes", "optShapes", "maxShapes")):
            sizes = (f"{name}:{'x'.join(map(str, profile[position]))}" for name, profile in one.items())
            build.append(f"--{flag}={','.join(sizes)}")
    if explain:
        build += ["--profilingVerbosity=detailed", "--dumpProfile", "--separateProfileRun"]
        build.append(f"--exportLayerInfo={model.with_suffix('.layers.json').name}")
        build.append(f"--exportProfile={model.with_suffix('.times.json').name}")
    lines = [shlex.join(build)]
    if original is not None and not implicit:
        run = ["polygraphy", "run", str(model), "--onnxrt", "--trt", *run_types.split()]
        for one in several:
            for position, flag in enumerate(("--trt-min-shapes", "--trt-opt-shapes", "--trt-max-shapes")):
                run.append(flag)
                run += [f"{name}:[{','.join(map(str, p[position]))}]" for name, p in one.items()]
        lines.append(("POLYGRAPHY_USE_TENSORRT_RTX=1 " if tool == "tensorrt_rtx" else "") + shlex.join(run))
    return lines

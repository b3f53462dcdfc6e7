"""What a run made, and where it is saved."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import onnx

from onnxq.documents.report import Report
from onnxq.documents.typed import published, typed
from onnxq.emit import files
from onnxq.emit.commands import commands
from onnxq.graph.spool import Spool
from onnxq.pipeline.paging import page_text
from onnxq.pipeline.words import result_words
from onnxq.reporting import to_json
from onnxq.run.profiles import Profile
from onnxq.shown import Shown, Words
from onnxq.target import load_target


@dataclass(slots=True, repr=False)
class Result(Shown):
    """What a run made.

    Attributes:
        model: the new model. External data, if any, is where the source has it; of a large model new
            weights are in a temporary file, as long as this object lives.
        report: the report, the document of `X.report.json`.
        data_dir: the folder that external data is relative to, or None.
        source: the path of the original model, or None.
        profiles: smallest, usual and largest shape of each dynamic input; of several deployments, those of
            the one with most of the work.
        deployments: the profiles of each of several deployments, by its name.
        cache: the TensorRT calibration cache, or None.
    """

    model: onnx.ModelProto
    report: dict[str, Any]
    data_dir: Path | None = None
    source: Path | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    deployments: Mapping[str, Mapping[str, Profile]] = field(default_factory=dict)
    cache: str | None = None
    _spool: Spool | None = field(default=None, repr=False)

    @property
    def document(self) -> Report:
        """The report by its type, as it is now.

        Raises:
            ValueError: something was put into `report` that is not of it.
        """
        return typed(Report, to_json(self.report))

    def words(self) -> Words:
        """What it is, how near its outputs are, what runs in int8 and whether that pays."""
        return result_words(typed(Report, to_json(self.report), lenient=True))

    def save(self, path: str | os.PathLike[str], *, force: bool = False, page: bool = True) -> list[Path]:
        """Writes `X.onnx` (`X.onnx.data`), `X.report.json`, `X.report.html`, and any `X.cache`.

        Args:
            path: the model's path.
            force: replace a file that onnxq did not write.
            page: write the report as a page too. One that cannot be made is left out, with a remark.

        Returns:
            The files written.

        Raises:
            UserError: the path is the input, or cannot be written.
        """
        document = save_made(self, path, force=force, page=page)
        if page:
            save_page(self, document)
        return sorted(map(Path, self.report["files"]))


def save_made(
    result: Result, path: str | os.PathLike[str], *, force: bool = False, page: bool = True
) -> dict[str, Any]:
    """Writes all of a result but its page; one of an earlier run goes, as it is not of this model.

    Args:
        result: the result.
        path: the model's path.
        force: replace a file that onnxq did not write.
        page: whether a page is to come.

    Returns:
        The report as it was written.

    Raises:
        UserError: the path is the input, or cannot be written.
    """
    output, told = Path(path), result.report
    files.check_output(output, result.source, force=force, cache=result.cache is not None, page=page)
    data = [output.with_name(output.name + ".data")] if files.needs_data_file(result.model) else []
    cache = files.cache_path(output) if result.cache is not None else None
    record = files.report_path(output)
    told["output"] = str(output)
    told["files"] = [str(file) for file in (output, *data, cache, record) if file is not None]
    target = load_target(told["target"])
    implicit = cache is not None and not target.explicit
    types = target.types if told["plan"] else ()
    if told["body"].get("type") == "bf16":
        types = tuple(flags.replace("--fp16", "--bf16") for flags in types)
    first, *more = list(result.deployments.values()) or [result.profiles]
    told["commands"] = commands(
        output,
        target.tool,
        first,
        result.source,
        cache,
        implicit,
        types,
        more=more,
        exact=bool(told["exact_products"]),
        explain=target.explains,
    )
    told["profiles"] = {name: [list(s) for s in shapes] for name, shapes in result.profiles.items()}
    document: dict[str, Any] = {}

    def report(hashes: Mapping[str, str]) -> dict[str, Any]:
        told["sha256"] = hashes[output.name]
        document.update(published(Report, told))
        return document

    documents: dict[str, Any] = {record.name: report}
    if page:
        documents[files.page_path(record).name] = None
    if cache is not None:
        documents[cache.name] = result.cache
    files.save_models(output.parent, {output.name: result.model}, result.data_dir, documents)
    return document


def save_told(result: Result) -> dict[str, Any]:
    """Writes the report of a saved result once more, with what is known since; returns it as it was written.

    Raises:
        UserError: it cannot be written.
    """
    document = published(Report, result.report)
    record = files.report_path(Path(result.report["output"]))
    files.save_models(record.parent, {}, None, {record.name: document})
    return document


def save_page(result: Result, document: dict[str, Any]) -> None:
    """Writes the page of a saved result, and into its report that it is there.

    A page that cannot be made is remarked.

    Args:
        result: the result.
        document: its report as it was written.

    Raises:
        UserError: they cannot be written.
    """
    record = files.report_path(Path(result.report["output"]))
    shown = files.page_path(record)
    document["files"] = [*result.report["files"], str(shown)]
    text = page_text(document)
    if text is not None:
        result.report["files"] = document["files"]
        files.save_models(record.parent, {}, None, {shown.name: text, record.name: document})

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
        profiles: smallest, usual and largest shape of each dynamic input.
        cache: the TensorRT calibration cache, or None.
    """

    model: onnx.ModelProto
    report: dict[str, Any]
    data_dir: Path | None = None
    source: Path | None = None
    profiles: Mapping[str, Profile] = field(default_factory=dict)
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
        return result_words(self.report)

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
        output = Path(path)
        files.check_output(output, self.source, force=force, cache=self.cache is not None, page=page)
        data = [output.with_name(output.name + ".data")] if files.needs_data_file(self.model) else []
        cache = files.cache_path(output) if self.cache is not None else None
        record = files.report_path(output)
        shown = files.page_path(record) if page else None
        written = [output, *data, *(path for path in (cache, record, shown) if path is not None)]
        self.report["output"] = str(output)
        self.report["files"] = [str(file) for file in written]
        target = load_target(self.report["target"])
        implicit = cache is not None and not target.explicit
        types = target.types if self.report["plan"] else ()
        if self.report["body"].get("type") == "bf16":
            types = tuple(flags.replace("--fp16", "--bf16") for flags in types)
        self.report["commands"] = commands(
            output,
            target.name,
            self.profiles,
            self.source,
            cache,
            implicit,
            types,
            exact=bool(self.report["exact_products"]),
            explain=target.explains,
        )
        self.report["profiles"] = {name: [list(s) for s in shapes] for name, shapes in self.profiles.items()}

        document: dict[str, Any] = {}  # once: that of a large model takes seconds

        def report(hashes: Mapping[str, str]) -> dict[str, Any]:
            self.report["sha256"] = hashes[output.name]
            if not document:
                document.update(published(Report, self.report))
            return document

        def drawn(hashes: Mapping[str, str]) -> str | None:
            found = page_text(report(hashes))
            if found is None:
                for said in (self.report, document):
                    said["files"].remove(str(shown))
            return found

        documents: dict[str, Any] = {} if shown is None else {shown.name: drawn}
        documents[record.name] = report
        if cache is not None:
            documents[cache.name] = self.cache
        return files.save_models(output.parent, {output.name: self.model}, self.data_dir, documents)

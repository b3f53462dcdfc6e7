"""The page of a run, made of its report: when a result is saved, and again whenever it is asked for."""

from __future__ import annotations

import os
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path

from onnxq.analysis.reports import OpenedReport, open_report
from onnxq.base import remarks
from onnxq.base.errors import UserError
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.reason import noted
from onnxq.base.shown import Shown, Words, size
from onnxq.documents.analysis import Analysis
from onnxq.documents.reading import Readable, read_document
from onnxq.documents.report import Report
from onnxq.emit import files
from onnxq.options.flag_words import tells_keywords
from onnxq.page.making import html_of, page_of


@dataclass(frozen=True, slots=True, repr=False)
class WrittenPage(Shown, DocumentPart):
    """A page that was written.

    Attributes:
        kind: "page".
        schema: 1.
        page: its file.
        report: the report that it was made of.
        bytes: its size.
        seconds: how long it took.
    """

    kind: str
    schema: int
    page: str
    report: str
    bytes: int
    seconds: float

    def words(self) -> Words:
        """Where it is, and of what it was made."""
        return Words(f"page {self.page}, {size(self.bytes)}", [f"of {self.report}"])


@tells_keywords
def report(
    report: str | os.PathLike[str],
    output: str | os.PathLike[str] | None = None,
    *,
    analysis: str | os.PathLike[str] | None = None,
    compare: str | os.PathLike[str] | None = None,
    open: bool = False,
    force: bool = False,
    observe: Observer | None = None,
) -> WrittenPage:
    """Writes a report as one HTML page that loads nothing from elsewhere.

    Args:
        report: `X.report.json`, by this version of onnxq or an earlier one.
        output: the file to write; `X.report.html` beside the report by default.
        analysis: what `onnxq analyze --json` printed of the same model: the errors of its layers.
        compare: the report of another run, which is set beside it.
        open: show the page in the user's browser.
        force: replace a file that is no page of onnxq.
        observe: is told the steps.

    Raises:
        UserError: a file cannot be read or is not what it should be, or the page cannot be written.
    """
    began, tell = time.perf_counter(), told(observe)
    tell("read", None, None)
    opened = open_report(report, _DRAWN)
    path = files.page_path(Path(report)) if output is None else Path(output)
    _check(path, force=force)
    page = page_of(
        opened,
        analysis=None if analysis is None else _analysis(Path(analysis)),
        compare=None if compare is None else open_report(compare, _DRAWN),
    )
    tell("page", None, None)
    content = html_of(page).encode("utf-8", "backslashreplace")
    files.save_file(path, content)
    if open:
        webbrowser.open(path.resolve().as_uri())
    seconds = round(time.perf_counter() - began, 3)
    return WrittenPage("page", 1, str(path), opened.path, len(content), seconds)


def page_text(report: Report) -> str | None:
    """The page of a report that is being saved; None, and a remark, where it cannot be made."""
    try:
        return html_of(page_of(OpenedReport.made(report)))
    except Exception as error:  # the page is made of the report alone: it must not cost the user the run
        remarks.remark(noted("no-page", type=type(error).__name__, error=error))
        return None


def _check(path: Path, *, force: bool) -> None:
    if os.path.isdir(path) or not os.path.isdir(path.parent):
        what = "is a folder" if os.path.isdir(path) else "is in a folder that does not exist"
        raise UserError(f"the output {str(path)!r} {what}", hint="give a file name with -o")
    if os.path.exists(path) and path.stat().st_size and not force and not files.is_page(path):
        raise UserError(
            f"{str(path)!r} exists, and is no page of onnxq",
            hint="give another path with -o, or --force to replace it",
        )


def _analysis(path: Path) -> Analysis:
    hint = "give what `onnxq analyze A B --data D --json` printed"
    return read_document(path, {"analysis": Readable(Analysis, 1)}, "analysis of onnxq", hint).document


_DRAWN = ("report",)  # what else is a run has no model to show

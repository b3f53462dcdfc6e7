"""Where words go: prose and progress for people, one JSON document for programs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import stat
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Self, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task, TextColumn
from rich.text import Text

from onnxq.base.catalogue import Fact, table
from onnxq.base.errors import UserError
from onnxq.base.escapes import obeyed_by_none, visible
from onnxq.base.plain import to_json
from onnxq.base.progress import Observer
from onnxq.base.shown import cut as cut  # which the pages ask for here
from onnxq.base.shown import shorten as shorten

_NARROWEST, _WIDEST = 40, 110
_LONG = 5.0
"""Seconds from which on the screen says how long a step took."""
_SOON = 2.0
"""Seconds after which a step that counts nothing says how long it has taken."""
_SILENT = 40.0
"""Seconds without a word after which a step that lasts says so, where no bar turns."""
_LABELS = 13  # columns of the labels on the left


@dataclass(frozen=True, slots=True)
class _Line:
    text: str
    indent: int
    style: str = ""
    label: str = ""
    wrap: bool = True
    lines: bool = False


@dataclass(slots=True)
class Page:
    """Lines for a reader: sections with a label on the left, entries indented below, or plain ones."""

    lines: list[_Line] = field(default_factory=list)

    def head(self, text: str) -> None:
        """A line over everything."""
        self.lines.append(_Line(text, 0, "bold"))

    def alarm(self, text: str) -> None:
        """A line that nobody may overlook."""
        self.lines.append(_Line(text, 0, "bold red"))

    def warn(self, text: str) -> None:
        """A line over everything that leaves something open."""
        self.lines.append(_Line(text, 0, "bold yellow"))

    def section(self, label: str, text: str, style: str = "", *, lines: bool = False) -> None:
        """Opens a section; `lines`: where the text has line ends, they are no name's."""
        self.lines.append(_Line(text, _LABELS, style, label, lines=lines))

    def sections(self, label: str, texts: Iterable[str], style: str = "") -> None:
        """Several lines below one label; nothing for none."""
        for place, text in enumerate(texts):
            self.section("" if place else label, text, style)

    def entry(self, text: str, level: int = 1, style: str = "", *, lines: bool = False) -> None:
        """A line of the section, or several."""
        self.lines.append(_Line(text, _LABELS + 2 * level, style, lines=lines))

    def plain(self, text: str, level: int = 1, style: str = "") -> None:
        """A line without a section."""
        self.lines.append(_Line(text, 2 * level, style))

    def names(self, names: Sequence[str], shown: int = 3, level: int = 2) -> None:
        """The first few of a list of names."""
        for name in names[:shown]:
            self.entry(shorten(name), level, "dim")
        self.more(len(names) - shown, "", level)

    def more(self, left: int, where: str, level: int = 1, style: str = "dim") -> None:
        """How many are not shown, and where they are; nothing where none is left."""
        if left > 0:
            self.entry(f"+{left} more {where}".rstrip(), level, style)

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table: the first column is text, the others are figures. A line is never broken."""
        widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
        for number, row in enumerate((head, *rows)):
            cells = [text.rjust(width) for text, width in zip(row[1:], widths[1:], strict=True)]
            line = "  ".join([row[0].ljust(widths[0]), *cells])
            self.lines.append(_Line(line, _LABELS + 2, "bold" if number == 0 else "", wrap=False))

    def code(self, text: str, label: str = "") -> None:
        """A line as it is, never broken."""
        self.lines.append(_Line(text, _LABELS if label else 2, label=label, wrap=False))


class Screen:
    """Standard output and standard error of one run.

    Attributes:
        quiet: whether progress and end screens are left out.
        verbose: whether errors show their traceback.
        json: whether standard output is one JSON document; prose then goes to standard error.
    """

    def __init__(self, *, quiet: bool, verbose: bool, json: bool) -> None:
        self.quiet, self.verbose, self.json = quiet, verbose, json
        self._errors = _console(sys.stderr)
        self._prose = self._errors if json else _console(sys.stdout)

    def show(self, page: Page) -> None:
        """Prints a page."""
        width = _width(self._prose)
        for line in page.lines:
            for text in _laid_out(line, width):
                _write(self._prose, text)

    def for_programs(self, *, json: bool) -> None:
        """From now on standard output is for programs, and prose goes to standard error.

        Args:
            json: whether it is onnxq's JSON document, that of an error too.
        """
        self.json = json
        self._prose = self._errors

    def output(self, lines: Iterable[str]) -> None:
        """Prints lines for programs on standard output, as they are."""
        with _open_pipe(sys.stdout):
            for line in lines:
                print(line, flush=True)

    def result(self, document: Any, page: Callable[[], Page]) -> None:
        """Prints what a run found: a page, which -q leaves out, and the document."""
        if not self.quiet:
            self.show(page())
        self.document(document)

    def document(self, document: Any) -> None:
        """Prints the JSON document, a dataclass perhaps, where it is asked for."""
        if self.json:
            write_json(document)

    def error(self, message: str, hint: str) -> None:
        """Prints an error."""
        for word, text, style in (("error", message, "bold red"), ("hint", hint, "bold")):
            if text:
                _write(self._errors, Text.assemble((f"{word}: ", style), visible(text, kept="\n")))

    def note(self, text: str) -> None:
        """Prints what the user may not expect, on standard error."""
        if not self.quiet:
            _write(self._errors, Text.assemble(("note: ", "bold yellow"), visible(text)))

    def traceback(self, text: str) -> None:
        """Prints a traceback, with -v."""
        if self.verbose:
            _write(self._errors, Text(text.rstrip()))

    @contextlib.contextmanager
    def progress(self) -> Iterator[Observer]:
        """Shows the steps of a run on standard error: a bar on a terminal, else a line a step."""
        if self.quiet:
            yield lambda step, done, total: None
        elif self._errors.is_terminal:
            with _bar(self._errors) as bar:
                on_bar, times = _on_bar(bar), _Times(lambda text: bar.console.print(Text(text, "dim")))

                def observe(step: str, done: int | None, total: int | None) -> None:
                    times(step, done, total)
                    on_bar(step, done, total)

                yield observe
                times.end()
        else:
            with _ByLine(self._errors) as by_line:
                yield by_line


class _Times:
    """Says of each step that was long how long it was, and how much was done."""

    def __init__(self, say: Callable[[str], object]) -> None:
        self._say, self._step, self._since = say, "", 0.0
        self._done: dict[str, int] = {}  # by what a step says that it does

    def __call__(self, step: str, done: int | None, total: int | None) -> bool:
        """Is told how far a run is; gives whether a step begins."""
        name = step.partition(":")[0]
        begins = name != self._step
        if begins:
            self.end()
            self._step, self._since = name, time.monotonic()
        if done is not None:
            self._done[step] = max(done, self._done.get(step, 0))
        return begins

    def end(self) -> None:
        """The last step is over."""
        if time.monotonic() - self._since >= _LONG:
            self.say()
        self._step = ""
        self._done.clear()

    def say(self, still: str = "") -> None:
        """Says how long the step has taken."""
        if not self._step:
            return
        unit = _UNITS.get(self._step, "samples")
        done = [
            f"{what.partition(': ')[2]}{', ' if ': ' in what else ''}{count} {unit}"
            for what, count in self._done.items()
        ]
        took = _duration(time.monotonic() - self._since)
        self._say(f"onnxq: {still}{in_words(self._step)}: {took}" + (f" ({'; '.join(done)})" if done else ""))


class _ByLine:
    """A line a step, more of them while it lasts, and one at the end of those that were long."""

    def __init__(self, console: Console) -> None:
        self._console, self._spoke = console, time.monotonic()
        self._times = _Times(self._say)
        self._lock, self._over = threading.Lock(), threading.Event()
        self._watcher = threading.Thread(target=self._watch, daemon=True)

    def __call__(self, step: str, done: int | None, total: int | None) -> None:
        with self._lock:
            if self._times(step, done, total):
                self._say(f"onnxq: {in_words(step.partition(':')[0])}")

    def __enter__(self) -> Self:
        self._watcher.start()
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        with self._lock:
            self._over.set()
            if kind is None:
                self._times.end()
        self._watcher.join()

    def _watch(self) -> None:
        while not self._over.wait(self._spoke + _SILENT - time.monotonic()):
            with self._lock, contextlib.suppress(UserError):  # nothing hangs on progress that is not seen
                if not self._over.is_set() and time.monotonic() >= self._spoke + _SILENT:
                    self._spoke = time.monotonic()  # also where no step has begun
                    self._times.say("still ")

    def _say(self, text: str) -> None:
        self._spoke = time.monotonic()
        _write(self._console, Text(text))


def write_json(document: Any) -> None:
    """Writes a JSON document to standard output; a closed pipe is no error."""
    text = json.dumps(to_json(document), indent=1, allow_nan=False)  # ASCII, whatever the terminal takes
    with _open_pipe(sys.stdout):
        print(text.replace("##", "#\\u0023"), flush=True)  # which only stands in strings


def _console(file: TextIO) -> Console:
    with contextlib.suppress(AttributeError):  # a name that the terminal's encoding lacks is escaped
        file.reconfigure(errors="backslashreplace")  # type: ignore[attr-defined]
    console = Console(file=file, markup=False, emoji=False, highlight=False)
    if not console.width:  # COLUMNS=0: nothing would be printed
        console.width = 80
    return console


def _width(console: Console) -> int:
    """The columns of a terminal, or those that COLUMNS states; in a file or a pipe a line is not broken."""
    if console.file.isatty() or os.environ.get("COLUMNS", "0") != "0":
        return max(_NARROWEST, min(console.width, _WIDEST))
    return sys.maxsize


@contextlib.contextmanager
def _open_pipe(file: TextIO) -> Iterator[None]:
    try:
        yield
    except OSError as error:  # the rest goes nowhere
        is_device = stat.S_ISCHR(os.fstat(file.fileno()).st_mode)
        os.dup2(os.open(os.devnull, os.O_WRONLY), file.fileno())
        # else the reader (`| head`) has seen enough, or the terminal is gone
        if not isinstance(error, BrokenPipeError) and not (is_device and error.errno == errno.EIO):
            raise UserError(
                f"cannot write to {file.name}: {error.strerror}", hint="is the disk full?"
            ) from error


def _write(console: Console, text: Text) -> None:
    with _open_pipe(console.file):  # type: ignore[arg-type]
        with console.capture() as captured:
            console.print(text, soft_wrap=True)
        console.file.write(obeyed_by_none(captured.get()))
        console.file.flush()


def _laid_out(line: _Line, width: int) -> Iterator[Text]:
    text = visible(line.text, kept="\n" if line.lines else "")
    left = f"  {line.label}".ljust(line.indent) if line.label else " " * line.indent
    hang = " " * (line.indent + 2) if line.indent else ""
    if not line.wrap:
        yield Text((left + text).rstrip(), style=line.style)
        return
    for part in text.split("\n"):
        lines = textwrap.wrap(
            part, width, initial_indent=left, subsequent_indent=hang,
            break_on_hyphens=False, drop_whitespace=True,
        )  # fmt: skip
        for number, row in enumerate(lines or [left.rstrip()]):
            start = len(left) if number == 0 else len(hang)
            yield Text.assemble((row[:start], "bold"), (row[start:], line.style))
        left = hang


_UNITS = {"sources": "runs", "goal": "sets", "choose": "runs", "rules": "rules", "weights": "layers"}
"""What steps count that count no samples."""


class _Counts(ProgressColumn):
    """Samples done, their speed and the time left; of a step that counts none how long it has taken."""

    def render(self, task: Task) -> Text:
        """The column's text."""
        if not task.completed:
            seconds = task.elapsed or 0.0
            return Text(_duration(seconds) if seconds >= _SOON else "", style="dim")
        known = task.total is not None
        unit = _UNITS.get(task.description.partition(":")[0], "samples")
        parts = [f"{task.completed:.0f}{f'/{task.total:.0f}' if known else ''} {unit}"]
        if task.speed:
            parts.append(f"{task.speed:.0f} {unit}/s")
        if task.time_remaining is not None:
            parts.append(f"{_duration(task.time_remaining)} left")
        return Text(", ".join(parts), style="dim")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"


def _bar(console: Console) -> Progress:
    description = TextColumn("{task.fields[words]}", markup=False)
    return Progress(
        SpinnerColumn(), description, BarColumn(bar_width=20), _Counts(), console=console, transient=True
    )


def _on_bar(bar: Progress) -> Observer:
    task, counting = bar.add_task("start", total=None, words="start"), False

    def observe(step: str, done: int | None, total: int | None) -> None:
        nonlocal task, counting
        if done is None or not counting:  # a new task: the total of one that has one does not go away
            bar.remove_task(task)
            task, counting = bar.add_task(step, total=total, words=in_words(step)), done is not None
        if done is not None:
            bar.update(task, completed=done, total=total)

    return observe


def in_words(step: str) -> str:
    """A step, and the part of it that it is at, in words; what is not known stays as it is.

    `repair: bias` is "repairing the accuracy: bias".
    """
    name, colon, part = step.partition(":")
    return f"{Fact(name).text('steps') if name in table('steps') else name}{colon}{part}"

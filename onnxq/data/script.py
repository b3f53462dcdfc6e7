"""A data loader script, as Polygraphy's `--data-loader-script` takes it."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from onnxq.errors import UserError, unknown_name

_FUNCTION = "load_data"
_FORM = "def load_data(): yield {'input': array, ...} once for each sample"


@dataclass(frozen=True, slots=True)
class Script:
    """The samples of a script: its function is called anew for each pass over them.

    While the user's code runs, the script's folder is on `sys.path`, and what it prints goes to
    standard error: standard output is for the result.

    Attributes:
        path: the script.
        function: the name of its function.
        load: the function.
    """

    path: Path
    function: str
    load: Callable[[], Iterable[Any]]

    def __str__(self) -> str:
        return f"{self.path}:{self.function}"

    def __iter__(self) -> Iterator[Any]:
        """What the function yields.

        Raises:
            UserError: it raised an error, or gave nothing that can be iterated over, or no sample.
        """
        with _running(self.path):
            items = self.load()
            iterator = iter(items) if isinstance(items, Iterable) else None
        if iterator is None:
            raise UserError(f"{self} returned {type(items).__name__}", hint=f"the form is {_FORM}")
        empty = True
        while True:
            with _running(self.path):
                try:
                    item = next(iterator)
                except StopIteration:
                    break
            empty = False
            yield item
        if empty:
            raise UserError(f"{self} yielded zero samples", hint=f"the form is {_FORM}")


def load_script(spec: str | os.PathLike[str]) -> Script:
    """Loads a data loader script; its Python is run.

    Args:
        spec: `SCRIPT` or `SCRIPT:FUNCTION`; the function, `load_data` by default, takes no
            arguments and yields `{input: array}` for each sample, or returns an iterable of such.

    Raises:
        UserError: there is no such script or function, or the script raises an error.
    """
    text = os.fspath(spec)
    before, colon, name = text.rpartition(":")
    named = bool(colon and before) and name.isidentifier() and not os.path.isfile(text)
    path, function = (Path(before), name) if named else (Path(text), _FUNCTION)
    if not os.path.isfile(path):
        near = [str(entry) for entry in sorted(path.parent.glob("*.py"))]
        error = unknown_name("data loader script", str(path), near)
        raise UserError(str(error), hint=error.hint or "the form is SCRIPT.py or SCRIPT.py:FUNCTION")
    members = _members(path)
    if function not in members:
        known = [name for name, value in members.items() if callable(value) and not name.startswith("_")]
        error = unknown_name(f"function in {str(path)!r} named", function, known)
        raise UserError(str(error), hint=f"{error.hint} The form is {_FORM}".strip())
    load = members[function]
    if not callable(load):
        raise UserError(
            f"{function!r} of {str(path)!r} is of type {type(load).__name__}, not a function",
            hint=f"the form is {_FORM}",
        )
    return Script(path, function, load)


def _members(path: Path) -> dict[str, Any]:
    """Runs a script; returns what it defines."""
    try:
        code = path.read_bytes()
    except OSError as error:
        raise UserError(
            f"cannot read the data loader script {str(path)!r}: {error.strerror or error}",
            hint="check its permissions",
        ) from error
    if b"\0" in code:  # an array or an image, say
        raise UserError(
            f"the data loader script {str(path)!r} is no Python script",
            hint=f"give data with --calib or --data; the form of a script is {_FORM}",
        )
    module = ModuleType(f"onnxq_data_loader_{path.stem}")
    module.__file__ = str(path.resolve())
    sys.modules[module.__name__] = module  # as import does: dataclasses look there
    with _running(path):  # unlike an import it writes no __pycache__ beside the script
        exec(compile(code, module.__file__, "exec"), vars(module))
    return vars(module)


@contextlib.contextmanager
def _running(path: Path) -> Iterator[None]:
    """The surroundings of the user's code; its errors are the user's."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except (Exception, SystemExit) as error:
        line = _line(path, error)
        place = f"{str(path)!r}, line {line}" if line else repr(str(path))
        reason = str(error).splitlines()
        what = f"{type(error).__name__}: {reason[0]}" if reason else type(error).__name__
        raise UserError(
            f"the data loader script {place}: {what}", hint="repair the script; -v shows the traceback"
        ) from error
    finally:
        with contextlib.suppress(ValueError):  # the script itself may have removed it
            sys.path.remove(folder)


def _line(path: Path, error: BaseException) -> int | None:
    """The line of a script at which an error left it."""
    own = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == own:
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == own]
    return lines[-1] if lines else None

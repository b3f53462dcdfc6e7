"""Python of the user's that is run because the user names it: a function in a file."""

from __future__ import annotations

import contextlib
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from onnxq.base import door
from onnxq.base.errors import UserError, unknown_name


class MisusedError(UserError):
    """The user's code calls what it is given in a wrong way: where it does is said as well."""


@dataclass(frozen=True, slots=True)
class CodeForm:
    """What kind of code is asked for.

    Attributes:
        what: what it is called in messages, as in "data loader script".
        form: how such a function looks.
        path_form: how it is named.
        function: its name where none is given; "" where one has to be.
        instead: what to do where the file is no Python at all.
    """

    what: str
    form: str
    path_form: str
    function: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class UserFunction:
    """A function of the user's.

    Attributes:
        path: its file.
        name: its name there.
        call: the function.
        asked: what kind it is.
    """

    path: Path
    name: str
    call: Callable[..., Any]
    asked: CodeForm

    def __str__(self) -> str:
        return f"{self.path}:{self.name}"

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """The surroundings of the user's code while it runs; its errors are the user's."""
        with _running(self.path, self.asked.what):
            yield


def load_function(spec: str | os.PathLike[str], asked: CodeForm) -> UserFunction:
    """Loads a function; the Python of its file is run.

    While the user's code runs, the file's folder is on `sys.path`, and what it prints goes to
    standard error: standard output is for the result.

    Args:
        spec: `FILE` or `FILE:FUNCTION`.
        asked: what it has to be.

    Raises:
        UserError: there is no such file or function, or the file's code raises an error.
    """
    path, function = _split(spec, asked)
    if not function:
        raise UserError(
            f"{os.fspath(spec)!r} does not say which function of the {asked.what} is meant",
            hint=f"the form is {asked.path_form}",
        )
    members = run_file(path, asked)
    if function not in members:
        known = [name for name, value in members.items() if callable(value) and not name.startswith("_")]
        error = unknown_name(f"function in {str(path)!r} named", function, known)
        raise UserError(str(error), hint=f"{error.hint} The form is {asked.form}".strip())
    found = members[function]
    if not callable(found):
        raise UserError(
            f"{function!r} of {str(path)!r} is of type {type(found).__name__}, not a function",
            hint=f"the form is {asked.form}",
        )
    return UserFunction(path, function, found, asked)


def load_functions(
    spec: str | os.PathLike[str], asked: CodeForm, marked: type[Callable[..., Any]]
) -> list[UserFunction]:
    """The function that is named, else all of a file that a decorator made of a class.

    Args:
        spec: `FILE` or `FILE:FUNCTION`.
        asked: what they have to be.
        marked: that class.

    Raises:
        UserError: as `load_function`; or none is named, and there is none of that class.
    """
    path, function = _split(spec, asked)
    if function:
        return [load_function(spec, asked)]
    found = [(name, one) for name, one in run_file(path, asked).items() if isinstance(one, marked)]
    if not found:
        return [load_function(spec, asked)]  # which says that none is named
    return [UserFunction(path, name, one, asked) for name, one in found]


def _split(spec: str | os.PathLike[str], asked: CodeForm) -> tuple[Path, str]:
    """The file of `FILE` or `FILE:FUNCTION`, and the function; "" where none is named."""
    text = os.fspath(spec)
    before, colon, name = text.rpartition(":")
    named = bool(colon and before) and name.isidentifier() and not os.path.isfile(text)
    path, function = (Path(before), name) if named else (Path(text), asked.function)
    if not os.path.isfile(path):
        near = [str(entry) for entry in sorted(path.parent.glob("*.py"))]
        error = unknown_name(asked.what, str(path), near)
        raise UserError(str(error), hint=error.hint or f"the form is {asked.path_form}")
    return path, function


def run_file(path: Path, asked: CodeForm) -> dict[str, Any]:
    """Runs a file; returns what it defines.

    Raises:
        UserError: it cannot be read, or its code raises an error.
    """
    try:
        code = door.content(path)
    except OSError as error:
        raise UserError(
            f"cannot read the {asked.what} {str(path)!r}: {error.strerror or error}",
            hint="check its permissions",
        ) from error
    if b"\0" in code:  # an array or an image, say
        raise UserError(
            f"the {asked.what} {str(path)!r} is no Python script",
            hint=f"{asked.instead}the form is {asked.form}",
        )
    module = ModuleType(f"onnxq_{asked.what.replace(' ', '_')}_{path.stem}")
    module.__file__ = str(path.resolve())
    sys.modules[module.__name__] = module  # as import does: dataclasses look there
    with _running(path, asked.what):  # unlike an import it writes no __pycache__ beside the script
        exec(compile(code, module.__file__, "exec"), vars(module))
    return vars(module)


@contextlib.contextmanager
def _running(path: Path, what: str) -> Iterator[None]:
    folder = str(path.resolve().parent)
    places = sys.path
    places.insert(0, folder)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    except MisusedError as error:
        raise UserError(f"the {what} {_place(path, error)}: {error}", hint=error.hint) from error.__cause__
    except UserError:  # of what the user's code called: it says itself what is wrong
        raise
    except BaseException as error:
        if not isinstance(error, (Exception, SystemExit)) and not _is_users(path, error):
            raise
        said = _said(error)
        if isinstance(error, SystemExit):
            said = f"it called sys.exit({'' if error.code is None else repr(error.code)})"
        raise UserError(
            f"the {what} {_place(path, error)}: {said}",
            hint=f"repair the {what.split()[-1]}; -v shows the traceback",
        ) from error
    finally:
        sys.path = places  # the script may have put something else there
        with contextlib.suppress(ValueError):  # or have removed it
            places.remove(folder)


def _is_users(path: Path, error: BaseException) -> bool:
    """Whether an error that no handler takes is of the user's code, and does not end the run."""
    kind = type(error)
    return (
        kind is not KeyboardInterrupt
        and not kind.__module__.startswith("onnxq.")
        and _line(path, error) is not None
    )


def _said(error: BaseException) -> str:
    """An error's class and the first line of its words, if it has any and they can be had."""
    try:
        reason = str(error).splitlines()
    except Exception:  # of the user's class
        reason = []
    return f"{type(error).__name__}: {reason[0]}" if reason else type(error).__name__


def _place(path: Path, error: BaseException) -> str:
    """Where in a script an error left it."""
    line = _line(path, error)
    return f"{str(path)!r}, line {line}" if line else repr(str(path))


def _line(path: Path, error: BaseException) -> int | None:
    """The line of a script at which an error left it."""
    own = str(path.resolve())
    if isinstance(error, SyntaxError) and error.filename == own:
        return error.lineno
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == own]
    return lines[-1] if lines else None

"""What all verbs have in common: the flags -q, -v and --json, and how they end."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, get_type_hints

import typer

from onnxq.base import interrupts, remarks
from onnxq.base.errors import OnnxqError, UserError
from onnxq.cli import fault
from onnxq.cli.chosen import flag_of, takes
from onnxq.cli.panels import HelpAll
from onnxq.cli.screen import Screen, write_json
from onnxq.documents.ended import ErrorEnd, ErrorSaid
from onnxq.options.option import read_options
from onnxq.options.settings import Common
from onnxq.options.verbs import VERBS

Quiet, Verbose = (flag_of(Common, name, said, None)[0] for name, said in read_options(Common).items())
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout, and prose on stderr.")]


class Interrupted(BaseException):
    """Raised by SIGINT, SIGTERM and SIGHUP: a BaseException, so that nothing but `main` takes it."""


def verb(name: str, function: Callable[..., int | None]) -> Callable[..., None]:
    """Makes a function `(screen, ...) -> exit code or None` a command.

    The command has the function's own parameters, the flags of its groups of options
    (`onnxq.options.verbs`) and the common ones, which become the screen.
    """
    if VERBS[name].groups:
        function = takes(name, function)

    @functools.wraps(function)
    def command(context: typer.Context, quiet: bool, verbose: bool, as_json: bool, **arguments: Any) -> None:
        arguments.pop("help_all", None)  # which is shown by itself
        before = context.obj or {}  # the same flags, in front of the verb
        screen = Screen(
            quiet=quiet or before.get("quiet", False),
            verbose=verbose or before.get("verbose", False),
            json=as_json,
        )
        code = 0
        interrupts.begins()
        of_flags = remarks.so_far()
        with remarks.heard() as heard:
            try:
                code = function(screen, **_packed(arguments, packs)) or 0
            except (Exception, Interrupted) as error:
                code = _end(screen, error)
        for remark in (*of_flags, *heard):
            screen.note(remark)
        raise typer.Exit(code)

    flags = {"quiet": Quiet, "verbose": Verbose, "as_json": Json}
    if VERBS[name].first:
        flags["help_all"] = HelpAll
    own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]
    packs = {p.name: p.annotation for p in own if dataclasses.is_dataclass(p.annotation)}
    kind = inspect.Parameter.KEYWORD_ONLY
    context = inspect.Parameter("context", kind, annotation=typer.Context)
    common = [inspect.Parameter(n, kind, default=False, annotation=a) for n, a in flags.items()]
    single = [one for p in own for one in (_fields(packs[p.name]) if p.name in packs else [p])]
    parameters = [context, *(p.replace(kind=kind) for p in single), *common]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    paragraphs = (inspect.getdoc(function) or "").split("\n\n")
    command.__doc__ = "\n\n".join(" ".join(text.split()) for text in paragraphs)  # --help has its own width
    del command.__wrapped__
    return command


def _end(screen: Screen, error: BaseException) -> int:
    """Reports what ended a verb; returns the exit code."""
    screen.traceback("".join(traceback.format_exception(error)))
    if any(isinstance(cause, Interrupted) for cause in _causes(error)):
        return report_interrupt(screen, interrupts.what_stands())
    code = error.exit_code if isinstance(error, OnnxqError) else 3
    if code == 3:
        message, hint = fault.describe(error)
    else:
        message, hint = str(error), error.hint if isinstance(error, OnnxqError) else ""
    return report_error(screen, message, "; ".join(filter(None, (hint, interrupts.what_stands()))), code)


def _fields(pack: Any) -> list[inspect.Parameter]:
    """The flags that are fields of a dataclass."""
    kinds = get_type_hints(pack, include_extras=True)
    return [
        inspect.Parameter(
            one.name, inspect.Parameter.KEYWORD_ONLY, default=one.default, annotation=kinds[one.name]
        )
        for one in dataclasses.fields(pack)
    ]


def _packed(arguments: Mapping[str, Any], packs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments, with dataclasses in the place of their fields."""
    rest = dict(arguments)
    made = {
        name: pack(**{one.name: rest.pop(one.name) for one in dataclasses.fields(pack)})
        for name, pack in packs.items()
    }
    return rest | made


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what led to it: a module that is interrupted while it loads raises ImportError."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def report_interrupt(screen: Screen, hint: str) -> int:
    """Says that the run was interrupted, unless that is said already; returns the exit code."""
    if interrupts.says_the_end():
        report_error(screen, "interrupted", hint, interrupts.EXIT_CODE)
    return interrupts.EXIT_CODE


def report_error(screen: Screen, message: str, hint: str, code: int) -> int:
    """Says what is wrong, for people and, with --json, for programs; returns the exit code."""
    screen.error(message, hint)
    if screen.json:
        with contextlib.suppress(UserError):  # standard output takes nothing: it is what failed
            write_json(ErrorEnd("error", 2, ErrorSaid(message, hint, code)))
    return code

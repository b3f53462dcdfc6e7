"""The command line: `onnxq VERB ...`."""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from onnxq.base import interrupts, remarks
from onnxq.base.heap import steady_heap
from onnxq.cli.panels import PanelledCommand
from onnxq.cli.screen import Screen
from onnxq.cli.typed import Meant, UsageError, meant
from onnxq.cli.verb import Interrupted, Quiet, Verbose, report_error, verb
from onnxq.cli.versions import versions
from onnxq.options.verbs import VERBS


def _version(wanted: bool) -> None:
    if wanted:
        print("\n".join(versions()))
        raise typer.Exit


def _root(
    context: typer.Context,
    quiet: Quiet = False,
    verbose: Verbose = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show all versions.")
    ] = False,
) -> None:
    context.obj = {"quiet": quiet, "verbose": verbose}


class _InOrder(TyperGroup):
    """Verbs, and groups of them among these, in the order of `VERBS`."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names."""
        return [name for name in _ALL if name in self.commands]


@functools.cache
def app_of(*verbs: str) -> typer.Typer:
    """The command line with some verbs, or groups of them.

    A line names one, as a rule: to make the flags of all takes a tenth of a second.
    """
    app = typer.Typer(
        name="onnxq",
        cls=_InOrder,
        help="Makes an ONNX model ready for NVIDIA TensorRT: repairs it, quantizes it, explains it.",
        epilog="Exit codes: 0 done, 1 findings, 2 your input, 3 a fault of onnxq, 130 interrupted.",
        add_completion=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=False)(_root)
    groups: dict[str, typer.Typer] = {}
    for name, declared in VERBS.items():
        first, _, second = name.partition(" ")
        if first not in verbs:
            continue
        module, into = importlib.import_module(f"onnxq.cli.{first}"), app
        if second:
            if first not in groups:
                groups[first] = typer.Typer(help=module.HELP)
                app.add_typer(groups[first], name=first, rich_help_panel=declared.panel)
            into = groups[first]
        into.command(
            second or first, cls=PanelledCommand if declared.first else TyperCommand,
            rich_help_panel=None if second else declared.panel,
        )(verb(name, getattr(module, second or first)))  # fmt: skip
    return app


_ALL = tuple(dict.fromkeys(name.partition(" ")[0] for name in VERBS))


def __getattr__(name: str) -> Any:
    if name != "app":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return app_of(*_ALL)


def main() -> None:
    """Runs the command line and exits with its exit code."""
    steady_heap()
    code = _run()
    if code == interrupts.EXIT_CODE:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        interrupts.end_now()
    sys.exit(code)


def _run() -> int:
    interrupts.end_on_signals(Interrupted, last_words="error: interrupted")
    words = sys.argv[1:] or ["--help"]
    named = next((word for word in words if not word.startswith("-")), "")
    try:
        with remarks.heard():  # what reading the flags says: a verb shows it
            if named in _ALL:
                with contextlib.suppress(UsageError):  # nothing has run yet: more is known below
                    return _call(words, named)
            try:
                return _call(words, *_ALL)
            except UsageError as error:
                said = meant(words, error, get_command(app_of(*_ALL)))
                if said is None or said.wrong:
                    return _not_understood(error, said)
                for remark in said.remarks:
                    remarks.remark(remark)
                return _call(said.words, *_ALL)
    except UsageError as error:
        return _not_understood(error, None)
    except Interrupted:
        return interrupts.EXIT_CODE


def _call(words: Sequence[str], *verbs: str) -> int:
    return app_of(*verbs)(list(words), prog_name="onnxq", standalone_mode=False) or 0


def _not_understood(error: Any, said: Meant | None) -> int:
    """Says what is wrong with a command line, and the one that is meant, where that is known."""
    screen = Screen(quiet=False, verbose=False, json="--json" in sys.argv)
    if said is not None:
        return report_error(screen, said.wrong, said.typed(), 2)
    command = error.ctx.command_path if error.ctx is not None else "onnxq"
    form = ""
    if type(error).__name__ == "MissingParameter":
        pieces = error.ctx.command.collect_usage_pieces(error.ctx)
        form = f"the form is {' '.join([command, *(one.strip('{}') for one in pieces)])}: "
    return report_error(screen, error.format_message(), f"{form}see {command} --help", 2)

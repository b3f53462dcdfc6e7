"""The help of verbs that have many flags: those that matter most, and the names of the panels of all."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.panel import Panel
from rich.table import Table
from typer.core import TyperCommand

from onnxq.base.errors import nearest
from onnxq.base.reason import say
from onnxq.options.settings import GROUPS
from onnxq.options.verbs import VERBS

_ASKED = "onnxq.help"  # in the meta of a context: the panel that is asked for
_ALL = "all"
_OWN = "options"
_WHAT = {_OWN: "What is read and written beside the model, and what the screen shows."}
for _group in GROUPS:
    _WHAT.setdefault(_group.TITLE.lower(), (inspect.getdoc(_group) or "").partition("\n")[0])  # type: ignore[attr-defined]


def _show_all(context: typer.Context, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        context.meta[_ASKED] = _ALL
        typer.echo(context.get_help())
        raise typer.Exit


HelpAll = Annotated[
    bool, typer.Option("--help-all", callback=_show_all, is_eager=True, help="Show all flags, and exit.")
]


class PanelledCommand(TyperCommand):
    """A verb whose `--help` shows its first flags, `--help PANEL` those of a panel, and `--help-all` all."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Takes the name of a panel behind `--help` out of the words."""
        end = args.index("--") if "--" in args else len(args)
        for place, word in enumerate(args[: end - 1]):
            name = args[place + 1].lower()
            if word in ctx.help_option_names and not name.startswith("-") and not ctx.resilient_parsing:
                panels = self.panels(ctx)
                if name not in (*panels, _ALL):
                    said = nearest(name, panels) or f"there are {', '.join(panels)}"
                    ctx.fail(say("typed.no-panel", name=name, near=said))
                ctx.meta[_ASKED] = name
                args = [*args[: place + 1], *args[place + 2 :]]
                break
        return super().parse_args(ctx, args)

    def panels(self, ctx: Any) -> Mapping[str, list[Any]]:
        """The flags by the names of their panels, as they stand in `--help-all`."""
        found: dict[str, list[Any]] = {_OWN: []}
        for param in self.get_params(ctx):
            if param.param_type_name == "option":
                title = getattr(param, "rich_help_panel", None) or _OWN
                found.setdefault(title.partition(",")[0].lower(), []).append(param)
        return found

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Prints what is asked for."""
        asked, panels = ctx.meta.get(_ASKED), self.panels(ctx)
        if asked == _ALL:
            super().format_help(ctx, formatter)
            return
        own = [one for one in self.params if one.param_type_name != "option"]
        shown = copy.copy(self)  # with some of the parameters, and else as it is
        if asked is not None:
            shown.help, shown.add_help_option = "", False
            shown.params = [*map(_unseen, own), *(one for one in panels[asked] if "--help" not in one.opts)]
            super(PanelledCommand, shown).format_help(ctx, formatter)
            return
        by_flag = {flag: param for params in panels.values() for param in params for flag in param.opts}
        first = [
            copy.copy(by_flag[flag])
            for flag in (*VERBS[ctx.command_path.partition(" ")[2]].first, "--help-all")
        ]
        for param in first:
            param.rich_help_panel = None
        shown.params = [*own, *first]
        super(PanelledCommand, shown).format_help(ctx, formatter)
        _print_names(panels)


def _unseen(argument: Any) -> Any:
    """An argument that the usage names, and no panel."""
    found = copy.copy(argument)
    found.hidden = True
    return found


def _print_names(panels: Mapping[str, list[Any]]) -> None:
    """A line for each panel."""
    table = Table.grid(padding=(0, 2), pad_edge=False)
    table.add_column(style="bold cyan", no_wrap=True)
    table.add_column()
    for name in panels:
        table.add_row(name, _WHAT.get(name, ""))
    title = say("typed.panels")
    Console().print(Panel(table, box=box.ROUNDED, title=title, title_align="left", border_style="dim"))

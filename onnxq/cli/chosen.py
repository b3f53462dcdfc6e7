"""What the user chose: the flags of a verb, made of the groups of options, and what `onnxq.toml` says."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from onnxq.base.errors import UserError
from onnxq.cli.screen import Screen
from onnxq.options.config import FILE, Config, LayerRule, find_config
from onnxq.options.exclusions import OF_SAMPLES, exclude, refuse_with_stats, settled
from onnxq.options.grouped import KEYWORDS
from onnxq.options.option import Option, read_options
from onnxq.options.settings import (
    NUMBER_FORMATS,
    Calibration,
    Common,
    DataPlace,
    Feeding,
    Format,
    ImageOptions,
    PathLike,
    Repairs,
)
from onnxq.options.verbs import VERBS

G = TypeVar("G")
T = TypeVar("T")

ConfigPath = Annotated[
    Path | None, typer.Option("--config", metavar="X.toml", help="Settings; ./onnxq.toml by default.")
]


_NO_DATA = (
    "give --calib FOLDER (images or arrays), or --stats FILE; a file that has Q/DQ pairs needs none with "
    "--pairs adopt"
)


class Chosen:
    """What the flags give, else the configuration file, else a default.

    Attributes:
        config: the file, or None.
        verb: the name of the verb.
    """

    def __init__(
        self,
        verb: str,
        config: Config | None,
        flags: Mapping[type, Mapping[str, Any]],
        typed: Mapping[tuple[type, str], Sequence[str]],
    ) -> None:
        """What was chosen.

        Args:
            verb: the name of the verb.
            config: the file.
            flags: the values of the flags that are given, by group and option.
            typed: the flags as they were typed, by group and option.
        """
        self.verb, self.config, self._flags, self._typed = verb, config, flags, typed

    def flags(self, group: type) -> Mapping[str, Any]:
        """The values of the flags of a group that are given."""
        return self._flags.get(group, {})

    def again(self, *groups: type, without: Collection[str] = ()) -> list[str]:
        """The flags of groups as they were typed, for a command line that is to follow."""
        named = self.config is not None and self.config.path != FILE  # that one is found again
        return [
            word
            for (group, name), words in self._typed.items()
            if group in groups and name not in without
            for word in words
        ] + (["--config", str(self.settings_file)] if named else [])

    def file(self, group: type) -> Mapping[str, Any]:
        """What the file says of a group."""
        said = self.config.of(group) if self.config is not None else {}
        known = VERBS[self.verb].options(group)
        return {name: value for name, value in said.items() if name in known}

    def group(self, group: type[G], **more: Any) -> G:
        """A group.

        Args:
            group: which one.
            more: what wins over flags and file.
        """
        return group(**{**self.file(group), **self.flags(group), **more})

    def keywords(self, **instead: Any) -> dict[str, Any]:
        """The groups that the verb's function takes, as keywords.

        Args:
            instead: what it is given in the place of some of them, or beside them.
        """
        made = {Calibration: self.calibration, ImageOptions: lambda: self.images}
        return {
            keyword: made.get(group, lambda group=group: self.group(group))()
            for group, keyword in KEYWORDS.items()
            if group in VERBS[self.verb].groups and keyword not in instead
        } | instead

    @property
    def layers(self) -> Sequence[LayerRule]:
        """What is different for some layers."""
        return self.config.layers if self.config is not None else ()

    @property
    def settings_file(self) -> str | None:
        """The path of the settings file, None for none."""
        return None if self.config is None else str(self.config.path)

    def asked(self, model: Path, output: Path | None, *, force: bool) -> list[list[str]]:
        """The command line: its verb, its model, and each flag with its values."""
        parts = [[self.verb], [str(model)], *map(list, self._typed.values())]
        if self.config is not None:
            parts.append(["--config", str(self.config.path)])
        if output is not None:
            parts.append(["-o", str(output)])
        return [*parts, ["--force"]] if force else parts

    # -- data ----------------------------------------------------------------------------------

    def made(self, model: Path) -> Path:
        """Where the quantized model is written by default: `X.int8.onnx`, by the number formats."""
        formats = self.group(Format).formats or NUMBER_FORMATS[:1]
        return Path(f"{model.stem}.{'-'.join(formats)}.onnx")

    @property
    def place(self) -> DataPlace:
        """Where the data are: the flag wins over what the file says, be it the path or the script."""
        given = self.flags(DataPlace) or self.file(DataPlace)
        path, script = given.get("path"), given.get("script")
        takes_script = self.flags(DataPlace) and "script" in VERBS[self.verb].options(DataPlace)
        if takes_script and re.search(r"\.py(:\w+)?$", str(path)):
            path, script = None, path
        return DataPlace(path, None if script is None else str(script))

    @property
    def has_data(self) -> bool:
        """Whether it is said where data are."""
        return self.place != DataPlace()

    def source(self) -> Path | Iterable[Any]:
        """What `onnxq.data.sources.open_source` takes.

        Raises:
            UserError: no data are given or twice, or the script cannot be loaded.
        """
        place = self.place
        if (place.path is None) == (place.script is None):
            none, flag = place.script is None, VERBS[self.verb].data
            raise UserError(
                f"no data is given: there is no {flag}" if none else "data and data_loader_script are given",
                hint=_NO_DATA if none and self.verb == "quantize" else f"see onnxq {self.verb} --help",
            )
        if place.script is None:
            assert place.path is not None
            return place.path
        from onnxq.data.script import load_script

        return load_script(place.script)

    @property
    def images(self) -> ImageOptions | None:
        """The options on images; None where none is given. Those of the file are about paths."""
        file = self.file(ImageOptions) if self.place.path is not None else {}
        given = {**file, **self.flags(ImageOptions)}
        return ImageOptions(**given) if given else None

    # -- calibration ---------------------------------------------------------------------------

    def calibration(self) -> Calibration:
        """How to calibrate; where no method is given, a parameter says which.

        Raises:
            UserError: flags of which one would be ignored.
        """
        flags, file = self.flags(Calibration), self.file(Calibration)
        where = f"in {str(self.config.path)!r} " if self.config is not None else ""
        return self.group(Calibration, **settled(flags, settled(file, {}, str, where), str))

    def refuse_ignored(self, stats: PathLike | None, *, without_data: bool) -> None:
        """Refuses flags that would be ignored: about data where there are none, or beside statistics.

        Args:
            stats: the file of statistics; beside a calibration cache, data are calibrated with as without it.
            without_data: whether there are no data.

        Raises:
            UserError: there are some.
        """
        chooses = OF_SAMPLES if stats is not None else (*OF_SAMPLES, "search", "method")
        given = [
            said.flag[-1]
            for group in (Calibration, ImageOptions, Feeding)
            for name, said in read_options(group).items()
            if name in self.flags(group) and (group is not Calibration or name in chooses)
        ]
        if without_data and given and stats is not None:
            raise exclude("--stats", given[0], "without data (--calib) there is nothing that it is about")
        if without_data and given:
            raise UserError(
                f"{given[0]} is given, and there is no data that it could be about",
                hint="give --calib DATA, or leave it out",
            )
        if stats is not None:
            from onnxq.calib.trt_cache import is_cache

            if not is_cache(Path(stats)):
                refuse_with_stats(self.flags(Calibration), Path(stats), lambda name: f"--{name}")


def takes(name: str, function: Callable[..., T]) -> Callable[..., T]:
    """Gives a verb its flags of groups of options; it has a parameter `chosen` for them.

    Args:
        name: of the verb (`onnxq.options.verbs`).
        function: what it does.
    """
    declared = VERBS[name]
    options = {
        (group, field): said for group in declared.groups for field, said in declared.flags(group).items()
    }
    known = {said.flag[-1] for said in options.values()}

    @functools.wraps(function)
    def verb(screen: Screen, **named: Any) -> T:
        path = named.pop("config") if declared.config else None
        flags: dict[type, dict[str, Any]] = {}
        typed: dict[tuple[type, str], list[str]] = {}
        for (group, field), said in options.items():
            value, flag = named.pop(field), said.flag[-1]
            if not (value is None or value is False or value == []):
                flags.setdefault(group, {})[field] = said.kind.of_flag(flag, value)
                several = value if isinstance(value, list) else [value]
                typed[group, field] = [
                    word for one in several for word in ((flag,) if one is True else (flag, str(one)))
                ]
        chosen = Chosen(name, find_config(path) if declared.config else None, flags, typed)
        screen.quiet |= chosen.file(Common).get("quiet", False)
        screen.verbose |= chosen.file(Common).get("verbose", False)
        return function(screen, chosen=chosen, **named)

    signature = inspect.signature(function, eval_str=True)
    own = [p for p in signature.parameters.values() if p.name != "chosen"]
    if declared.config:
        own.append(inspect.Parameter("config", own[-1].kind, default=None, annotation=ConfigPath))
    for (group, field), said in options.items():
        title = _title(group.TITLE, declared.groups, known)  # type: ignore[attr-defined]
        annotation, empty = flag_of(group, field, said, title)
        own.append(inspect.Parameter(field, own[-1].kind, default=empty, annotation=annotation))
    first, *rest = own
    parameters = [first, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in rest)]
    verb.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return verb


def flag_of(group: type, name: str, said: Option, title: str | None) -> tuple[Any, Any]:
    """The annotation of a flag, and its value where it is not given."""
    is_switch = said.kind.typed is bool
    described = typer.Option(
        *said.flag, metavar=None if is_switch else said.metavar, help=said.help + _default(group, name, said),
        rich_help_panel=title, show_default=False, autocompletion=_completed(said.kind.names),
    )  # fmt: skip
    return Annotated[said.kind.typed if is_switch else said.kind.typed | None, described], (
        False if is_switch else None
    )


def _completed(names: Sequence[str]) -> Callable[[str], list[str]] | None:
    """What completes a value in the shell; None: the shell itself, with files."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete if names else None


def _default(group: type, name: str, said: Option) -> str:
    """What an option is by default, for its help."""
    default = group.__dataclass_fields__[name].default  # type: ignore[attr-defined]
    if said.kind.typed is bool or default is None or default == ():
        return ""
    text = "/".join(map(str, default)) if isinstance(default, tuple) else str(default)
    return f" {text} by default."


def _title(title: str, groups: Sequence[type], known: Collection[str]) -> str:
    """The title of a panel, with the first example whose flags the verb has."""
    examples = [
        example
        for group in groups
        if title == group.TITLE  # type: ignore[attr-defined]
        for example in group.EXAMPLES  # type: ignore[attr-defined]
    ]
    for example in examples:
        if all(word in known for word in example.split() if word.startswith("--")):
            return f"{title}, as in {example}"
    return title


def given(chosen: Chosen) -> tuple[Any, dict[str, Any]]:
    """What `onnxq.quantize` is given for flags: the data, None for none, and keywords.

    Raises:
        UserError: flags of which one would be ignored, or no data are given.
    """
    calibration, plan = chosen.calibration(), chosen.group(Format).plan
    ranges_are_stated = repairs_of(chosen).pairs == "adopt"
    has_data = chosen.has_data or (calibration.stats is None and plan is None and not ranges_are_stated)
    chosen.refuse_ignored(calibration.stats, without_data=not has_data)
    data = chosen.source() if has_data else None
    return data, {**chosen.keywords(repairs=repairs_of(chosen)), "layers": chosen.layers}


def repairs_of(chosen: Chosen) -> Repairs:
    """How the model is repaired; a plan that is to be obeyed says what for, where nothing else does."""
    repairs, plan = chosen.group(Repairs), chosen.group(Format).plan
    if plan is None or "target" in {**chosen.file(Repairs), **chosen.flags(Repairs)}:
        return repairs
    from onnxq.pipeline.planning import plan_at

    return dataclasses.replace(repairs, target=plan_at(Path(plan)).target)

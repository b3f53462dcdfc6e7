"""What a call in Python asks for: the options among its keywords, in their groups."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from onnxq.base.errors import UserError, unknown_name
from onnxq.options.exclusions import asked, settled
from onnxq.options.option import Option, of_today
from onnxq.options.settings import (
    AccuracyRepair,
    Calibration,
    Compilation,
    Details,
    Division,
    Feeding,
    Format,
    Goal,
    ImageOptions,
    Inputs,
    Margins,
    Ranking,
    Repairs,
    Runtime,
)
from onnxq.options.verbs import verb_of

G = TypeVar("G")


@dataclass(frozen=True, slots=True)
class Options:
    """The groups of a call, with the defaults where its verb has none; each is a keyword of this name.

    So `quantize(model, data, method="mse")` is `quantize(model, data, calibration=Calibration("mse"))`.

    Attributes:
        given: the names of the options that the call itself gives of each group.
    """

    calibration: Calibration = field(default_factory=Calibration)
    feeding: Feeding = field(default_factory=Feeding)
    images: ImageOptions | None = None
    format: Format = field(default_factory=Format)
    repairs: Repairs = field(default_factory=Repairs)
    inputs: Inputs = field(default_factory=Inputs)
    runtime: Runtime = field(default_factory=Runtime)
    accuracy: AccuracyRepair = field(default_factory=AccuracyRepair)
    compilation: Compilation = field(default_factory=Compilation)
    goal: Goal = field(default_factory=Goal)
    ranking: Ranking = field(default_factory=Ranking)
    division: Division = field(default_factory=Division)
    details: Details = field(default_factory=Details)
    margins: Margins = field(default_factory=Margins)
    given: Mapping[type, frozenset[str]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: str, options: Mapping[str, Any]) -> Options:
        """What the keywords of a function ask for, beside those of its own.

        Args:
            function: its name.
            options: groups, or mappings of their fields to values, and single options, which win.

        Raises:
            UserError: a value makes no sense, or is of an option that the function does not have.
            TypeError: there is no such keyword.
        """
        rest, groups = {of_today(name): value for name, value in options.items()}, dict[str, Any]()
        if len(rest) < len(options):
            raise UserError(f"one of {', '.join(options)} is given twice, by two names", hint="keep one")
        given: dict[type, frozenset[str]] = {}
        verb = verb_of(function)
        for group, keywords in options_of(function).items():
            keyword = KEYWORDS[group]
            said = rest.pop(keyword, None)
            if group is ImageOptions:
                groups[keyword] = image_options(said)
            else:
                own = {name: rest.pop(name) for name in keywords if name in rest}
                groups[keyword], given[group] = _asked(function, verb.options(group), group, said, own)
        for name in rest:
            raise TypeError(f"{function}() got an unexpected keyword argument {name!r}")
        return cls(**groups, given=given)


KEYWORDS: Mapping[Any, str] = {
    ImageOptions if one.name == "images" else one.default_factory: one.name
    for one in dataclasses.fields(Options)
    if one.name != "given"
}
"""The groups that a function can take, and the keyword of each; others are of the command line."""


def options_of(function: str) -> Mapping[type, Mapping[str, Option]]:
    """The groups that a function takes as keywords, and their options that are keywords of their own."""
    verb = verb_of(function)
    return {
        group: {}
        if group is ImageOptions
        else {name: one for name, one in verb.options(group).items() if name not in verb.shadowed}
        for group in verb.groups
        if group in KEYWORDS
    }


def _asked(
    function: str,
    known: Collection[str],
    kind: type[G],
    said: G | Mapping[str, Any] | None,
    own: Mapping[str, Any],
) -> tuple[G, frozenset[str]]:
    """A group, with the options of the call in the place of its own; and what the call gives of it."""
    group = _group_of(kind, said)
    for one in dataclasses.fields(kind):  # type: ignore[arg-type]
        if one.name not in known and getattr(group, one.name) != one.default:
            raise UserError(f"{function} has no option {one.name!r}", hint=f"leave it out of {kind.__name__}")
    given = {**said, **own} if isinstance(said, Mapping) else own
    if isinstance(group, Calibration) and "method" in known:
        given = asked(given)
        own = {**own, **settled(given, {"method": group.method, "search": group.search}, str)}
    return (dataclasses.replace(group, **own) if own else group), frozenset(given)  # type: ignore[type-var]


def _group_of(kind: type[G], given: G | Mapping[str, Any] | None) -> G:
    """A group: itself, or one of a mapping of its fields to values.

    Raises:
        UserError: a field is not one of the group, or its value makes no sense.
    """
    if isinstance(given, kind):
        return given
    assert given is None or isinstance(given, Mapping)
    known = [one.name for one in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for name in given or {}:
        if name not in known:
            title = "image" if kind is ImageOptions else kind.TITLE.lower()  # type: ignore[attr-defined]
            raise unknown_name(f"{title} option", name, known)
    return kind(**given or {})


def image_options(given: ImageOptions | Mapping[str, Any] | None) -> ImageOptions | None:
    """Image options from a mapping of their names to values; lists become tuples.

    Raises:
        UserError: there is no such option, or its value makes no sense.
    """
    if given is None or isinstance(given, ImageOptions):
        return given
    values = dict(given)
    for name, value in given.items():
        if name in ("mean", "std") and isinstance(value, int | float):
            values[name] = (value,)
        elif isinstance(value, list):
            values[name] = tuple(value)
    return _group_of(ImageOptions, values)

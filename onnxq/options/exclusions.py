"""Which calibration method is meant by the options that are given, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from onnxq.base.errors import UserError
from onnxq.options import method as methods
from onnxq.options.option import Unsaid, UnsaidNumber

Words = Callable[[str], str]
"""What the user calls an option: a flag, or a keyword."""


def settled(
    given: Mapping[str, Any], before: Mapping[str, Any], words: Words, where: str = ""
) -> dict[str, Any]:
    """The method, whether its parameter is searched for, and other methods' parameters, which nobody says.

    Args:
        given: the options that the user gives, by name; without a method among them, a parameter says which.
        before: what else the method and the search are, by the same names, if anything; what is given of the
            method turns the search off.
        words: what the user calls them.
        where: where they are given, for messages: "in 'onnxq.toml' ".

    Raises:
        UserError: one of them would be ignored.
    """
    _refuse_parameters(given, words, where)
    known = methods.parameters()
    of_method = given.keys() & {"method", "search", *known}
    search = given.get("search", False) or (not of_method and before.get("search", False))
    chosen = _method_of(given) or before.get("method", "auto")
    others = [name for name, owner in known.items() if search or owner.name != chosen]
    return {"method": chosen, "search": search, **{name: unsaid(name) for name in others}}


def unsaid(parameter: str) -> UnsaidNumber:
    """The default of a parameter."""
    said = methods.parameters()[parameter].parameter
    assert said is not None
    return UnsaidNumber(said.default)


def asked(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that a call in Python gives and means.

    Who hands on a parameter as it is by default, beside a method, asks for nothing.

    Args:
        options: of a group of options or of a call, by name.
    """
    given = {name: value for name, value in options.items() if not isinstance(value, Unsaid)}
    method = given.get("method")
    return {
        name: value
        for name, value in given.items()
        if method is None
        or name not in methods.parameters()
        or methods.parameters()[name].name == method
        or value != unsaid(name)
    }


def _method_of(given: Mapping[str, Any]) -> str | None:
    """The method that is given, else the one that has the parameters which are."""
    if given.get("method") is not None:
        named: str = given["method"]
        return named
    if given.get("search"):
        return methods.searched()[0]
    return next((owner.name for name, owner in methods.parameters().items() if name in given), None)


OF_SAMPLES = ("exact", "samples", "seed")
"""Options that statistics which were taken before say themselves."""


def refuse_with_stats(given: Collection[str], stats: Path, words: Words) -> None:
    """Refuses options that would be ignored, since statistics are given that say them.

    Args:
        given: the names of the options that the user gives.
        stats: the file; no calibration cache, beside which data are calibrated with as without it.
        words: what the user calls them.

    Raises:
        UserError: there is one.
    """
    ignored = [name for name in OF_SAMPLES if name in given]
    if ignored:
        why = f"which samples calibrated, and how, is said by {str(stats)!r}"
        raise exclude(words("stats"), words(ignored[0]), why)


def exclude(one: str, other: str, why: str) -> UserError:
    """The error for two options of which one would be ignored."""
    return UserError(f"{one} and {other} exclude each other: {why}", hint="leave one of them out")


def _refuse_parameters(given: Mapping[str, Any], words: Words, where: str) -> None:
    """Refuses parameters of a method that is not the one that is given, or of two.

    Raises:
        UserError: there are some.
    """
    known, searched = methods.parameters(), methods.searched()
    method, search = given.get("method"), given.get("search", False)
    owners: dict[str, tuple[str, ...]] = {name: (known[name].name,) for name in known if name in given}
    if search:
        for name in owners:
            if known[name].name in searched:
                raise exclude(words("search"), words(name), f"{where}the search chooses the {name}")
        owners["search"] = searched if method in searched else searched[:1]
    for option, of in owners.items():
        if method not in (None, *of) and not (option == "search" and method == "auto"):
            why = f"{where}{words(option)} is of method {of[0]}"
            raise exclude(f"{words('method')} {method}", words(option), why)
    if len({of[0] for of in owners.values()}) > 1:
        (first, one), (second, other), *_ = owners.items()
        raise exclude(words(first), words(second), f"{where}they are of the methods {one[0]} and {other[0]}")

"""Which calibration method is meant by the options that are given, and which of them exclude each other."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from onnxq.errors import UserError

_OWN = {"percentile": ("percentile", "search"), "average": ("constant",)}
"""Methods, and the parameters that are theirs alone."""

Words = Callable[[str], str]
"""What the user calls an option: a flag, or a keyword."""


def settled(given: Mapping[str, Any], method: str, search: bool, words: Words) -> dict[str, Any]:
    """The method and whether its percentile is searched for, of the options that are given.

    Args:
        given: the options that the user gives, by name; without a method among them, a parameter says which.
        method: what else it is.
        search: likewise; what is given of the method turns it off.
        words: what the user calls them.

    Raises:
        UserError: one of them would be ignored.
    """
    _refuse_parameters(given, words)
    of_method = given.keys() & {"method", "percentile", "constant", "search"}
    search = given.get("search", False) or (not of_method and search)
    return {"method": method_of(given) or method, "search": search}


def method_of(given: Mapping[str, Any]) -> str | None:
    """The method that is given, else the one that has the parameters which are."""
    if given.get("method") is not None:
        named: str = given["method"]
        return named
    if "percentile" in given or given.get("search"):
        return "percentile"
    return "average" if "constant" in given else None


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


def _refuse_parameters(given: Mapping[str, Any], words: Words) -> None:
    """Refuses parameters of a method that is not the one that is given, or of two.

    Raises:
        UserError: there are some.
    """
    method, search = given.get("method"), given.get("search", False)
    if search and "percentile" in given:
        raise exclude(words("search"), words("percentile"), "the search chooses the percentile")
    found = [
        (name, part)
        for name, parts in _OWN.items()
        for part in parts
        if part in given and given[part] is not False
    ]
    for name, part in found:
        both = part == "search" and method == "auto"
        if method is not None and method != name and not both:
            why = f"{words(part)} is of method {name}"
            raise exclude(f"{words('method')} {method}", words(part), why)
    if len({name for name, _ in found}) > 1:
        (one, first), (other, second) = found
        raise exclude(words(first), words(second), f"they are of the methods {one} and {other}")

"""What an option is, and how its values are read: those of a flag, and those in `onnxq.toml`."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onnxq.base.errors import UserError, unknown_name
from onnxq.base.remarks import remark
from onnxq.base.tables import Reader, choice, is_not, number, text, texts, truth, whole


@dataclass(frozen=True, slots=True)
class Kind:
    """What values an option has.

    Attributes:
        typed: the type of what the flag gives: str, int, float, bool or Path, or a list of one of them.
        of_file: reads what TOML gives.
        of_flag: reads what the flag gives.
        is_path: whether it is a path, or several: in a file it is relative to that file.
        names: the values that there are, for the shell to complete; none where there are more than names.
    """

    typed: Any
    of_file: Reader
    of_flag: Reader = lambda flag, value: value
    is_path: bool = False
    names: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """What is said of an option beside its name and its default.

    Attributes:
        help: one line.
        kind: its values.
        flag: the flag, with the short one in front, if there is one.
        metavar: what stands for its value.
        key: its name in `onnxq.toml`.
        tables: where it may stand there; "" is the top of the file.
        runs_code: whether it names something that is run.
        beside: the option that it goes with: without that there is not this one either. It has no flag.
        file_only: whether no verb that reads `onnxq.toml` has it as a flag: it is a key and, in Python, a
            keyword.
    """

    help: str
    kind: Kind
    flag: tuple[str, ...] = ()
    metavar: str | None = None
    key: str = ""
    tables: tuple[str, ...] = ()
    runs_code: bool = False
    beside: str = ""
    file_only: bool = False

    def in_file(self, given: Sequence[str]) -> str:
        """The line of `onnxq.toml` that says what its flag would, and where it stands.

        Args:
            given: the values of the flag.
        """
        values = [_toml(value) for value in given]
        if self.kind.typed is bool:
            value = "true"
        elif "=" in (self.metavar or ""):
            pairs = [one.rpartition("=") for one in given]
            value = f"{{{', '.join(f'{json.dumps(name)} = {_toml(one)}' for name, _, one in pairs)}}}"
        else:
            value = values[0] if len(values) == 1 else f"[{', '.join(values)}]"
        return f"{self.key} = {value}" + (f" under [{self.tables[0]}]" if self.tables[0] else "")


def _toml(value: str) -> str:
    """A value of a flag as TOML."""
    return value if re.fullmatch(r"-?\d+(\.\d+)?", value) else json.dumps(value, ensure_ascii=False)


def option(default: Any, help: str, kind: Kind, **said: Any) -> Any:
    """A field of a group that is an option; `said`: what its `Option` says beside the help and the kind."""
    return dataclasses.field(default=default, metadata={"option": Option(help, kind, **said)})


FORMER: Mapping[str, str] = {"heads": "loud", "sm": "device"}
"""Options by the names that they had before: these are still taken, and that is said."""


def of_today(name: str) -> str:
    """The name that an option has now; that it had another one is said."""
    now = FORMER.get(name, name)
    if now != name:
        remark(f"the option {name!r} is called {now!r} now: {name!r} still works")
    return now


class Unsaid:
    """A default that tells itself from the same value given by somebody; mixed into the value's type."""

    __slots__ = ()


class UnsaidText(Unsaid, str):
    """A text that nobody gave."""

    __slots__ = ()


class UnsaidNumber(Unsaid, float):
    """A number that nobody gave."""

    __slots__ = ()


# -- kinds -----------------------------------------------------------------------------------------

FLAG = Kind(bool, truth)
TEXT = Kind(str, text)
TEXTS = Kind(list[str], texts, lambda flag, value: tuple(value))
PATH = Kind(Path, lambda key, value: Path(text(key, value)), is_path=True)
PATHS = Kind(
    list[Path], lambda key, value: tuple(map(Path, texts(key, value))), lambda flag, value: tuple(value),
    is_path=True,
)  # fmt: skip
CODE = dataclasses.replace(PATH, typed=str)
"""A file of Python, and perhaps a function in it: `FILE.py:FUNCTION`."""
NOT = Kind(bool, lambda key, value: not truth(key, value), lambda flag, value: not value)
"""A flag that turns off what is on without it."""


def one_of(kind: str, names: Sequence[str]) -> Kind:
    """One of some names; a flag's is checked by who uses it."""
    return Kind(str, choice(kind, names), names=names)


def some_of(kind: str, names: Sequence[str], alone: Sequence[str]) -> Kind:
    """Some of several names, or one of those that stand alone; in a flag with commas, in a file a list.

    Args:
        kind: what they are, for messages.
        names: theirs.
        alone: those that stand in the place of all others.
    """

    def of_flag(flag: str, value: str) -> str | tuple[str, ...]:
        return read(tuple(part.strip() for part in value.split(",")))

    def of_file(key: str, value: Any) -> str | tuple[str, ...]:
        return of_flag(key, value) if isinstance(value, str) else read(texts(key, value))

    def read(found: tuple[str, ...]) -> str | tuple[str, ...]:
        said = found[0] if len(found) == 1 else found
        check_some(kind, said, names, alone)
        return said

    return Kind(str, of_file, of_flag)


def check_some(kind: str, given: str | Sequence[str], names: Sequence[str], alone: Sequence[str]) -> None:
    """Refuses what is none of some names, and a name beside which no others may stand.

    Raises:
        UserError: there is such a name, or none at all.
    """
    if not isinstance(given, str | Sequence):
        raise UserError(f"a {kind} is {given!r}", hint=f"give some of {', '.join((*alone, *names))}")
    said = (given,) if isinstance(given, str) else tuple(given)
    if not said:
        raise UserError(f"no {kind} is named", hint=f"give some of {', '.join((*alone, *names))}")
    for name in said:
        if name not in names and name not in alone:
            raise unknown_name(kind, str(name), (*alone, *names))
        if name in alone and len(said) > 1:
            raise UserError(
                f"{kind} {name!r} stands alone, and {', '.join(map(repr, said))} are given",
                hint="leave it out, or the others",
            )


def name_or_path(
    kind: str,
    names: Sequence[str],
    suffix: str,
    known_as: Callable[[str], str] = str,
    is_known: Callable[[str], bool] | None = None,
) -> Kind:
    """One of some names, else the path of a file; in a file a path is relative to that file.

    Args:
        kind: what is named, for messages.
        names: the names.
        suffix: how the paths end; where they end anyhow, "".
        known_as: gives the name of what is named otherwise.
        is_known: whether there is a name; None: those that are listed are all.
    """
    is_known = is_known or names.__contains__

    def read(key: str, value: Any) -> str | Path:
        given = text(key, str(value) if type(value) is int else value)
        said = known_as(given)
        if said != given:
            remark(f"{kind} {given} is called {said} here")
        if is_known(said):
            return said
        if not said.endswith(suffix):
            raise unknown_name(kind, said, names)
        return Path(said)

    return Kind(str, read, read, is_path=True, names=names)


def at_least(least: int) -> Kind:
    """Whole numbers; a flag's is checked by who uses it."""
    return Kind(int, whole(least))


def at_most(most: float) -> Kind:
    """Numbers above 0; a flag's is checked by who uses it."""
    return Kind(float, number(most))


def parsed(form: str, read: Callable[[str], Any], between: str = ",") -> Kind:
    """Values with a form of their own; in a file a string of that form, a number, or a list.

    Args:
        form: the form, in words.
        read: reads it; raises a ValueError or ZeroDivisionError of what is ill-formed.
        between: what stands between the parts of a list.
    """

    def of_flag(flag: str, value: Any) -> Any:
        try:
            return read(value)
        except (ValueError, ZeroDivisionError) as error:
            raise UserError(
                f"{flag} {value!r} is not understood: {error}", hint=f"the form is {flag} {form}"
            ) from error

    def of_file(key: str, value: Any) -> Any:
        return of_flag(key, _as_text(key, value, between))

    return Kind(str, of_file, of_flag)


def once(kind: Kind) -> Kind:
    """A kind whose flag may not be given twice: of what is asked for nothing is dropped silently."""

    def of_flag(flag: str, value: Sequence[str]) -> Any:
        if len(value) > 1:
            raise UserError(f"{flag} is given twice: {' and '.join(map(repr, value))}", hint="give it once")
        return kind.of_flag(flag, value[0])

    return dataclasses.replace(kind, typed=list[str], of_flag=of_flag)


def by_name(form: str, read: Callable[[str], Any], between: str = ",") -> Kind:
    """Values by name: `NAME=VALUE` flags, in a file a table. As `parsed`."""

    def of_flag(flag: str, value: Sequence[str]) -> dict[str, Any]:
        return named(flag, value, form, read)

    def of_file(key: str, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise is_not(key, value, "a table", f'write {key} = {{"NAME" = ...}}')
        return named(
            key, [f"{name}={_as_text(key, one, between)}" for name, one in value.items()], form, read
        )

    return Kind(list[str], of_file, of_flag)


def _as_text(key: str, value: Any, between: str) -> str:
    """A value of a file as a flag says it."""
    if isinstance(value, list) and not any(isinstance(one, list) for one in value):
        return between.join(_as_text(key, one, between) for one in value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise is_not(key, value, "a string, a number or a list of them", "write it as the flag takes it")
    return str(value)


def named(flag: str, entries: Sequence[str], form: str, read: Callable[[str], Any]) -> dict[str, Any]:
    """`NAME=VALUE` entries. A name may hold "=" and ":", a value cannot: the last "=" parts them.

    Raises:
        UserError: one is ill-formed, or a name comes twice.
    """
    found: dict[str, Any] = {}
    for entry in entries:
        name, equals, value = entry.rpartition("=")
        hint = f"the form is {flag} {form}"
        if not equals or not name:
            raise UserError(f"{flag} {entry!r} is not understood", hint=hint)
        if name in found:
            raise UserError(f"{flag} is given twice for {name!r}", hint="give it once")
        try:
            found[name] = read(value)
        except ValueError as error:
            raise UserError(f"{flag} {entry!r} is not understood: {error}", hint=hint) from error
    return found


# -- texts with a form of their own; each raises a ValueError of what is ill-formed ------------------


def real(given: str) -> float:
    """A number that is finite."""
    found = _number(given)
    if not math.isfinite(found):
        raise ValueError(f"{given!r} is not finite")
    return found


def not_negative(given: str) -> float:
    """A finite number of at least 0."""
    found = real(given)
    if found < 0:
        raise ValueError(f"{given!r} is negative")
    return found


def above_zero(given: str) -> float:
    """A finite number above 0."""
    found = real(given)
    if found <= 0:
        raise ValueError(f"{given!r} is not above 0")
    return found


def share(given: str) -> float:
    """A part of the whole, 0 to 1: as in 5% or 0.05."""
    percent = given.endswith("%")
    found = real(given.removesuffix("%")) / (100 if percent else 1)
    if not 0 <= found <= 1:
        raise ValueError(f"{given!r} is no part of the whole")
    return found


def percent_of_output(given: str) -> float | tuple[str, float]:
    """A percentage, as in 99, or that of an output, as in logits=99."""
    name, equals, value = given.rpartition("=")
    found = real(value.removesuffix("%"))
    if not 0 < found <= 100:
        raise ValueError(f"{value!r} is no percentage")
    if equals and not name:
        raise ValueError("there is no name")
    return (name, found) if equals else found


def _number(given: str) -> float:
    try:
        return float(given)
    except ValueError:
        raise ValueError(f"{given!r} is no number") from None


def size(given: str) -> int:
    """A size."""
    if not re.fullmatch(r"[0-9]+", given):
        raise ValueError(f"{given!r} is no size")
    return int(given)


def bytes_in(given: str) -> int:
    """A number of bytes above 0, as in 2GB, 512 MB, 1.5GiB or 1000."""
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?) ?(?:([kmgt])(i?))?b?", given.strip().lower())
    if found is None:
        raise ValueError(f"{given!r} is no number of bytes")
    unit = (1024 if found[3] else 1000) ** ("kmgt".index(found[2]) + 1 if found[2] else 0)
    count = int(min(float(found[1]) * unit, 1 << 60))  # so many digits may be infinite
    if not 0 < count < 1 << 60:
        raise ValueError(f"{given!r} is not a size that a machine has")
    return count


BYTES = parsed("SIZE, as in 2GB or 512MB", bytes_in)


def some(given: str) -> str:
    """A name."""
    if not given:
        raise ValueError("there is no name")
    return given


def shape(given: str) -> tuple[int | str, ...]:
    """Sizes and symbols with an "x" between them; with commas, where a symbol holds an "x"."""
    return tuple(_dim(part) for part in re.split("," if "," in given else "x", given))


def _dim(given: str) -> int | str:
    if re.fullmatch(r"[^\W\d].*", given.strip()):
        return given.strip()
    return size(given)


def sizes(given: str) -> tuple[int, ...]:
    """Sizes with an "x" between them, as in 3x224x224."""
    return tuple(size(part) for part in given.split("x"))


def profile(given: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """The smallest, the usual and the largest shape, with ":" between them."""
    parts = given.split(":")
    if len(parts) != 3:
        raise ValueError(f"{len(parts)} shapes where there must be three")
    smallest, usual, largest = map(sizes, parts)
    return smallest, usual, largest


def span(given: str) -> tuple[int, int, int]:
    """The smallest, the usual and the largest size, with ":" between them; or one that is all three."""
    found = [size(part) for part in given.split(":")]
    if len(found) not in (1, 3):
        raise ValueError(f"{len(found)} sizes where there must be one or three")
    return found[0], found[len(found) // 2], found[-1]


def values(given: str) -> bool | int | float | list[bool | int | float]:
    """A number or true/false, or several with commas."""
    found = [_value(part.strip()) for part in given.split(",")]
    if len({isinstance(value, bool) for value in found}) > 1:
        raise ValueError("numbers and true/false are mixed")
    return found[0] if len(found) == 1 else found


def _value(given: str) -> bool | int | float:
    if given.lower() in ("true", "false"):
        return given.lower() == "true"
    for read in (int, float):
        try:
            return read(given)
        except ValueError:
            pass
    raise ValueError(f"{given!r} is no number")


def width_height(given: str) -> tuple[int, int]:
    """A width and a height."""
    found = sizes(given)
    if len(found) != 2:
        raise ValueError(f"{given!r} is no width and height")
    return found[0], found[1]


def side_or_size(given: str) -> int | tuple[int, int]:
    """A shorter side, or a width and a height."""
    return width_height(given) if "x" in given else size(given)


def fractions(given: str) -> tuple[float, ...]:
    """Numbers or fractions with commas."""
    return tuple(fraction(part) for part in given.split(","))


def fraction(given: str) -> float:
    """A number or the quotient of two, as in 1/255."""
    above, slash, below = given.partition("/")
    try:
        return float(above) / float(below) if slash else float(above)
    except ValueError:
        raise ValueError(f"{given!r} is no number") from None


def part(given: str) -> tuple[int, int]:
    """One of several parts, as in 1/4."""
    found = re.fullmatch(r"([0-9]+)/([0-9]+)", given)
    if found is None:
        raise ValueError(f"{given!r} is no part of several")
    return int(found[1]), int(found[2])


def read_options(group: type, without: Collection[str] = ()) -> Mapping[str, Option]:
    """The options of a group by the names of their fields, without some and those that stand beside these."""
    found = {}
    for field in dataclasses.fields(group):
        if "option" in field.metadata and field.name not in without:
            said: Option = field.metadata["option"]
            if said.beside in without:
                continue
            flag = said.flag or ("--" + field.name.replace("_", "-"),)
            key = said.key or flag[-1].lstrip("-").replace("-", "_")
            tables = said.tables or (group.TABLE,)  # type: ignore[attr-defined]
            found[field.name] = dataclasses.replace(said, flag=flag, key=key, tables=tables)
    return found

"""What the user writes into `onnxq.toml`: calibration, and what is different for some layers.

    target = "tensorrt-11"

    [calibration]
    data = "images"
    method = "percentile"
    percentile = 99.99

    [[layer]]
    match = "/head/*"
    op = ["Conv", "Gemm"]
    format = "float"
    because = "boxes lose precision"

The first `[[layer]]` that matches a node wins. A flag wins over the file, the file over the default.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from onnxq.errors import UserError, nearest, unknown_name
from onnxq.target import NAMES as TARGETS

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

T = TypeVar("T")

FILE = Path("onnxq.toml")
LAYER_METHODS = ("minmax", "average", "percentile", "entropy", "mse")
METHODS = (*LAYER_METHODS, "auto")
PRESETS = ("imagenet", "yolo", "tensorflow", "raw")

_FLOAT32_MAX = 3.4e38
_PARAMETERS = {"percentile": "percentile", "constant": "average"}
"""Parameters, and the method that each belongs to."""


@dataclass(frozen=True, slots=True)
class CalibrationTable:
    """How the model is calibrated; None: the file does not say.

    Attributes:
        data: the calibration data; relative to the folder of the file.
        samples: how many are used at most, from 1.
        seed: chooses them, from 0.
        method: one of `METHODS`.
        percentile: of method `percentile`, above 0, at most 100.
        constant: of method `average`, above 0, at most 1.
        exact: whether histograms hold all values.
        preset: how images are prepared, one of `PRESETS`.
        skip_bad: whether samples that cannot be read are left out.
    """

    data: Path | None = None
    samples: int | None = None
    seed: int | None = None
    method: str | None = None
    percentile: float | None = None
    constant: float | None = None
    exact: bool | None = None
    preset: str | None = None
    skip_bad: bool | None = None


@dataclass(frozen=True, slots=True)
class LayerRule:
    """What one `[[layer]]` says of the nodes that it matches: exactly one of `format`, `method` and `amax`.

    Attributes:
        match: globs of node names, case-sensitive; empty: any name.
        op: operators; empty: any.
        format: `float`: the nodes stay in float.
        method: one of `LAYER_METHODS`, for the activations that the nodes read.
        percentile: of method `percentile`; None: the model's.
        constant: of method `average`; None: the model's.
        amax: the range of the activations that the nodes read, above 0.
        because: why, for the report; or empty.
        index: its number in the file, from 1.
        path: the file.
    """

    match: tuple[str, ...] = ()
    op: tuple[str, ...] = ()
    format: str | None = None
    method: str | None = None
    percentile: float | None = None
    constant: float | None = None
    amax: float | None = None
    because: str = ""
    index: int = 1
    path: Path = FILE

    def matches(self, name: str, op: str) -> bool:
        """Whether a node of this name and operator is meant."""
        named = not self.match or any(fnmatch.fnmatchcase(name, glob) for glob in self.match)
        return named and (not self.op or op in self.op)


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file.

    Attributes:
        path: the file.
        target: what the model is for; None: the file does not say.
        calibration: how it is calibrated.
        layers: what is different for some layers, in the order of the file.
    """

    path: Path
    target: str | None = None
    calibration: CalibrationTable = CalibrationTable()
    layers: tuple[LayerRule, ...] = ()


def find_config(explicit: Path | None) -> Config | None:
    """The configuration at a path; without one, that of the working directory, if it has one.

    Raises:
        UserError: see `load_config`.
    """
    path = explicit or (FILE if os.path.lexists(FILE) else None)
    return None if path is None else load_config(path)


def load_config(path: Path) -> Config:
    """Reads a configuration file.

    Raises:
        UserError: it cannot be read, is not TOML, or has an unknown key or a value that makes no sense.
    """
    where = repr(str(path))
    try:
        text = path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
        data = tomllib.loads(text)
    except OSError as error:
        raise UserError(f"cannot read {where}: {error.strerror or error}", hint="check the path") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise UserError(f"{where} is not TOML: {error}", hint="see https://toml.io") from error
    try:
        return _config(path, data)
    except _At as error:
        raise UserError(f"{where}, line {_line(text, error.keys)}: {error}", hint=error.hint) from error


def overrides(layers: Sequence[LayerRule], nodes: Iterable[tuple[str, str]]) -> dict[str, LayerRule]:
    """The first rule that matches each node, by node name; nodes that none matches are left out.

    Args:
        layers: the rules.
        nodes: names and operators of all nodes.

    Raises:
        UserError: a rule, or one of its globs, matches no node; or others come first at all that it matches.
    """
    known = list(nodes)
    for rule in layers:
        for one in [replace(rule, match=(glob,)) for glob in rule.match] or [rule]:
            if not any(one.matches(name, op) for name, op in known):
                raise _matches_nothing(one, known)
    found = {}
    for name, op in known:
        first = next((rule for rule in layers if rule.matches(name, op)), None)
        if first is not None:
            found[name] = first
    for rule in layers:
        if rule not in found.values():
            raise _shadowed(rule, [found[name] for name, op in known if rule.matches(name, op)])
    return found


def prefer(flag: T | None, file: T | None, default: T) -> T:
    """The first that is given, not None: the flag's value, the file's, the default."""
    return next((value for value in (flag, file) if value is not None), default)


def _shadowed(rule: LayerRule, first: Sequence[LayerRule]) -> UserError:
    """The error for a rule that is the first one nowhere; `first` are those that are, at its nodes."""
    entries = " and ".join(map(str, sorted({one.index for one in first})))
    return UserError(
        f"{str(rule.path)!r}: [[layer]] {rule.index} is never followed: [[layer]] {entries} matches all "
        "that it does, and the first one wins",
        hint="put the narrower entry first, or leave one out",
    )


def _matches_nothing(rule: LayerRule, nodes: Sequence[tuple[str, str]]) -> UserError:
    """The error for a rule with at most one glob that matches none of the nodes."""
    named = [op for name, op in nodes if replace(rule, op=()).matches(name, op)]
    asked = [f"match = {glob!r}" for glob in rule.match] + [f"op = {op!r}" for op in rule.op]
    if not rule.match:
        hint = nearest(rule.op[0], named)
    elif named:
        hint = f"what matches by name is of the operators {', '.join(sorted(set(named))[:5])}"
    else:
        hint = nearest(rule.match[0], [name for name, _ in nodes])
    return UserError(
        f"{str(rule.path)!r}: [[layer]] {rule.index} ({', '.join(asked)}) matches no node of the model",
        hint=hint or "`onnxq inspect MODEL --ops` lists operators and layers",
    )


class _At(UserError):
    """An error in the file.

    Attributes:
        keys: the way to what is wrong in its data.
    """

    def __init__(self, keys: tuple[str | int, ...], message: str, hint: str) -> None:
        super().__init__(message, hint=hint)
        self.keys = keys


_Reader = Callable[[str, Any], Any]
"""Checks the value of a key, and converts it. Raises a UserError without a place."""


def _text(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise _is_not(key, value, "a string", 'write it in quotes: "..."')
    return value


def _texts(key: str, value: Any) -> tuple[str, ...]:
    several = value if isinstance(value, list) else [value]
    if not several or not all(isinstance(one, str) and one for one in several):
        raise _is_not(key, value, "a string or a list of strings", 'write "..." or ["...", "..."]')
    return tuple(several)


def _flag(key: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _is_not(key, value, "true or false", "write it without quotes")
    return value


def _whole(least: int) -> _Reader:
    def read(key: str, value: Any) -> int:
        if type(value) is not int or value < least:
            raise _is_not(key, value, f"a whole number from {least}", f"give a whole number from {least}")
        return value

    return read


def _number(most: float) -> _Reader:
    def read(key: str, value: Any) -> float:
        if type(value) not in (int, float) or not 0 < value <= most:
            kind = f"a number above 0, at most {most:g}"
            raise _is_not(key, value, kind, f"give {kind}")
        return float(value)

    return read


def _choice(kind: str, names: Sequence[str]) -> _Reader:
    def read(key: str, value: Any) -> str:
        if value not in names:
            raise unknown_name(kind, _text(key, value), names)
        return str(value)

    return read


def _table(key: str, value: Any) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise _is_not(key, value, "a table", f"begin it with a line [{key}]")
    return value


def _tables(key: str, value: Any) -> Sequence[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
        raise UserError(f"{key} is not a list of tables", hint=f"begin each with a line [[{key}]]")
    return value


def _is_not(key: str, value: Any, kind: str, hint: str) -> UserError:
    return UserError(f"{key} is {value!r}, not {kind}", hint=hint)


_TOP: Mapping[str, _Reader] = {"target": _choice("target", TARGETS), "calibration": _table, "layer": _tables}
_RANGES: Mapping[str, _Reader] = {"percentile": _number(100), "constant": _number(1)}
_CALIBRATION: Mapping[str, _Reader] = {
    "data": _text,
    "samples": _whole(1),
    "seed": _whole(0),
    "method": _choice("method", METHODS),
    "exact": _flag,
    "preset": _choice("preset", PRESETS),
    "skip_bad": _flag,
    **_RANGES,
}
_LAYER: Mapping[str, _Reader] = {
    "match": _texts,
    "op": _texts,
    "format": _choice("format", ("float",)),
    "method": _choice("method for single layers", LAYER_METHODS),
    "amax": _number(_FLOAT32_MAX),
    "because": _text,
    **_RANGES,
}


def _config(path: Path, data: Mapping[str, Any]) -> Config:
    top = _read(data, _TOP, ())
    values = _read(top.get("calibration", {}), _CALIBRATION, ("calibration",))
    if "data" in values:
        values["data"] = path.parent / values["data"]
    layers = tuple(_layer(path, index, table) for index, table in enumerate(top.get("layer", ()), 1))
    return Config(path, top.get("target"), CalibrationTable(**values), layers)


def _layer(path: Path, index: int, table: Mapping[str, Any]) -> LayerRule:
    at = ("layer", index - 1)
    values = _read(table, _LAYER, at)
    sets = [key for key in ("format", "amax", "method", *_PARAMETERS) if key in values]
    if not sets:
        raise _At(at, f"[[layer]] {index} sets nothing", 'give format = "float", a method, or amax')
    if len(sets) > 1 and sets[0] in ("format", "amax"):
        raise _At(
            at, f"[[layer]] {index} sets {' and '.join(sets[:2])}, which exclude each other", "keep one"
        )
    for parameter, method in _PARAMETERS.items():
        if parameter in values and values.setdefault("method", method) != method:
            message = f"{parameter} is a parameter of method {method}, not of {values['method']}"
            raise _At((*at, parameter), message, "leave one of them out")
    if not values.keys() & {"match", "op"}:
        raise _At(at, f"[[layer]] {index} does not say which", 'give match = "/head/*", or op = "Softmax"')
    return LayerRule(**values, index=index, path=path)


def _read(
    table: Mapping[str, Any], readers: Mapping[str, _Reader], at: tuple[str | int, ...]
) -> dict[str, Any]:
    """The checked values of a table.

    Raises:
        _At: a key is unknown, or a value is wrong.
    """
    values = {}
    for key, value in table.items():
        try:
            if key not in readers:
                raise unknown_name("key", key, readers)
            values[key] = readers[key](key, value)
        except UserError as error:
            raise _At((*at, key), str(error), error.hint) from error
    return values


def _line(text: str, keys: Sequence[str | int]) -> int:
    """The line, from 1, where the statement begins that brings `keys` into the data of a TOML text.

    The first lines of a TOML text are one themselves, unless they end inside a value: what a line
    brings is what they hold with it and lack without it.
    """
    lines = text.split("\n")

    def parse(count: int) -> tuple[int, Mapping[str, Any]]:
        while True:
            try:
                return count, tomllib.loads("\n".join(lines[:count]))
            except tomllib.TOMLDecodeError:
                count -= 1

    last = bisect_left(range(len(lines)), True, key=lambda count: _holds(parse(count)[1], keys))
    return parse(last - 1)[0] + 1


def _holds(data: Any, keys: Sequence[str | int]) -> bool:
    try:
        for key in keys:
            data = data[key]
    except (KeyError, IndexError):
        return False
    return True

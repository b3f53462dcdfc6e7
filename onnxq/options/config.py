"""What the user writes into `onnxq.toml`: options, and what is different for some layers.

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

    [[deployment]]
    name = "decode"
    weight = 0.9
    profile = {ids = "1x1:1x1:1x1"}

The first `[[layer]]` that matches a node wins. A flag wins over the file, the file over the default. Which
options there are, and in which tables, is said by `settings.py`. What runs code is obeyed only in a file that
the user names: one that lies in the folder may have come with the model.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxq.base.errors import UserError, nearest, unknown_name
from onnxq.base.tables import At, Reader, choice, load, number, read_table, table, tables, text, texts, whole
from onnxq.options.exclusions import exclude
from onnxq.options.method import methods, parameters
from onnxq.options.option import FORMER, Option, of_today, read_options, some_of
from onnxq.options.parameters import StatedParameters, stated
from onnxq.options.settings import GROUPS, LAYER_METHODS, STEPS, Inputs

FILE = Path("onnxq.toml")
WEIGHT_METHODS = tuple(one.name for one in methods().values() if one.weights is not None)

_FLOAT32_MAX = 3.4e38


@dataclass(frozen=True, slots=True)
class LayerRule(StatedParameters):
    """What one `[[layer]]` says of the nodes it matches: one of `format`, `method`, `amax` and `repair`.

    The parameter of its method is a field (`percentile`); None: the model's, if that is of this method.

    Attributes:
        match: globs of node names, case-sensitive; empty: any name.
        op: regular expressions, one of which is to match all of the operator's name; empty: any.
        of: what has the range: the activations that the nodes read (`inputs`), or their `weights`.
        output: which output of the nodes has the range, from 0; None: `of` says what.
        format: `float`: the nodes stay in float.
        method: one of `LAYER_METHODS`, of `WEIGHT_METHODS` for weights.
        amax: the range, above 0; of weights, of all channels.
        repair: the steps that may change the nodes' layers; None: it does not say.
        because: why, for the report; or empty.
        index: its number in the file, from 1.
        kind: the name of its table.
        path: the file.
    """

    match: tuple[str, ...] = ()
    op: tuple[str, ...] = ()
    of: str = "inputs"
    output: int | None = None
    format: str | None = None
    method: str | None = None
    amax: float | None = None
    repair: tuple[str, ...] | None = None
    because: str = ""
    index: int = 1
    kind: str = "layer"
    path: Path = FILE

    def __post_init__(self) -> None:
        for name in stated(self):
            owner = parameters()[name].name
            if self.method not in (None, owner):
                why = f"{name} is of method {owner}"
                raise exclude(f"method {self.method}", name, f"in [[{self.kind}]] {self.index} {why}")
            object.__setattr__(self, "method", owner)

    def matches(self, name: str, op: str) -> bool:
        """Whether a node of this name and operator is meant."""
        named = not self.match or any(fnmatch.fnmatchcase(name, glob) for glob in self.match)
        return named and (not self.op or any(re.fullmatch(one, op) for one in self.op))

    @property
    def subject(self) -> tuple[str, int | None]:
        """What of the nodes it is about: rules about other things of one node do not exclude each other."""
        return ("repair", None) if self.repair is not None else (self.of, self.output)


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration file.

    Attributes:
        path: the file.
        options: what it says: values by the names of the fields, by group of `settings.GROUPS`.
        layers: what is different for some layers, in the order of the file.
    """

    path: Path
    options: Mapping[type, Mapping[str, Any]] = field(default_factory=dict)
    layers: tuple[LayerRule, ...] = ()

    def of(self, group: type) -> Mapping[str, Any]:
        """What it says of a group."""
        return self.options.get(group, {})


def find_config(explicit: Path | None) -> Config | None:
    """The configuration at a path; without one, that of the working directory, if it has one.

    Raises:
        UserError: see `load_config`.
    """
    path = explicit or (FILE if os.path.lexists(FILE) else None)
    return None if path is None else load_config(path, named=explicit is not None)


def load_config(path: Path, *, named: bool = True) -> Config:
    """Reads a configuration file.

    Args:
        path: the file.
        named: whether the user named it; what runs code is refused in any other.

    Raises:
        UserError: it cannot be read, is not TOML, or has an unknown key or a value that makes no sense.
    """
    return load(path, lambda data, _: _config(path, data, named))


def overrides(layers: Sequence[LayerRule], nodes: Iterable[tuple[str, str]]) -> dict[str, LayerRule]:
    """The first rule that matches each node, by node name; nodes that none matches are left out.

    Args:
        layers: the rules, of one subject.
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


def _patterns(key: str, value: Any) -> tuple[str, ...]:
    found = texts(key, value)
    for pattern in found:
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(
                f"{key} {pattern!r} is no regular expression: {error}",
                hint='write op = "Conv", or op = "Conv.*|Gemm"',
            ) from error
    return found


def _steps(key: str, value: Any) -> tuple[str, ...]:
    found = some_of("repair step", STEPS, ("none",)).of_file(key, value)
    return () if found == "none" else (found,) if isinstance(found, str) else tuple(found)


def parameter_readers() -> dict[str, Reader]:
    """What reads the parameters of methods where they stand beside a method."""
    return {name: number(one.parameter.most) for name, one in parameters().items() if one.parameter}


def settle_method(values: dict[str, Any], at: tuple[str | int, ...], whose: str = "") -> None:
    """Adds the method of a parameter that stands alone.

    Args:
        values: of a table; changed.
        at: the way to it.
        whose: what it is about, for messages: "tensor 'x': ".

    Raises:
        At: a parameter is of another method.
    """
    for name, owner in parameters().items():
        if name in values and values.setdefault("method", owner.name) != owner.name:
            message = f"{whose}{name} is a parameter of method {owner.name}, not of {values['method']}"
            raise At((*at, name), message, "leave one of them out")


LAYER_READERS: Mapping[str, Reader] = {
    "match": texts,
    "op": _patterns,
    "of": choice("kind of operand", ("inputs", "weights")),
    "output": whole(0),
    "format": choice("format", ("float",)),
    "method": choice("method for single layers", LAYER_METHODS),
    "amax": number(_FLOAT32_MAX),
    "repair": _steps,
    "because": text,
    **parameter_readers(),
}
"""What reads each key of a `[[layer]]`."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Whose a key is: a group, its field, and what the option says."""

    group: type
    name: str
    said: Option


@functools.cache
def _places() -> dict[str, dict[str, _Place]]:
    """The keys of each table; the table "" is the top of the file."""
    found: dict[str, dict[str, _Place]] = {"": {}}
    for group in GROUPS:
        for name, said in read_options(group).items():
            for place in said.tables:
                found.setdefault(place, {})[said.key] = _Place(group, name, said)
    for former, now in FORMER.items():
        for places in found.values():
            places.update({former: places[now]} if now in places else {})
    return found


def _config(path: Path, data: Mapping[str, Any], named: bool) -> Config:
    found: dict[type, dict[str, Any]] = {}

    def take(given: Mapping[str, Any], places: Mapping[str, _Place], at: tuple[str, ...]) -> None:
        readers = {key: place.said.kind.of_file for key, place in places.items()}
        for key, value in _read(given, readers, at).items():
            place = places[key]
            of_today(key)
            if place.said.runs_code and not named:
                raise At(
                    (*at, key),
                    f"{key} names code that is run: it is obeyed only in a file that --config names, and "
                    "this one was found in the folder",
                    f"--config {path}, if you trust it; or give {place.said.flag[-1]}",
                )
            if place.name in found.setdefault(place.group, {}):
                raise At((*at, key), f"{key} is given twice", f"{_elsewhere(key, at)}: keep one")
            found[place.group][place.name] = _beside(path, value) if place.said.kind.is_path else value

    places = _places()
    own = {name: table for name in places if name}
    readers = {key: place.said.kind.of_file for key, place in places[""].items()}
    checked = _read(data, {**readers, **own, "layer": tables, "deployment": tables}, ())
    take({key: data[key] for key in checked if key in readers}, places[""], ())
    for name in own:
        take(checked.get(name, {}), places[name], (name,))
    layers = tuple(_layer(path, index, one) for index, one in enumerate(checked.get("layer", ()), 1))
    for index, one in enumerate(checked.get("deployment", ())):
        _deploy(index, one, found.setdefault(Inputs, {}))
    return Config(path, found, layers)


def deployment_readers() -> dict[str, Reader]:
    """What reads each key of a `[[deployment]]`."""
    kinds = {key: _places()["inputs"][key].said.kind for key in ("batch", "profile")}
    readers = {key: kind.of_file for key, kind in kinds.items()}
    return {"name": text, "weight": number(_FLOAT32_MAX), **readers}


def _deploy(index: int, table: Mapping[str, Any], inputs: dict[str, Any]) -> None:
    """Adds what a `[[deployment]]` says to what is said of the inputs: by its name."""
    at = ("deployment", index)
    values = read_table(table, deployment_readers(), at)
    name, title = values.get("name", ""), f"[[deployment]] {index + 1}"
    if not name or "/" in name:
        why = f"has a slash in its name {name!r}" if name else "has no name"
        raise At(at, f"{title} {why}", 'give name = "decode"')
    if not values.get("profile") and "batch" not in values:
        raise At(at, f"{title} ({name}) says no size", 'give batch = "1:8:32", or profile')
    profiles, batches = dict(inputs.get("profiles", {})), inputs.get("batch", {})
    batches = dict(batches) if isinstance(batches, Mapping) else {"": batches}
    own = {f"{name}/{key}": profile for key, profile in values.get("profile", {}).items()}
    if name in batches or any(key.startswith(f"{name}/") for key in profiles):
        raise At((*at, "name"), f"deployment {name!r} is given twice", "give each a name of its own")
    inputs["profiles"] = {**profiles, **own}
    if "batch" in values:
        inputs["batch"] = {**batches, name: values["batch"]}
    if "weight" in values:
        inputs["profile_weights"] = {**inputs.get("profile_weights", {}), name: values["weight"]}


def _elsewhere(key: str, at: Sequence[str]) -> str:
    """The other tables that have a key, in words; "" where there are none."""
    others = [name for name, places in _places().items() if key in places and name not in at]
    return " or ".join(f"[{name}]" if name else "the top of the file" for name in others)


def _beside(path: Path, value: Any) -> Any:
    """A path, or several, relative to the folder of a file; a name stands for itself."""
    if isinstance(value, str):
        return value
    return path.parent / value if isinstance(value, Path) else tuple(path.parent / one for one in value)


def _layer(path: Path, index: int, table: Mapping[str, Any]) -> LayerRule:
    at = ("layer", index - 1)
    values = read_table(table, LAYER_READERS, at)
    sets = [key for key in ("format", "repair", "amax", "method", *parameters()) if key in values]
    if not sets:
        raise At(at, f"[[layer]] {index} sets nothing", 'give format = "float", a method, amax or repair')
    if len(sets) > 1 and sets[0] in ("format", "repair", "amax"):
        raise At(at, f"[[layer]] {index} sets {' and '.join(sets[:2])}, which exclude each other", "keep one")
    settle_method(values, at)
    if "output" in values and "of" in values:
        raise At((*at, "of"), f"[[layer]] {index} is of an output and of {values['of']}", "keep one")
    if sets[0] in ("format", "repair") and values.keys() & {"of", "output"}:
        said = "of" if "of" in values else "output"
        raise At((*at, said), f"[[layer]] {index}: {sets[0]} is of the node, not of its {said}", "keep one")
    if values.get("of") == "weights" and values.get("method", "mse") not in WEIGHT_METHODS:
        known = ", ".join(WEIGHT_METHODS)
        message = f"[[layer]] {index}: method {values['method']} is for activations"
        raise At((*at, "method"), message, f"for weights give {known}, or amax")
    if not values.keys() & {"match", "op"}:
        raise At(at, f"[[layer]] {index} does not say which", 'give match = "/head/*", or op = "Softmax"')
    return LayerRule(**values, index=index, path=path)


def _read(
    values: Mapping[str, Any], readers: Mapping[str, Reader], at: tuple[str | int, ...]
) -> dict[str, Any]:
    """The checked values of a table; a key that it does not have may belong into another one."""

    def unknown(key: str) -> UserError:
        other = _elsewhere(key, ()) if at[:1] != ("layer",) else ""
        error = unknown_name("key", key, readers)
        return UserError(str(error), hint=f"it belongs into {other}") if other else error

    return read_table(values, readers, at, unknown)

"""Targets: what a TensorRT version takes, as data: `targets/*.toml`, or a file of the user's.

A table says only in what it differs from the table that it is `like`: `unsupported` and `supported`
operators, what it `lacks` and `has`, `plugins` and `no_plugins`; `custom`, where it is given, replaces the
other's. `limits` are numbers, by the names that rules ask for: what it takes at most, and what its kernels
are made for. `formats` says what layers are quantized to, with the operators that have kernels of it.

`python -m benchmarks.parser_sources` compares tables with the sources of NVIDIA's parser, release by release.
`tests/targets/constructs.toml` says what releases take of constructs, each with its source.
"""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from onnxq.base import tables
from onnxq.base.errors import UserError, unknown_name

NAMES = (
    "tensorrt-7",
    "tensorrt-8.0",
    "tensorrt-8.2",
    "tensorrt-8.5",
    "tensorrt-8.6",
    "tensorrt-10",
    "tensorrt-11",
    "tensorrt-rtx",
)

DEFAULT = "tensorrt-11"

COMPILER = "tensorrt-rtx"
"""The one whose compiler can be installed here, and compiles without a GPU."""

Compiler = Literal["own", "generation", "none"]


@dataclass(frozen=True, slots=True)
class Target:
    """What one TensorRT version takes.

    Attributes:
        name: as in `--target`: one of `NAMES`, a release as `tensorrt-10.13`, or the path of the user's file.
        title: the product's name.
        unsupported: ONNX operators without an importer.
        custom: operators of other domains that it takes, as `domain.Operator`.
        plugins: the plugins of its own library (libnvinfer_plugin), by the names of their nodes' operators.
        own_plugins: the operators of plugins of the user's, as `Operator` or `domain.Operator`.
        advice: what to do about an operator that it does not take.
        lacks: features that it lacks, by the names that rules use.
        max_opset: the newest opset that it documents.
        explicit: whether it takes INT8 as Q/DQ pairs; older ones calibrate by themselves.
        cache: the first line of the calibration caches that it reads; None: it takes INT8 as Q/DQ pairs
            only. The algorithm is that of `trtexec --calib`.
        limits: the largest sizes that it takes, and the numbers of its kernels, by name.
        formats: the operators that multiply in a number format, by its name; the first one is what plans are
            made of where nothing else is said of a layer. From which sizes on that gains, limits say:
            `int8-rows`, `int8-channels`, ...
        types: the flags of trtexec and of Polygraphy that let it run the types of Q/DQ pairs; empty
            where none is needed.
        strongly_typed: whether it runs each tensor in the type that the file states; the builders of others
            choose by flags.
        scale_form: the form of weight scales that is best for it, of `onnxq.options.settings.SCALE_FORMS`.
        explains: whether its trtexec writes the layers of an engine into a file, and what each takes.
        tool: the command that builds its engines: `trtexec`, or what takes the same flags.
        compiler: what the compiler that can be installed here is to it: its `own`; one of its `generation`,
            which takes and refuses the same models; or `none` of either.
        miscomputes: what it, or one of its releases, is known to compute wrongly, without a word, by the
            names of checks: `miscomputes.toml`.
        since: the features and operators that it has from a later release on, each with that release.
        source: where the table is from.
    """

    name: str
    title: str
    unsupported: frozenset[str]
    custom: frozenset[str]
    plugins: frozenset[str]
    advice: Mapping[str, str]
    lacks: frozenset[str]
    max_opset: int
    source: str
    limits: Mapping[str, int] = field(default_factory=dict)
    formats: Mapping[str, Sequence[str]] = field(default_factory=dict)
    explicit: bool = True
    cache: str | None = None
    types: tuple[str, ...] = ()
    strongly_typed: bool = False
    scale_form: str = "per-channel"
    explains: bool = True
    tool: str = "trtexec"
    compiler: Compiler = "none"
    miscomputes: frozenset[str] = frozenset()
    since: Mapping[str, str] = field(default_factory=dict)
    own_plugins: frozenset[str] = frozenset()

    @property
    def is_compiled_here(self) -> bool:
        """Whether the compiler that can be installed here speaks for it."""
        return self.compiler != "none"

    def in_formats(self, names: Sequence[str]) -> Target:
        """The same, whose plans are made of some number formats; of none: of its first one.

        Raises:
            UserError: it multiplies in no such format.
        """
        for name in names:
            if name not in self.formats:
                having = [one.name for one in map(load_target, NAMES) if name in one.formats]
                best = DEFAULT if DEFAULT in having else having[-1]
                own = [f"--format {one}, or " for one in self.formats][:1]
                hint = "".join(own) + f"--target {best}"
                raise UserError(f"{self.title} multiplies nothing in {name}", hint=hint)
        asked = names or [*self.formats][:1]
        return replace(self, formats={name: ops for name, ops in self.formats.items() if name in asked})

    def with_plugins(self, names: Sequence[str]) -> Target:
        """The same, beside plugins of the user's for operators."""
        return replace(self, own_plugins=frozenset(names))

    def lacks_feature(self, name: str) -> bool:
        """Whether it lacks a feature or an operator, or computes a construct wrongly."""
        return name in self.lacks or name in self.unsupported or name in self.miscomputes


@functools.cache
def stated_features() -> frozenset[str]:
    """The features and operators that the table of some target names, as lacking, there or miscomputed."""
    keys = ("lacks", "has", "unsupported", "supported")
    entries = (table.get(key, ()) for table in map(_table, NAMES) for key in keys)
    return frozenset(name for names in (*entries, miscompute_table()) for name in names)


@functools.cache
def stated_limits() -> frozenset[str]:
    """The names of the limits that the table of some target states."""
    return frozenset(name for table in map(_table, NAMES) for name in table.get("limits", ()))


@functools.cache
def stated_formats() -> tuple[str, ...]:
    """The names of the number formats that the table of some target states."""
    return tuple(dict.fromkeys(name for table in map(_table, NAMES) for name in table.get("formats", ())))


@functools.cache
def with_plugin(name: str) -> tuple[Target, ...]:
    """The targets whose own library has a plugin, the oldest first; none for no plugin of TensorRT's."""
    return tuple(target for target in map(load_target, NAMES) if name in target.plugins)


def taken_from(what: str, target: Target) -> str:
    """The first release behind a target that has a feature or an operator, `11.2`; "" where none is known."""
    if not is_known(target.name) or target.name == COMPILER:
        return ""
    tables = [load_target(name) for name in NAMES if name != COMPILER]
    names = {one.name for one in tables} | {
        f"tensorrt-{first}" for one in tables for first in one.since.values()
    }
    for one in map(load_target, sorted(names, key=version_of)):
        later = version_of(one.name) > version_of(target.name)
        if later and not one.lacks_feature(what) and what not in one.since:
            return one.name.rpartition("-")[2]
    return ""


@functools.cache
def compiled_here() -> tuple[Target, ...]:
    """The targets for which the compiler speaks that can be installed here."""
    return tuple(target for target in map(load_target, NAMES) if target.is_compiled_here)


def load_target(name: str | os.PathLike[str]) -> Target:
    """The table of a target.

    Args:
        name: one of `NAMES`, a release, or the path of a file `X.toml` of the same form, which is `like` one
            of them.

    Raises:
        UserError: there is no such target, or the file cannot be read or makes no sense.
    """
    name = known_as(os.fspath(name))
    if is_known(name):
        return _known(name)
    if not name.endswith(".toml"):
        error = unknown_name("target", name, NAMES)
        raise UserError(str(error), hint=f"{error.hint}; or the path of a table of your own, X.toml")
    return tables.load(Path(name), lambda data, _: _target(name, _checked(data)))


_VERSION = re.compile(r"(?:tensor-?rt|trt)?[-_ ]*v?(rtx|\d+(?:\.\d+)*)(?:[-_ ]*[\d.]+)?", re.IGNORECASE)


def known_as(name: str) -> str:
    """The target of a version that is named otherwise, `10.13`, `trt11` or `TensorRT 8.6.1`; else the name.

    A release between two tables is named with its second number, `tensorrt-10.13`; of 8 alone it is not known
    which one. Of `jetpack-6.2` it is the release that the JetPack brings.

    Raises:
        UserError: what a JetPack brings is not known.
    """
    jetpack = re.fullmatch(r"(?:jetpack|jp)[-_ ]*v?([\d.]+)", name, re.IGNORECASE)
    if jetpack is not None:
        packs = device_table()["jetpack"]
        found = [one for one in packs if f"{jetpack[1]}.".startswith(f"{one}.")]
        if not found:
            near = [one for one in packs if one.startswith(f"{jetpack[1]}.")] or packs
            known = ", ".join(f"jetpack-{one}" for one in near)
            raise UserError(
                f"which TensorRT JetPack {jetpack[1]} brings is not known", hint=f"known: {known}"
            )
        return f"tensorrt-{packs[found[-1]]['tensorrt']}"
    said = _VERSION.fullmatch(name)
    if name in NAMES or said is None:
        return name
    if said[1].lower() == "rtx":
        return COMPILER
    release = f"tensorrt-{'.'.join(said[1].split('.')[:2])}"
    return release if is_known(release) else name


def is_known(name: str) -> bool:
    """Whether a name, as `known_as` gives it, is that of a target: of `NAMES`, or of a release."""
    return name in NAMES or _table_of(name) is not None


def _table_of(release: str) -> str | None:
    """The table of a release: the last one before it, of the same first number; None: there is none."""
    if not re.fullmatch(r"tensorrt-\d+(\.\d+)?", release):
        return None
    version = version_of(release)
    near = [one for one in NAMES if one != COMPILER and version_of(one)[0] == version[0]]
    near = [one for one in near if version_of(one) <= version or len(near) == 1]
    return near[-1] if near and (len(version) > 1 or len(near) == 1) else None


def version_of(name: str) -> tuple[int, ...]:
    """The numbers of a release, `tensorrt-10.13` or `10.13`."""
    return tuple(map(int, name.rpartition("-")[2].split(".")))


@functools.cache
def _known(name: str) -> Target:
    """One of `NAMES`; or a release, which has what came since its table, and not what comes later."""
    if name in NAMES:
        return _target(name, _table(name))
    base = _known(_table_of(name) or DEFAULT)
    since = {what: first for what, first in base.since.items() if version_of(first) > version_of(name)}
    gained, later = base.since.keys() - since.keys(), since.keys() - base.unsupported
    return replace(
        base, name=name, title=f"TensorRT {name.rpartition('-')[2]}", since=since,
        unsupported=base.unsupported - gained, lacks=base.lacks - gained | later,
        miscomputes=_miscomputed(name),
    )  # fmt: skip


def _target(name: str, data: Mapping[str, Any]) -> Target:
    """A target of its table."""
    base = _known(data["like"]) if "like" in data else None
    unsupported = set(base.unsupported) if base else set()
    unsupported |= set(data.get("unsupported", ()))
    unsupported -= set(data.get("supported", ()))
    lacks = (set(base.lacks) if base else set()) | set(data.get("lacks", ()))
    plugins = (set(base.plugins) if base else set()) | set(data.get("plugins", ()))
    return Target(
        name=name,
        title=data["title"],
        unsupported=frozenset(unsupported),
        custom=frozenset(data["custom"] if "custom" in data or base is None else base.custom),
        plugins=frozenset(plugins - set(data.get("no_plugins", ()))),
        advice={**(base.advice if base else {}), **data.get("advice", {})},
        lacks=frozenset(lacks - set(data.get("has", ()))),
        max_opset=data["max_opset"] if "max_opset" in data or base is None else base.max_opset,
        source=data["source"],
        limits={**(base.limits if base else {}), **data.get("limits", {})},
        formats=data.get("formats") or (base.formats if base else {}),
        explicit=data.get("explicit", base.explicit if base else True),
        cache=data.get("cache", base.cache if base else None),
        types=tuple(data.get("types", base.types if base else ())),
        strongly_typed=data.get("strongly_typed", base.strongly_typed if base else False),
        scale_form=data.get("scale_form", base.scale_form if base else "per-channel"),
        explains=data.get("explains", base.explains if base else True),
        tool=data.get("tool", base.tool if base else "trtexec"),
        compiler=data.get("compiler", base.compiler if base else "none"),
        miscomputes=_miscomputed(name)
        if name in NAMES
        else frozenset(data.get("miscomputes", _known(data["like"]).miscomputes)),
        since=data.get("since", {}),
    )


@functools.cache
def _table(name: str) -> dict[str, Any]:
    path = Path(__file__).with_name(f"{name}.toml")
    table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    return table


@functools.cache
def device_table() -> dict[str, Any]:
    """What is stated of devices, compute capabilities and JetPacks: `devices.toml`."""
    return tomllib.loads(Path(__file__).with_name("devices.toml").read_text("utf-8"))


@functools.cache
def dla_table() -> dict[str, Any]:
    """What the deep learning accelerator of Jetson takes: `dla.toml`."""
    return tomllib.loads(Path(__file__).with_name("dla.toml").read_text("utf-8"))


@dataclass(frozen=True, slots=True)
class Miscompute:
    """What releases compute wrongly, without a word.

    Attributes:
        since: the first release that does, `10.11`.
        seen: those that were seen to, in words.
        thread: the address of who says so.
        right: the first release that does not any more; "" where none is known.
    """

    since: str
    seen: str
    thread: str
    right: str = ""

    def is_of(self, version: tuple[int, ...]) -> bool:
        """Whether a release, or one of the releases of a generation, does."""
        is_later = version_of(self.since)[: len(version)] <= version
        return is_later and (not self.right or version < version_of(self.right))


@functools.cache
def miscompute_table() -> dict[str, Miscompute]:
    """What releases compute wrongly, by the names of checks: `miscomputes.toml`."""
    table = tomllib.loads(Path(__file__).with_name("miscomputes.toml").read_text("utf-8"))
    return {name: Miscompute(**row) for name, row in table.items()}


def _miscomputed(name: str) -> frozenset[str]:
    """What a release computes wrongly, or one of those that a table of a generation is of."""
    if name == COMPILER:
        return frozenset()
    return frozenset(what for what, one in miscompute_table().items() if one.is_of(version_of(name)))


# -- a file of the user's ---------------------------------------------------------------------------

_FORMS = ("per-channel", "post-scale", "per-tensor")
_READERS: Mapping[str, tables.Reader] = {
    "title": tables.text, "source": tables.text, "like": tables.choice("target", NAMES),
    "max_opset": tables.whole(7), "unsupported": tables.texts, "supported": tables.texts,
    "custom": tables.texts, "plugins": tables.texts, "no_plugins": tables.texts, "lacks": tables.texts,
    "has": tables.texts, "types": tables.texts, "explicit": tables.truth, "cache": tables.text,
    "strongly_typed": tables.truth, "scale_form": tables.choice("scale form", _FORMS),
    "explains": tables.truth, "tool": tables.text,
    "compiler": tables.choice("compiler", ("own", "generation", "none")), "miscomputes": tables.texts,
    "advice": tables.table, "limits": tables.table, "formats": tables.table,
    "since": tables.table,
}  # fmt: skip


def _checked(data: Mapping[str, Any]) -> dict[str, Any]:
    """The table of the user's file.

    Raises:
        tables.At: a value is of another kind, a name is not known, or it says not what it is like.
    """
    found = tables.read_table(data, _READERS, ())
    if "like" not in found:
        raise tables.At((), "it says not which target it is like", f'write like = "{DEFAULT}"')
    for key in ("lacks", "has"):
        for name in found.get(key, ()):
            if name not in stated_features():
                error = unknown_name("feature", name, sorted(stated_features()))
                raise tables.At((key,), str(error), error.hint)
    for name, limit in found.get("limits", {}).items():
        if name not in stated_limits() or type(limit) is not int:
            error = tables.is_not(name, limit, "a limit", f"known: {', '.join(sorted(stated_limits()))}")
            raise tables.At(("limits", name), str(error), error.hint)
    if "formats" in found:
        readers = dict.fromkeys(stated_formats(), tables.texts)
        found["formats"] = tables.read_table(found["formats"], readers, ("formats",))
    for name, advice in found.get("advice", {}).items():
        if not isinstance(advice, str):
            error = tables.is_not(name, advice, "a string", 'write it in quotes: "..."')
            raise tables.At(("advice", name), str(error), error.hint)
    return {"title": f"{_known(found['like']).title} as the user states it", "source": "the user",
            "since": _known(found["like"]).since, **found}  # fmt: skip

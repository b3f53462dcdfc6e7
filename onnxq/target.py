"""Targets: what a TensorRT version takes, as data (`targets/*.toml`).

A table says only in what it differs from the table that it is `like`: `unsupported` and `supported`
operators, what it `lacks` and `has`, `plugins` and `no_plugins`; `custom`, where it is given, replaces the
other's. `limits` are numbers, by the names that rules ask for: what it takes at most, and what its kernels
are made for.
"""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from onnxq.errors import unknown_name

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

SAME_PARSER = ("tensorrt-11", "tensorrt-rtx")
"""Those for which NVIDIA's compiler speaks that can be installed here: of its generation."""


@dataclass(frozen=True, slots=True)
class Target:
    """What one TensorRT version takes.

    Attributes:
        name: as in `--target`.
        title: the product's name.
        unsupported: ONNX operators without an importer.
        custom: operators of other domains that it takes, as `domain.Operator`.
        plugins: the plugins of its own library (libnvinfer_plugin), by the names of their nodes' operators.
        advice: what to do about an operator that it does not take.
        lacks: features that it lacks, by the names that rules use.
        max_opset: the newest opset that it documents.
        explicit: whether it takes INT8 as Q/DQ pairs; older ones calibrate by themselves.
        cache: the first line of the calibration caches that it reads; None: it takes INT8 as Q/DQ pairs
            only. The algorithm is that of `trtexec --calib`.
        limits: the largest sizes that it takes, and the numbers of its kernels, by name.
        types: the flags of trtexec and of Polygraphy that let it run the types of Q/DQ pairs; empty
            where none is needed.
        strongly_typed: whether it runs each tensor in the type that the file states; the builders of others
            choose by flags.
        scale_form: the form of weight scales that is best for it, of `onnxq.settings.SCALE_FORMS`.
        explains: whether its trtexec writes the layers of an engine into a file, and what each takes.
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
    explicit: bool = True
    cache: str | None = None
    types: tuple[str, ...] = ()
    strongly_typed: bool = False
    scale_form: str = "per-channel"
    explains: bool = True

    def lacks_feature(self, name: str) -> bool:
        """Whether it lacks a feature or an operator."""
        return name in self.lacks or name in self.unsupported


@functools.cache
def stated_features() -> frozenset[str]:
    """The features and operators that the table of some target names, as lacking or as there."""
    keys = ("lacks", "has", "unsupported", "supported")
    entries = (table.get(key, ()) for table in map(_table, NAMES) for key in keys)
    return frozenset(name for names in entries for name in names)


@functools.cache
def stated_limits() -> frozenset[str]:
    """The names of the limits that the table of some target states."""
    return frozenset(name for table in map(_table, NAMES) for name in table.get("limits", ()))


@functools.cache
def with_plugin(name: str) -> tuple[Target, ...]:
    """The targets whose own library has a plugin, the oldest first; none for no plugin of TensorRT's."""
    return tuple(target for target in map(load_target, NAMES) if name in target.plugins)


@functools.cache
def load_target(name: str) -> Target:
    """The table of a target.

    Raises:
        UserError: there is no such target.
    """
    if name not in NAMES:
        raise unknown_name("target", name, NAMES)
    data = _table(name)
    base = load_target(data["like"]) if "like" in data else None
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
        max_opset=data["max_opset"],
        source=data["source"],
        limits={**(base.limits if base else {}), **data.get("limits", {})},
        explicit=data.get("explicit", base.explicit if base else True),
        cache=data.get("cache", base.cache if base else None),
        types=tuple(data.get("types", base.types if base else ())),
        strongly_typed=data.get("strongly_typed", base.strongly_typed if base else False),
        scale_form=data.get("scale_form", base.scale_form if base else "per-channel"),
        explains=data.get("explains", base.explains if base else True),
    )


@functools.cache
def _table(name: str) -> dict[str, Any]:
    path = Path(__file__).resolve().parent / "targets" / f"{name}.toml"
    table: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
    return table

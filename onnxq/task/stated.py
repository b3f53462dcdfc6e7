"""The language of `--task`: `detect:boxes=0:4,scores=4:,cxcywh`, read into what was said of each part."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.base.errors import UserError, unknown_name

SOURCES: Mapping[str, tuple[str, ...]] = {
    "classify": ("scores",),
    "tokens": ("scores", "mask"),
    "spans": ("start", "end", "mask"),
    "segment": ("scores",),
    "detect": ("boxes", "scores", "objectness", "label"),
    "peaks": ("scores", "sizes", "offsets"),
    "selected": ("indices", "boxes"),
    "embed": ("vectors", "mask"),
    "points": ("points", "there"),
    "lines": ("scores",),
    "depth": ("map",),
    "flow": ("map",),
    "image": ("map",),
}
"""By task, what names outputs and their columns, the one that has to be there first; a mask is an input."""

_SETTINGS: Mapping[str, tuple[str, ...]] = {
    "segment": ("axis",),
    "detect": ("nms", "background", "power", "strides", "centre", "anchors"),
    "points": ("dims", "within"),
    "lines": ("blank",),
}

_WORDS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "classify": {"scores that decide": ("sigmoid", "logits")},
    "segment": {"channel": ("sigmoid", "logits")},
    "detect": {
        "form": ("xyxy", "yxyx", "cxcywh", "ltrb", "offsets", "anchored", "darknet", "priors"),
        "order": ("BNC", "BCN"),
        "activation": ("sigmoid", "softmax", "probabilities"),
        "rows": ("apart",),
    },
    "peaks": {"activation": ("sigmoid",), "size": ("direct", "exp"), "axes": ("rows-first",)},
    "selected": {"form": ("xyxy", "cxcywh")},
    "embed": {"pool": ("mean", "first")},
    "lines": {"order": ("BTC", "TBC")},
}
"""By task, words of which one of each kind may stand alone."""

_GRIDS = "strides=8+16+32"
ANCHORS = "10x13+16x30+33x23+30x61+62x45+59x119+116x90+156x198+373x326"

NAMED: Mapping[str, str] = {
    "yolov5": "boxes=0:4,objectness=4,scores=5:,cxcywh",
    "yolov8": "boxes=0:4,scores=4:,cxcywh,BCN",
    "yolox": "boxes=0:4,objectness=4,scores=5:,offsets,strides=8+16+32",
    "yolov5-raw": f"boxes=0:4,objectness=4,scores=5:,anchored,sigmoid,{_GRIDS},anchors={ANCHORS}",
    "yolov3-raw": f"boxes=0:4,objectness=4,scores=5:,darknet,sigmoid,{_GRIDS},anchors={ANCHORS}",
    "yolov10": "boxes=0:4,scores=4,label=5,xyxy,nms=off",
    "nanodet-plus": "boxes=-32:,scores=:-32,ltrb,centre=0,strides=8+16+32+64",
}
"""Layouts that have a name: what they stand for."""

TASKS = tuple(SOURCES)
_FORM = "TASK or TASK:LAYOUT, as in classify, or detect:boxes=0:4,scores=4:,cxcywh: onnxq help layout"


@dataclass(frozen=True, slots=True)
class StatedSource:
    """Outputs by name, and columns of them.

    Attributes:
        pattern: the name, or what fits the names of several (`cls_*`); "": the only output.
        start: the first column.
        stop: the column behind the last; None: to the end.
        text: what was said, which may be the name of an output that is a number.
    """

    pattern: str = ""
    start: int = 0
    stop: int | None = None
    text: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class StatedTask:
    """What a text says of a task.

    Attributes:
        text: the text.
        task: one of `TASKS`.
        sources: where its numbers stand, by what they are.
        words: words of a kind each: `form`, `order`, `activation`.
        settings: numbers and the like, by name, as texts.
    """

    text: str
    task: str
    sources: Mapping[str, StatedSource] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(text: str) -> StatedTask:
        """Reads a text.

        Raises:
            UserError: it is not understood.
        """
        task, _, rest = text.partition(":")
        if task not in TASKS:
            raise unknown_name("task", task, TASKS)
        first, _, more = rest.partition(",")
        if task == "detect" and first in NAMED:
            base, rest = StatedTask.of(f"detect:{NAMED[first]}"), more
            said = StatedTask._read(text, task, rest)
            return StatedTask(
                text, task, {**base.sources, **said.sources}, {**base.words, **said.words},
                {**base.settings, **said.settings},
            )  # fmt: skip
        return StatedTask._read(text, task, rest)

    @staticmethod
    def _read(text: str, task: str, rest: str) -> StatedTask:
        """What stands behind the task, without the name of a layout."""
        sources: dict[str, StatedSource] = {}
        words: dict[str, str] = {}
        settings: dict[str, str] = {}
        for part in rest.split(",") if rest else ():
            name, equals, value = part.partition("=")
            kind = name if equals else _kind_of(text, task, part)
            if kind in {**sources, **words, **settings}:
                raise _not_understood(text, f"{kind} is said twice")
            if equals and not value:
                raise _not_understood(text, f"{name!r} has no value")
            if not equals:
                words[kind] = part
            elif name in SOURCES[task]:
                sources[name] = _source(value)
            elif name in _SETTINGS.get(task, ()):
                settings[name] = value
            else:
                known = (*SOURCES[task], *_SETTINGS.get(task, ()))
                raise _not_understood(
                    text, f"there is no {name!r}", f"a {task} layout has {', '.join(known)}"
                )
        return StatedTask(text, task, sources, words, settings)

    def number(self, name: str, low: float, high: float) -> float | None:
        """A setting that is a number between two; None where it is not given.

        Raises:
            UserError: it is no such number.
        """
        given = self.settings.get(name)
        if given is None:
            return None
        try:
            found = float(given)
        except ValueError:
            found = float("nan")
        if not low <= found <= high:
            raise _not_understood(self.text, f"{name}={given} is no number from {low:g} to {high:g}")
        return found

    def sizes(self, name: str) -> tuple[tuple[float, float], ...]:
        """A setting that is widths and heights with "+" between them; none where it is not given.

        Raises:
            UserError: it is not.
        """
        given = self.settings.get(name)
        if given is None:
            return ()
        if not re.fullmatch(r"\d+(\.\d+)?x\d+(\.\d+)?(\+\d+(\.\d+)?x\d+(\.\d+)?)*", given):
            raise _not_understood(
                self.text, f"{name}={given} is no sizes", "give it as in anchors=10x13+16x30"
            )
        pairs = (one.split("x") for one in given.split("+"))
        return tuple((float(wide), float(high)) for wide, high in pairs)

    def whole(self, name: str) -> tuple[int, ...]:
        """A setting that is whole numbers with "+" between them; none where it is not given.

        Raises:
            UserError: it is not.
        """
        given = self.settings.get(name)
        if given is None:
            return ()
        if not re.fullmatch(r"-?\d+(\+\d+)*", given):
            raise _not_understood(self.text, f"{name}={given} is not whole", "give it as in strides=8+16+32")
        return tuple(map(int, given.split("+")))


def _source(value: str) -> StatedSource:
    """`OUTPUT`, `OUTPUT[0:4]`, or of the only output `0:4` or `4`."""
    sliced = re.fullmatch(r"(?:(.*)\[)?(-?\d*)(:?)(-?\d*)\]?", value)
    if sliced is None or value.endswith("]") != (sliced[1] is not None) or not (sliced[2] or sliced[3]):
        return StatedSource(value)
    name, first, colon, last = sliced.groups()
    start = int(first or 0)
    if not colon:
        return StatedSource(name or "", start, start + 1 if start != -1 else None, value)
    return StatedSource(name or "", start, int(last) if last else None, value)


def _kind_of(text: str, task: str, word: str) -> str:
    kinds = _WORDS.get(task, {})
    for kind, words in kinds.items():
        if word in words:
            return kind
    known = [word for words in kinds.values() for word in words]
    first = [*NAMED, *known] if task == "detect" else known
    raise _not_understood(
        text, f"{word!r} is no word of it", f"a {task} layout has {', '.join(first)}" if first else ""
    )


def _not_understood(text: str, why: str, hint: str = "") -> UserError:
    return UserError(f"--task {text!r} is not understood: {why}", hint=hint or f"the form is --task {_FORM}")

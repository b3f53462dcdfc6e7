"""What a run of a model may take, whose sizes nobody knows: bytes and seconds; who takes more is named.

On the user's data sizes are told by inference before anything is allocated (`onnxq.graph.tensor_sizes`). What
inference leaves open, and what runs on made-up input, has a bound of memory as it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import onnx

from onnxq.base import door
from onnxq.base.errors import OnnxqError, UserError
from onnxq.base.reason import noted
from onnxq.base.shown import size
from onnxq.graph.loops import loops
from onnxq.graph.spool import weight_bytes
from onnxq.graph.tensor_sizes import Outline, TensorSizes
from onnxq.graph.types import shape_text

LARGEST = 10**9
"""Bytes of the largest tensor of a run where nobody says (`largest`)."""
_TIMES = 64
"""A tensor may be so many times the sample larger: as much again at most. So may a run on made-up input."""
_OPEN = 2
"""What inference leaves open may together take so many of the largest tensor."""

_NOWHERE = 10**12
"""Bytes of a tensor that no machine holds."""

SECONDS = "ONNXQ_RUN_SECONDS"
"""The environment variable that states how long a model may run once on the user's data."""
_SECONDS, _LOOP_SECONDS, _MADE_UP_SECONDS = 600.0, 30.0, 5.0
"""The same where it states nothing; of a model that has a Loop, which may never end; on made-up input."""


class RunError(OnnxqError):
    """A model does not load or does not run; the message is that of what runs it."""

    exit_code = 2

    @property
    def is_about_types(self) -> bool:
        """Whether onnxruntime has no kernel for a type: of what it says, all else is about other things."""
        return re.search(r"Type Error: |NOT_IMPLEMENTED", str(self)) is not None


class Endless(RunError):
    """A run was stopped because it took too long."""


class Bounded(RunError):
    """A run on made-up input wanted more memory than it may have: that says nothing of the model."""


class OverBudget(UserError):
    """A run on the user's data would take more than it may."""


_made_up: ContextVar[bool] = ContextVar("whether input is made up", default=False)
_largest: ContextVar[int | None] = ContextVar("bytes of the largest tensor, as stated", default=None)


@contextmanager
def made_up() -> Iterator[None]:
    """Says that all input is made up meanwhile: what runs has bounds of memory, and a Loop fewer seconds."""
    token = _made_up.set(True)
    try:
        yield
    finally:
        _made_up.reset(token)


def is_made_up() -> bool:
    """Whether all input is made up now."""
    return _made_up.get()


@contextmanager
def largest(stated: int | None) -> Iterator[None]:
    """States how many bytes the largest tensor of a run may take; None: what `LARGEST` says, and more."""
    token = _largest.set(stated)
    try:
        yield
    finally:
        _largest.reset(token)


def stated_largest() -> int | None:
    """What was stated."""
    return _largest.get()


def made_up_bytes() -> int:
    """How many bytes a run on made-up input may take; as many again where its input is large."""
    return 2 * (_largest.get() or LARGEST)


def too_large(held: Mapping[str, int], how: str = "") -> str:
    """Why a sample is not made up; "" where it may be. What a run takes beside its input it computes.

    Args:
        held: how many bytes each of its tensors would take, by name.
        how: as what they take them.
    """
    most = made_up_bytes() // 4
    if sum(held.values()) <= most:
        return ""
    name, most_held = max(held.items(), key=lambda entry: entry[1])
    return noted("too-much-memory.made-up", tensor=name, size=size(most_held), how=how, most=size(most))


class Limits(NamedTuple):
    """What a run may take.

    Attributes:
        bytes: of memory; None: as many as there are, as all sizes are known.
        seconds: how long it may take; None: as long as it does, of small tensors, and on made-up input.
        is_large: whether what it makes is worth giving back when it ends; on made-up input it is given back,
            as nobody asks how large it is.
    """

    bytes: int | None
    seconds: float | None
    is_large: bool


class Budget:
    """What the runs of one model may take.

    Attributes:
        has_loop: whether there is a Loop in it.
    """

    def __init__(self, model: onnx.ModelProto) -> None:
        self._outline = Outline(model)
        self._loops = loops(model)
        self._weights = weight_bytes(model)
        self._known: dict[Any, TensorSizes] = {}

    @property
    def has_loop(self) -> bool:
        """Whether there is a Loop in it."""
        return bool(self._loops)

    def limits(self, feeds: Mapping[str, Any]) -> Limits:
        """What a run on these inputs may take.

        Raises:
            OverBudget: a tensor is too large.
        """
        given = _bytes(feeds)
        if _made_up.get():
            most = made_up_bytes() + min(_TIMES * given, made_up_bytes())
            return Limits(most, _MADE_UP_SECONDS if self._loops else None, True)
        sizes = self.check(feeds)
        large = sizes.bytes > LARGEST // 4
        seconds = float(door.stated(SECONDS) or (_LOOP_SECONDS if self._loops else _SECONDS))
        if not (sizes.open or self._loops):
            # one of small tensors has ended before a timer is worth it
            return Limits(None, seconds if sizes.bytes >= LARGEST // 1000 else None, large)
        return Limits(2 * sizes.bytes + _OPEN * self._most(feeds) + _TIMES * given, seconds, large)

    def loading_bytes(self) -> int | None:
        """How many bytes a model may take while it is loaded; None: as many as there are."""
        return made_up_bytes() + _TIMES * self._weights if _made_up.get() else None

    def late(self, seconds: float) -> OnnxqError:
        """The error of a run that was stopped after so many seconds, which nobody but this asked for."""
        why = f"it did not end in {seconds:.3g} s"
        if self._loops:
            why += f": the model has a Loop, {', '.join(map(repr, self._loops))}"
        if _made_up.get():
            return Endless(why)
        return OverBudget(
            f"the model runs on a sample, and {why}",
            hint=f"check what says how often it runs; {SECONDS}=3600 gives each sample an hour",
        )

    def short(self, feeds: Mapping[str, Any], said: str) -> OnnxqError:
        """The error of a run that did not get the memory that it asked for; `said`: by onnxruntime."""
        if not _made_up.get():
            asked = re.search(r"buffer of size (\d+)", said)
            more = self._most(feeds)
            more += int(asked[1]) if asked else more
            return OverBudget(f"a run wants more memory than it may have: {said}", hint=_hint(more))
        largest = self._sizes(feeds).largest
        if largest is None or largest.most < made_up_bytes() // 4:
            return Bounded("on made-up input it wants more memory than onnxq lets it have")
        return Bounded(f"on made-up input it wants more memory than onnxq lets it have: {largest}")

    def check(self, feeds: Mapping[str, Any]) -> TensorSizes:
        """The sizes of what is made for these inputs; runs on the user's data ask for them by themselves.

        Raises:
            OverBudget: a tensor is too large.
            Bounded: it is, and the input is made up.
        """
        sizes, most = self._sizes(feeds), self._most(feeds)
        made = sizes.beyond(most)
        if made is None:
            return sizes
        why = f"{made}, and a tensor may take {size(most)}"
        if _made_up.get():
            raise Bounded(f"{why} (largest raises that)")
        fed = ", ".join(f"{name} of {shape_text(tuple(x.shape))}" for name, x in _arrays(feeds))
        raise OverBudget(f"for {fed} {why}" if fed else why, hint=_hint((sizes.largest or made).most))

    def _most(self, feeds: Mapping[str, Any]) -> int:
        """The bytes that a tensor may take."""
        stated = _largest.get()
        if stated is not None:
            return stated
        given = _bytes(feeds) if feeds else self._outline.declared
        return LARGEST + min(_TIMES * given, LARGEST) + self._weights

    def _sizes(self, feeds: Mapping[str, Any]) -> TensorSizes:
        """The sizes for these inputs; inference is asked once where they are alike."""
        fed = dict(_arrays(feeds))
        key = tuple(
            (name, x.shape, x.tobytes() if x.ndim < 2 and x.size <= 16 else b"") for name, x in fed.items()
        )
        if key not in self._known:
            self._known[key] = self._outline.sizes(fed)
        return self._known[key]


def _arrays(feeds: Mapping[str, Any]) -> Iterable[tuple[str, np.ndarray]]:
    return ((name, x) for name, x in feeds.items() if isinstance(x, np.ndarray))


def _bytes(feeds: Mapping[str, Any]) -> int:
    return sum(int(getattr(x, "nbytes", 0)) for x in feeds.values())


def _hint(wanted: int) -> str:
    """What to do where so many bytes are wanted of a tensor."""
    least = -(-wanted // LARGEST) * LARGEST
    if least > _NOWHERE:
        return noted("too-much-memory.nowhere")
    return noted("too-much-memory.less", size=size(least).replace(" ", ""))

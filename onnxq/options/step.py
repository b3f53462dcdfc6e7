"""What a step of repair is, and which there are: a file of `onnxq/repair/steps/` each, or one of the user's.

The user's are named by the environment variable ONNXQ_STEPS: files, or folders of them, whose Python is run.
`--repair`, its help and `[[layer]]` are made of the names, so that files are read wherever options are: they
import what takes long inside of functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from onnxq.base.registry import of_package_and_user
from onnxq.base.user_code import CodeForm

VARIABLE = "ONNXQ_STEPS"
_LAST = 100
_FORM = CodeForm("repair step", "@step() def NAME(turn): ...", f"{VARIABLE}=FILE.py")


@dataclass(frozen=True, slots=True)
class Step:
    """A change that may bring the outputs nearer to the float model's; whether it does is measured.

    Attributes:
        name: what the user calls it.
        propose: what it would change, an `onnxq.repair.turn.Proposal`; of an `onnxq.repair.turn.Turn`.
        nothing: why there is nothing to change, where it proposes no draft.
        place: where it stands in the order; those of one place by name.
        goes_with: the steps without which it is not tried.
        even: whether it is for evenly spaced numbers only.
        there: whether there is something to do, as far as looking tells: a function of the model with the
            draft's edits and the draft, or its `module:name`. It runs nothing. None: looking tells nothing.
        edit: the class of its edits of the float model (`onnxq.quant.draft.edits.FloatEdit`), or its
            `module:name`; a dataclass whose `kind` is the step's name, as plan files have it. None: it edits
            none.
        fits: whether it fits something on samples.
        search: the runs of the model with which it searches before it proposes, about.
        reserved: whether runs are kept for it while others are tried: `always`; where `many` samples fit; or
            never, "".
        least_db: by so much the outputs are to be nearer; None: as for any step.
        ours: whether it came with onnxq.
    """

    name: str
    propose: Callable[..., Any]
    nothing: str = "there is nothing that it would change"
    place: int = _LAST
    goes_with: tuple[str, ...] = ()
    even: bool = False
    there: str | Callable[..., Any] | None = None
    edit: str | type[Any] | None = None
    fits: bool = False
    search: float = 0.0
    reserved: Literal["always", "many", ""] = ""
    least_db: float | None = None
    ours: bool = False


def step(**said: Any) -> Callable[[Callable[..., Any]], Step]:
    """Makes a function a step of its name; `said`: what `Step` says beside that."""
    return lambda propose: Step(propose.__name__, propose, **said)


@functools.cache
def steps() -> Mapping[str, Step]:
    """All steps by name, in the order in which they are tried.

    Raises:
        UserError: a file of the user's cannot be used.
    """
    return of_package_and_user("onnxq.repair.steps", Step, VARIABLE, _FORM, "step", ("auto", "none"))

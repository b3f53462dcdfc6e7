"""What a search is, and what runs them: one after another, each as if it had not been where it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from onnxq.base.errors import UserError, fault_of
from onnxq.base.reason import Reason, reason
from onnxq.base.time_limit import TimeIsUp
from onnxq.pipeline.state import RunRequest, RunState

Run = Callable[[RunRequest, RunState], RunState]


@dataclass(frozen=True, slots=True)
class ModelSearch:
    """A search for a better model, or for one that compiles.

    Attributes:
        name: of what.
        wanted: whether there is something to search for.
        run: the state with what was found.
        left_out: the state as it was, with a word on why nothing was searched for: of the code `late` or
            `fault`.
        needed: whether it runs although the time is up.
    """

    name: str
    wanted: Callable[[RunRequest, RunState], bool]
    run: Run
    left_out: Callable[[RunRequest, RunState, Reason], RunState]
    needed: bool = False


def searched(searches: Sequence[ModelSearch], request: RunRequest, state: RunState) -> RunState:
    """What searches come to, in their order; one that ends in a fault of ours is as if it had not been.

    Args:
        searches: they.
        request: what the run is asked for. When its time is up, the searches that are left are not begun.
        state: what the first one starts from.

    Raises:
        UserError: something that the user gave cannot be used.
    """
    limit = state.built.job.limit
    for search in searches:
        if not search.wanted(request, state):
            continue
        if limit.is_over and not search.needed:
            state = search.left_out(request, state, reason("late", limit=limit))
            continue
        try:
            state = search.run(request, state)
        except UserError:
            raise
        except TimeIsUp:
            state = search.left_out(request, state, reason("late", limit=limit))
        except Exception as error:
            why = reason("fault", fault=fault_of(error))
            state = search.left_out(request, state, why)
    return state

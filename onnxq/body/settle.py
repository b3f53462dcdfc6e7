"""What has to stay float32, found by running the body: where a tensor overflows, or loses what it says.

Float32 and the emulated body run on the same samples. Where a tensor is not finite any more, its producer and
its readers stay float32; where its SQNR falls while that of what it is computed from is fine, so does its
producer, with the producers of what that reads: what they round is what it amplifies. Then again, until all
outputs are as near as they are to be.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from onnxq.body.bounds import is_float32
from onnxq.body.convert import HalfBody, to_half
from onnxq.body.emulate import Loss, losses
from onnxq.body.formats import DTYPES, Kind, highest
from onnxq.graph.model import Model
from onnxq.graph.view import Tensor
from onnxq.graph.wiring import bodies, is_constant, reads
from onnxq.reason import Reason

FLOOR_DB = 20.0
"""The SQNR below which a tensor counts as lost, where what it is computed from is not."""

ROUNDS = 8
"""How often more may stay, at most."""

_STEP_DB = 3.0  # a node that loses less is not what costs an output its SQNR
_AT_ONCE = 8  # nodes that stay for the sake of an output, in a round


@dataclass(frozen=True, slots=True)
class Settled:
    """A body, and what running it showed.

    Attributes:
        body: the body.
        stays: what was asked to stay float32 and what had to, with reasons.
        outputs: how far each float output is from float32.
        found: the names of the nodes that had to stay, by round.
        reached: whether all outputs are finite and as near as they were to be.
    """

    body: HalfBody
    stays: Mapping[str, Reason]
    outputs: Mapping[str, Loss]
    found: tuple[tuple[str, ...], ...]
    reached: bool

    @property
    def sqnr_db(self) -> float:
        """The worst output's SQNR, dB."""
        return min((loss.sqnr_db for loss in self.outputs.values()), default=math.inf)


def settle(
    model: Model,
    kind: Kind,
    stays: Mapping[str, Reason],
    samples: Sequence[Mapping[str, np.ndarray]],
    *,
    needed_db: Mapping[str, float] | None = None,
    io: bool = False,
    masks: Collection[str] = (),
    masked: Collection[str] = (),
    rounds: int = ROUNDS,
    threads: int = 0,
) -> Settled:
    """The model in half precision, with as much float32 as its outputs need.

    Args:
        model: the float32 model, without Q/DQ pairs of a plan; it is not modified.
        kind: the type.
        stays: what stays float32 in any case.
        samples: feeds of the model; a few.
        needed_db: the SQNR that each output needs, by name.
        io: as in `to_half`.
        masks: as in `to_half`.
        masked: tensors that hold masked values, which are others in the body.
        rounds: how often more may stay.
        threads: threads inside an operator, 0 for all cores.

    Raises:
        RunError: the model does not run on the samples.
    """
    return _Settling(model, kind, samples, needed_db or {}, io, masks, masked, threads).run(stays, rounds)


class _Settling:
    def __init__(
        self,
        model: Model,
        kind: Kind,
        samples: Sequence[Mapping[str, np.ndarray]],
        needed: Mapping[str, float],
        io: bool,
        masks: Collection[str],
        masked: Collection[str],
        threads: int,
    ) -> None:
        self.model, self.kind, self.samples, self.needed = model, kind, samples, needed
        self.io, self.masks, self.masked, self.threads = io, masks, masked, threads
        self.proto = model.to_proto()
        self.producer = {t.name: node for node in model.graph.nodes for t in node.outputs if t.name}
        made = (t for node in model.graph.nodes for t in node.outputs)
        self.compared = {
            t.name: _bytes(Tensor(model, t)) for t in made if is_float32(t) and t.name not in masked
        }
        self.outputs = [t.name for t in model.graph.outputs if t.name in self.compared]
        self.losses: dict[str, Loss] = {}

    def run(self, stays: Mapping[str, Reason], rounds: int) -> Settled:
        stays = dict(stays)
        found: list[tuple[str, ...]] = []
        while True:
            body = to_half(self.model, self.kind, stays, io=self.io, masks=self.masks)
            proto = body.model.to_proto()
            outputs = self._measured(proto, self.outputs)
            reached = all(self._is_near(name, loss) for name, loss in outputs.items())
            if reached or len(found) == rounds:
                break
            self.losses = self._measured(proto, self.compared)
            more = self._more(body)
            if not more:
                break
            stays.update(more)
            found.append(tuple(more))
        return Settled(body, stays, outputs, tuple(found), reached)

    def _measured(self, proto: Any, names: Collection[str]) -> dict[str, Loss]:
        wanted = {name: self.compared[name] for name in names}
        return losses(
            self.proto, proto, wanted, self.samples, threads=self.threads, data_dir=self.model.data_dir
        )

    def _is_near(self, name: str, loss: Loss) -> bool:
        if loss.signal == 0:  # all zeros: there is nothing to be near to
            return not loss.beyond
        return loss.sqnr_db >= max(self.needed.get(name, FLOOR_DB), FLOOR_DB)

    # -- what stays -------------------------------------------------------------------------------

    def _more(self, body: HalfBody) -> dict[str, Reason]:
        """What has to stay beside what does: for what overflows, else for what is lost, else for outputs."""
        more: dict[str, Reason] = {}
        lost: dict[str, Reason] = {}
        drops: list[tuple[float, Any, str]] = []
        for name, loss in self.losses.items():
            node = self.producer[name]
            before = self._before(node)
            if loss.beyond and all(math.isfinite(db) or db > 0 for db in before):
                nodes = self._touching(name) if loss.amax > highest(self.kind) else [node]
                self._leave(body, more, nodes, self._overflow(name, loss))
            elif loss.signal and loss.sqnr_db < FLOOR_DB <= min(before, default=math.inf):
                why = self._fall("lost", name, loss, before)
                self._leave(body, lost, self._behind(body, node), why)
            elif loss.signal and math.isfinite(loss.sqnr_db):
                drops.append((min(before, default=math.inf) - loss.sqnr_db, node, name))
        if more or lost:
            return more or lost
        for drop, node, name in sorted(drops, key=lambda entry: -entry[0])[:_AT_ONCE]:
            if drop >= _STEP_DB:
                why = self._fall("accuracy", name, self.losses[name], self._before(node))
                self._leave(body, more, self._behind(body, node), why)
        return more

    def _before(self, node: Any) -> list[float]:
        """The SQNR of what a node reads, as far as it is compared."""
        return [self.losses[t.name].sqnr_db for t in reads(node) if t.name in self.losses]

    def _overflow(self, name: str, loss: Loss) -> Reason:
        dtype = DTYPES[self.kind]
        return Reason("overflow", f"{name!r} is not finite in {dtype} (up to {loss.amax:.3g} in float32)")

    def _fall(self, code: str, name: str, loss: Loss, before: Sequence[float]) -> Reason:
        least = min(before, default=math.inf)
        fine = f"from {least:.0f} " if math.isfinite(least) else ""
        return Reason(
            code, f"the SQNR of {name!r} falls {fine}to {loss.sqnr_db:.0f} dB in {DTYPES[self.kind]}"
        )

    def _touching(self, name: str) -> list[Any]:
        """The nodes that make and read a tensor."""
        node = self.producer[name]
        tensor = next(t for t in node.outputs if t.name == name)
        return [node, *tensor.outputs]

    def _behind(self, body: HalfBody, node: Any) -> list[Any]:
        """A node, and the nearest producers of what it reads that compute in half precision."""
        found, seen, stack = [node], {id(node)}, [node]
        while stack:
            for tensor in reads(stack.pop()):
                producer = self.producer.get(tensor.name) if not is_constant(tensor) else None
                if producer is None or id(producer) in seen:
                    continue
                seen.add(id(producer))
                found.append(producer)
                if not any(one.name in body.halved for one in _with_bodies(producer)):
                    stack.append(producer)
        return found

    def _leave(self, body: HalfBody, more: dict[str, Reason], nodes: Sequence[Any], why: Reason) -> None:
        for node in nodes:
            for one in _with_bodies(node):
                if one.name in body.halved:
                    more.setdefault(one.name, why)


def _with_bodies(node: Any) -> list[Any]:
    """A node and those of its bodies."""
    return [node, *(one for body in bodies(node) for inner in body.nodes for one in _with_bodies(inner))]


def _bytes(tensor: Tensor) -> int:
    """About how many bytes a tensor takes; an unknown dimension counts as 1."""
    return 4 * math.prod(dim if isinstance(dim, int) else 1 for dim in tensor.typical_shape or ())

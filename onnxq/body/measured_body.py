"""What has to stay float32, found by running the body: where a tensor overflows, or loses what it says.

Float32 and the emulated body run on the same samples. Where a tensor is not finite any more, its producer and
its readers stay float32; where its SQNR falls while that of what it is computed from is fine, so does its
producer, with the producers of what that reads: what they round is what it amplifies. Then again, as long as
there are such tensors. An output that is further from float32 than it is to be gets steps of the graph in
float32, as many as that takes, in front of it or from the inputs on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx

from onnxq.base.reason import Reason, reason
from onnxq.body.bounds import is_float32
from onnxq.body.convert import ConstantLosses, HalfBody, to_half
from onnxq.body.emulate import Tapped, losses, output_of, with_logits
from onnxq.body.formats import DTYPES, Kind, highest
from onnxq.graph.model import Model
from onnxq.graph.parts import tail_nodes, tail_of
from onnxq.graph.view import Node, Tensor
from onnxq.judge.policies import FLOOR_DB, SHORT_DB
from onnxq.judge.sqnr import Energy

ROUNDS = 8
"""How often more may stay, at most."""

# Of what stays for the sake of an output so many parts, and so many of the largest nodes, are tried in half
# precision again.
_PARTS = 6

_FEW = 8

_FIRST, _MORE = 4, 4
"""How many steps from either end are tried at first, and how many times as many where they do not do."""

SEARCHED = 2
"""With how many of the samples it is searched what has to stay: each trial runs them."""

_TRIALS = 24
"""How many bodies are tried, at most, to find the fewest nodes that have to stay for an output."""


@dataclass(frozen=True, slots=True)
class MeasuredBody:
    """A body, and what running it showed.

    Attributes:
        body: the body.
        stays: what was asked to stay float32 and what had to, with reasons: what to make the body of the same
            model with Q/DQ pairs with.
        outputs: how far each float output is from float32.
        found: the names of the nodes that had to stay, by round.
        reached: whether all outputs are finite and as near as they were to be.
    """

    body: HalfBody
    stays: Mapping[str, Reason]
    outputs: Mapping[str, Energy]
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
    proto: onnx.ModelProto | None = None,
    needed_db: Mapping[str, float] | None = None,
    io: bool = False,
    float32_io: Collection[str] = (),
    masks: Collection[str] = (),
    masked: Collection[str] = (),
    rounds: int = ROUNDS,
) -> MeasuredBody:
    """The model in half precision, with as much float32 as its outputs need.

    Args:
        model: the float32 model, without Q/DQ pairs of a plan; it is not modified.
        kind: the type.
        stays: what stays float32 in any case.
        samples: feeds of the model; a few. All say whether an output is near enough, and the `SEARCHED`
            hardest what has to stay for it.
        proto: the model, written; None: it is written here.
        needed_db: the SQNR that each output needs, by name, and its logits by theirs.
        io: as in `to_half`.
        float32_io: as in `to_half`.
        masks: as in `to_half`.
        masked: tensors that hold masked values, which are others in the body.
        rounds: how often more may stay.

    Raises:
        RunError: the model does not run on the samples.
    """
    proto = model.to_proto() if proto is None else proto
    constants = ConstantLosses(kind)

    def convert(part: Model, stays: Mapping[str, Reason], fed: Collection[str]) -> HalfBody:
        wide = {*float32_io, *fed}
        return to_half(part, kind, stays, io=io, float32_io=wide, masks=masks, constants=constants)

    return _Settling(model, proto, kind, samples, needed_db or {}, convert, masked).run(stays, rounds)


class _Settling:
    def __init__(
        self,
        model: Model,
        proto: onnx.ModelProto,
        kind: Kind,
        samples: Sequence[Mapping[str, np.ndarray]],
        needed: Mapping[str, float],
        convert: Convert,
        masked: Collection[str],
    ) -> None:
        self.model, self.kind, self.samples, self.needed = model, kind, samples, needed
        self.proto, self.convert = proto, convert
        self.producer = {t.name: node for node in model.nodes for t in node.outputs if t.name}
        made = (t for node in model.nodes for t in node.outputs)
        self.compared = {t.name: _bytes(t) for t in made if is_float32(t) and t.name not in masked}
        self.sizes = {
            node.name: sum(self.compared.get(t.name, 0) for t in node.outputs) for node in model.nodes
        }
        outputs = [t.name for t in model.outputs if t.name in self.compared]
        self.ends = with_logits(proto, outputs)
        self.losses: dict[str, Energy] = {}
        self.trials = 0
        self._last: tuple[dict[str, Reason], HalfBody, dict[str, Energy]] | None = None

    def run(self, stays: Mapping[str, Reason], rounds: int) -> MeasuredBody:
        stays = dict(stays)
        stayed: list[tuple[str, ...]] = []
        body, outputs = self._with(stays)
        while len(stayed) < rounds and not self._enough(outputs):
            trial = self._whole.hardest(body, self._far(outputs), SEARCHED)
            new = self._broken(body, trial.samples) or self._nearer(trial, body, stays, outputs)
            if not new:
                break
            stays.update(new)
            stayed.append(tuple(new))
            body, outputs = self._with(stays)
        reached = self._enough(outputs)
        # a quantized weight is no constant of the body any more, but as hard to hold
        stays.update((name, why) for name, why in body.stays.items() if why.code == "constant")
        outputs = {name: loss for name, loss in outputs.items() if output_of(name) == name}
        return MeasuredBody(body, stays, outputs, tuple(stayed), reached)

    def _tried(self, trial: BodyTrial, stays: Mapping[str, Reason]) -> tuple[HalfBody, dict[str, Energy]]:
        """The body in which some nodes stay, and how far outputs are from float32."""
        body = trial.body(stays)
        return body, trial.outputs(body)

    def _with(self, stays: Mapping[str, Reason]) -> tuple[HalfBody, dict[str, Energy]]:
        """The same of the whole model, on all samples; the last one is not tried again."""
        if self._last is None or self._last[0] != stays:
            self._last = dict(stays), *self._tried(self._whole, stays)
        return self._last[1:]

    @functools.cached_property
    def _whole(self) -> BodyTrial:
        """The trial of the whole model."""
        session = Tapped(self.proto, self.ends, self.model.data_dir)
        found = [session.run(feeds) for feeds in self.samples]
        wanted = {name: [values[place] for values in found] for place, name in enumerate(self.ends)}
        return BodyTrial(self.model, self.convert, self.samples, wanted, self.compared)

    def _is_near(self, name: str, loss: Energy, short_db: float = 0.0) -> bool:
        if loss.signal == 0:  # all zeros: there is nothing to be near to
            return not loss.beyond
        return loss.sqnr_db >= max(self.needed.get(name, FLOOR_DB) - short_db, FLOOR_DB)

    def _far(self, outputs: Mapping[str, Energy]) -> dict[str, Energy]:
        """Those that are not as near as they are to be."""
        return {name: loss for name, loss in outputs.items() if not self._is_near(name, loss)}

    def _enough(self, outputs: Mapping[str, Energy]) -> bool:
        """Whether nothing more stays for the outputs."""
        return all(self._is_near(name, loss, SHORT_DB) for name, loss in outputs.items())

    # -- what stays -------------------------------------------------------------------------------

    def _broken(self, body: HalfBody, samples: Sequence[Mapping[str, np.ndarray]]) -> dict[str, Reason]:
        """What has to stay because it overflows, else because it loses what it says."""
        self.losses = losses(
            self.proto,
            body.model.to_proto(),
            self.compared,
            samples,
            data_dir=self.model.data_dir,
        )
        beyond: dict[str, Reason] = {}
        lost: dict[str, Reason] = {}
        for name, loss in self.losses.items():
            node = self.producer[name]
            before = self._before(node)
            if loss.beyond and -math.inf not in before:
                nodes = self._touching(name) if loss.amax > highest(self.kind) else [node]
                self._leave(body, beyond, nodes, self._overflow(name, loss))
            elif loss.signal and loss.sqnr_db < FLOOR_DB <= min(before, default=math.inf):
                self._leave(body, lost, self._behind(body, node), self._fall(name, loss, before))
        return beyond or lost

    def _nearer(
        self, trial: BodyTrial, body: HalfBody, stays: Mapping[str, Reason], outputs: Mapping[str, Energy]
    ) -> dict[str, Reason]:
        """What stays so that all outputs are as near as they are to be: some steps from either end."""
        far = self._far(outputs)
        name, loss = min(far.items(), key=lambda entry: entry[1].sqnr_db)
        needed = max(self.needed.get(name, FLOOR_DB), FLOOR_DB)
        code = "accuracy" if output_of(name) == name else "accuracy.logits"
        why = reason(code, output=name, db=loss.sqnr_db, needed=needed)
        best: dict[str, Reason] = {}
        for back in (True, False):
            groups: list[dict[str, Reason]] = []
            for nodes in self._steps(far, back=back):
                group: dict[str, Reason] = {}
                self._leave(body, group, nodes, why)
                if best and len(_merged([*groups, group])) >= len(best):
                    break
                groups.append(group)
            fewest = self._fewest(trial, [group for group in groups if group], stays, outputs)
            if fewest and (not best or len(fewest) < len(best)):
                best = fewest
            if len(best) <= _FEW:  # the other end would hardly take fewer, or does not do either
                break
        return best

    def _fewest(
        self,
        trial: BodyTrial,
        groups: Sequence[dict[str, Reason]],
        stays: Mapping[str, Reason],
        outputs: Mapping[str, Energy],
    ) -> dict[str, Reason]:
        """As few of the first groups as suffice, without a part that need not; none where all do not.

        Args:
            trial: where they have to.
            groups: what stays together.
            stays: what stays in any case.
            outputs: how far the outputs are where nothing else does.
        """
        known: dict[frozenset[str], bool] = {}  # a part may be one node, which is tried by itself again
        whole = trial

        def suffices(chosen: Sequence[dict[str, Reason]]) -> bool:
            if self.trials >= _TRIALS and chosen is not groups:  # all together are tried in any case
                return False
            self.trials += 1
            more = _merged(chosen)
            names = frozenset(more)
            if names not in known:
                _, found = self._tried(trial, {**stays, **more})
                known[names] = all(map(self._is_near, found, found.values()))
            return known[names]

        low = high = 0  # too few, enough
        while low == high < len(groups):  # most often a few do
            count = max(_FIRST, _MORE * low) if self.trials < _TRIALS else len(groups)
            some = groups[:count] if count < len(groups) else groups
            high, trial = len(some), whole.behind(_merged(some), stays, outputs)
            low = low if suffices(some) else high
        if low == high:
            return {}
        while high - low > 1 and self.trials < _TRIALS:
            middle = (low + high) // 2
            if suffices(groups[:middle]):  # what is tried now is part of this
                high, trial = middle, trial.behind(_merged(groups[:middle]), stays, outputs)
            else:
                low = middle
        chosen = list(groups[:high])
        size = -(-high // _PARTS)
        for start in reversed(range(0, high, size)):
            rest = [group for group in chosen if group not in groups[start : start + size]]
            if rest and len(rest) < len(chosen) and suffices(rest):
                chosen = rest
        kept = _merged(chosen)
        for name in sorted(kept, key=lambda name: -self.sizes.get(name, 0))[:_PARTS]:
            rest_of = {other: why for other, why in kept.items() if other != name}
            if rest_of and suffices([rest_of]):
                kept = rest_of
        for more in (kept, _merged(chosen)):  # which may do for the hardest samples alone
            if len(self.samples) <= SEARCHED or self._enough(self._with({**stays, **more})[1]):
                return more
        return _merged(groups[:high])

    def _steps(self, outputs: Collection[str], *, back: bool) -> list[list[Node]]:
        """The nodes that outputs depend on, by their distance from these, or from where the graph begins."""
        nodes = dict.fromkeys(self.producer[output_of(name)] for name in outputs)
        levels, seen = [list(nodes)], set(nodes)
        while levels[-1]:
            behind = (self.producer.get(t.name) for node in levels[-1] for t in node.reads)
            level = dict.fromkeys(node for node in behind if node is not None and node not in seen)
            seen.update(level)
            levels.append(list(level))
        return levels if back else self._forward(seen)

    def _forward(self, wanted: set[Node]) -> list[list[Node]]:
        """Nodes by the number of nodes before them, at most."""
        depth: dict[Node | None, int] = {}
        levels: dict[int, list[Node]] = {}
        for node in self.model.nodes:
            makers = [self.producer.get(t.name) for t in node.reads]
            depth[node] = max((depth[maker] + 1 for maker in makers if maker in depth), default=0)
            if node in wanted:
                levels.setdefault(depth[node], []).append(node)
        return [levels[key] for key in sorted(levels)]

    def _before(self, node: Node) -> list[float]:
        """The SQNR of what a node reads, as far as it is compared."""
        return [self.losses[t.name].sqnr_db for t in node.reads if t.name in self.losses]

    def _overflow(self, name: str, loss: Energy) -> Reason:
        return reason("overflow", tensor=name, dtype=DTYPES[self.kind], amax=loss.amax)

    def _fall(self, name: str, loss: Energy, before: Sequence[float]) -> Reason:
        least = min(before, default=math.inf)
        code = "lost" if math.isfinite(least) else "lost.from-exact"
        return reason(code, tensor=name, before=least, db=loss.sqnr_db, dtype=DTYPES[self.kind])

    def _touching(self, name: str) -> list[Node]:
        """The nodes that make and read a tensor."""
        node = self.producer[name]
        return [node, *next(t for t in node.outputs if t.name == name).users]

    def _behind(self, body: HalfBody, node: Node) -> list[Node]:
        """A node, and the nearest producers of what it reads that compute in half precision."""
        behind, stack = {node: None}, [node]
        while stack:
            for tensor in stack.pop().reads:
                producer = self.producer.get(tensor.name) if not tensor.is_constant else None
                if producer is None or producer in behind:
                    continue
                behind[producer] = None
                if not any(one.name in body.halved for one in producer.with_bodies):
                    stack.append(producer)
        return [*behind]

    def _leave(self, body: HalfBody, reasons: dict[str, Reason], nodes: Sequence[Node], why: Reason) -> None:
        for node in nodes:
            for part in node.with_bodies:
                if part.name in body.halved:
                    reasons.setdefault(part.name, why)


def _merged(groups: Sequence[Mapping[str, Reason]]) -> dict[str, Reason]:
    return {name: why for group in groups for name, why in group.items()}


def _bytes(tensor: Tensor) -> int:
    """About how many bytes a tensor takes; an unknown dimension counts as 1."""
    return 4 * math.prod(dim if isinstance(dim, int) else 1 for dim in tensor.typical_shape or ())


# A body on trial: how far outputs are from float32 with it, of all nodes or of the last ones alone.
#
# Bodies that differ in some nodes compute the same in front of these. That is run once, and the nodes behind
# it are fed what it gives.

# Of the nodes so many at most are tried apart: to run what is in front of them takes as long as a trial.
_MOST = 3 / 4

_HUGE = 1e300  # noise of what is not finite

Convert = Callable[[Model, Mapping[str, Reason], Collection[str]], HalfBody]
"""Makes a body of a model: what stays float32, and inputs that do so whatever the others are."""


@dataclass(frozen=True, slots=True)
class BodyTrial:
    """What bodies are tried on.

    Attributes:
        model: the float32 model, or its tail; it is not modified.
        convert: makes a body of it.
        samples: feeds of it.
        wanted: what each output is to be, and its logits, for each sample.
        compared: float tensors of it that are the same in float32, but for rounding.
        fed: those that are inputs, which the body in front of it computes.
        rest: how far other outputs are, which it has nothing to do with.
        signal: what the power of each output counts as; None: what it is in the samples.
    """

    model: Model
    convert: Convert
    samples: Sequence[Mapping[str, np.ndarray]]
    wanted: Mapping[str, Sequence[np.ndarray]]
    compared: Collection[str]
    fed: frozenset[str] = frozenset()
    rest: Mapping[str, Energy] | None = None
    signal: Mapping[str, float] | None = None

    def body(self, stays: Mapping[str, Reason]) -> HalfBody:
        """The body in which some nodes stay float32."""
        return self.convert(self.model, stays, self.fed)

    def outputs(self, body: HalfBody) -> dict[str, Energy]:
        """How far each output is from float32.

        Raises:
            RunError: the body does not run.
        """
        energies = {name: Energy() for name in self.wanted}
        for place, values in enumerate(self._run(body)):
            for name, got in zip(energies, values, strict=True):
                energies[name].add(self.wanted[name][place], got)
        for name, energy in energies.items():
            energy.signal = (self.signal or {}).get(name, energy.signal)
        return energies | dict(self.rest or {})

    def _run(self, body: HalfBody) -> Iterator[list[np.ndarray]]:
        return map(Tapped(body.model.to_proto(), [*self.wanted], self.model.data_dir).run, self.samples)

    def hardest(self, body: HalfBody, names: Collection[str], count: int) -> BodyTrial:
        """That of so many samples, which make most of the noise of some outputs.

        The power of an output counts as their part of the noise: with this body it is as near as in all.

        Raises:
            RunError: the body does not run.
        """
        if len(self.samples) <= count:
            return self
        noise = np.zeros((len(self.samples), len(self.wanted)))
        signal = np.zeros(noise.shape)
        for place, values in enumerate(self._run(body)):
            for end, (name, got) in enumerate(zip(self.wanted, values, strict=True)):
                loss = Energy()
                loss.add(self.wanted[name][place], got)
                signal[place, end] = loss.signal
                noise[place, end] = math.inf if loss.beyond or loss.mismatched else loss.noise
        asked = np.array([name in names for name in self.wanted])
        power, tiny = signal.sum(axis=0), np.finfo(float).tiny
        shares = noise / np.maximum(power, tiny)
        worst = -np.where(asked, shares, 0.0).max(axis=1, initial=0.0)
        places = sorted(np.argsort(worst, kind="stable")[:count].tolist())
        wanted = {name: [values[place] for place in places] for name, values in self.wanted.items()}
        part = np.minimum(noise[places].sum(axis=0), _HUGE) / np.clip(noise.sum(axis=0), tiny, _HUGE)
        counted = dict(zip(self.wanted, (power * part).tolist(), strict=True))
        return replace(self, signal=counted, samples=[self.samples[place] for place in places], wanted=wanted)

    def behind(
        self, nodes: Collection[str], stays: Mapping[str, Reason], outputs: Mapping[str, Energy]
    ) -> BodyTrial:
        """That of what depends on some nodes, where all others are as in one body; itself where that is most.

        Args:
            nodes: their names.
            stays: what stays float32 in the body.
            outputs: how far its outputs are from float32.

        Raises:
            RunError: the body does not run.
        """
        depends = tail_nodes(self.model, nodes, self.compared)
        if len(depends) > _MOST * len(self.model.nodes):
            return self
        tail = tail_of(self.model, depends)
        inputs = [tensor.name for tensor in tail.inputs]
        given = {tensor.name for tensor in self.model.inputs}
        made = [name for name in inputs if name not in given]
        session = Tapped(self.body(stays).model.to_proto(), made, self.model.data_dir)
        samples = []
        for feeds in self.samples:
            own = {name: feeds[name] for name in inputs if name in given}
            samples.append(own | dict(zip(made, session.run(feeds), strict=True)))
        ends = {tensor.name for tensor in tail.outputs}
        wanted = {name: values for name, values in self.wanted.items() if output_of(name) in ends}
        fed = (self.fed | frozenset(made)).intersection(inputs)
        rest = {name: loss for name, loss in outputs.items() if name not in wanted}
        return replace(self, model=tail, samples=samples, wanted=wanted, fed=fed, rest=rest)

"""A body on trial: how far outputs are from float32 with it, of all nodes or of the last ones alone.

Bodies that differ in some nodes compute the same in front of these. That is run once, and the nodes behind it
are fed what it gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from onnxq.base.reason import Reason
from onnxq.body.convert import HalfBody
from onnxq.body.emulate import Tapped, output_of
from onnxq.graph.model import Model
from onnxq.graph.tail import tail_nodes, tail_of
from onnxq.judge.sqnr import Energy

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
        session = Tapped(body.model.to_proto(), [*self.wanted], self.model.data_dir)
        return map(session.run, self.samples)

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

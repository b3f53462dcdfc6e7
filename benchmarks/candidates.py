"""Candidates of one measuring copy against files of their own: cost, memory, and whether they are equal.

    python -m benchmarks.candidates [--nets resnet18,...] [--count 50] [--samples 4] [--small]

A candidate of a kind is drawn `--count` times: layers in float, scales of all groups, one layer in float, the
scale of one group. The copy runs all of them on each sample; a file of its own is built for some of each kind
(of the model with pairs, which is there: only what differs is written), loaded and run on the same samples.
Both compute in float. Costs are CPU time, the making of the copy included. Without optimizations, each
output of each candidate must be equal to that of its file, bit for bit.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from benchmarks import nets
from benchmarks.common import cpu_seconds, print_header, print_row
from benchmarks.nets.feeds import feeds as feeds_of
from onnxq.base.heap import steady_heap
from onnxq.graph.model import Model
from onnxq.graph.source import copy_model
from onnxq.graph.spool import weight_bytes
from onnxq.quant.insert import insert, set_scales
from onnxq.quant.measuring import Candidate, MeasuringCopy
from onnxq.quant.placement import make_plan
from onnxq.quant.wants import left_float
from onnxq.rule.load import load_rules
from onnxq.run import ort

GOAL = 1.0
FILES = 4  # of each kind
KINDS = ("layers", "scales", "one layer", "one scale")
NETS = ("resnet18", "mobilenet_v2", "vit_s16")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--nets", default=",".join(NETS))
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--here", action="store_true", help="in this process, of one net")
    given = parser.parse_args()
    if given.here:
        _Bench(given.nets, given.small, given.count, given.samples).run()
        return
    print_header()
    print(f"candidates: {given.count} of each kind on {given.samples} samples, copy / file of its own")
    for net in given.nets.split(","):  # each in a fresh process, for its peak of memory
        flags = ["--count", str(given.count), "--samples", str(given.samples), "--nets", net, "--here"]
        flags += ["--small"] if given.small else []
        subprocess.run([sys.executable, "-m", "benchmarks.candidates", *flags], check=True)


@dataclass
class _Bench:
    """A net."""

    name: str
    small: bool
    count: int
    samples: int

    def run(self) -> None:
        """Prints its rows."""
        steady_heap()
        proto = nets.NETS[self.name](small=self.small)
        self.feeds = list(feeds_of(self.name, 0, self.samples, small=self.small))
        self.model = Model.open(proto)
        self.plan = make_plan(self.model, load_rules(()))
        self.rng = np.random.default_rng(0)
        self.scales = self._scales()
        self.inserted = insert(self.model, self.plan, self.scales)
        self.floats, self.quantized = self.model.to_proto(), self.inserted.model.to_proto()
        kinds = {kind: list(self._candidates(kind)) for kind in KINDS}
        before = _new_peak()
        copies: list[MeasuringCopy] = []
        making = cpu_seconds(lambda: copies.append(self._made()))
        spent = {kind: cpu_seconds(lambda k=kind: self._run(copies[0], kinds[k])) for kind in kinds}
        grown = _peak() - before
        for kind, candidates in kinds.items():
            ours = (spent[kind] + making / len(kinds)) / self.count
            own = [cpu_seconds(lambda c=one: self._own(c)) for one in candidates[:: -(-self.count // FILES)]]
            theirs = float(np.mean(own))
            print_row(f"  {self.name}, {kind}", ours / theirs, GOAL, f"{ours:.3f} / {theirs:.3f} s")
        weights = weight_bytes(self.floats) / 2**20
        held = self._activations() / 2**20
        allowed = 2 * weights + held
        detail = f"{grown:.0f} / (2 x {weights:.0f} + {held:.0f}) MiB"
        print_row(f"  {self.name}, memory / weights twice, activations", grown / allowed, None, detail)
        self._compare([*kinds["layers"], *kinds["scales"]])

    def _made(self) -> MeasuringCopy:
        """The copy; all its sessions are made."""
        copy = MeasuringCopy(self.inserted, self.plan, self.quantized, self.floats)
        copy.run_each(self.feeds[0], [Candidate(), Candidate(self.plan.planned)])
        return copy

    def _run(self, copy: MeasuringCopy, candidates: list[Candidate]) -> None:
        for feeds in self.feeds:
            copy.run_each(feeds, candidates)

    def _file(self, candidate: Candidate) -> onnx.ModelProto:
        inserted, proto = self.inserted, copy_model(self.quantized)
        if candidate.float_layers:
            ops = {node.name: node.op for node in self.model.graph.nodes}
            plan = left_float(self.plan, dict.fromkeys(candidate.float_layers, "tried"), ops)
            inserted = insert(self.model, plan, self.scales)
            proto = inserted.model.to_proto()
        scales = {**self.scales, **candidate.scales}
        set_scales(proto, inserted.scales, {name: scales[name] for name in inserted.scales})
        return proto

    def _own(self, candidate: Candidate) -> None:
        session = ort.load(self._file(candidate), part=True)  # in float, as the copy
        for feeds in self.feeds:
            session.run(feeds)

    def _scales(self) -> dict[int, np.float32]:
        """Scales that fit: of the first sample."""
        groups = {s.group: s.tensor for s in self.plan.sites if s.kind == "activation"}
        probes = onnx.GraphProto()
        outputs = {tensor.name for tensor in self.model.graph.outputs}
        inputs = set(self.feeds[0])
        for name in sorted({*groups.values()} - outputs - inputs):
            probes.output.add(name=name)
        session = ort.load(self.model.to_proto(), optimize=False, probes=probes)
        values = dict(zip(session.outputs, session.run(self.feeds[0]), strict=True)) | self.feeds[0]
        return {g: np.float32(max(np.abs(values[t]).max(), 1e-3) / 127) for g, t in groups.items()}

    def _candidates(self, kind: str) -> Iterator[Candidate]:
        layers, groups = self.plan.planned, list(self.scales)
        for _ in range(self.count):
            if kind == "layers":
                yield Candidate([layer for layer in layers if self.rng.random() < 0.5])
            elif kind == "one layer":
                yield Candidate([layers[self.rng.integers(len(layers))]])
            else:
                chosen = groups if kind == "scales" else [groups[self.rng.integers(len(groups))]]
                other = {g: np.float32(self.scales[g] * self.rng.uniform(0.5, 1)) for g in chosen}
                yield Candidate(scales=other)

    def _activations(self) -> int:
        """The size of what every node gives for a sample, bytes."""
        names = [n for node in self.quantized.graph.node for n in node.output if n]
        known = {info.name for info in self.quantized.graph.output}
        probes = onnx.GraphProto(output=[onnx.ValueInfoProto(name=n) for n in names if n not in known])
        session = ort.load(self.quantized, optimize=False, probes=probes)
        return sum(np.asarray(values).nbytes for values in session.run(self.feeds[0]))

    def _compare(self, candidates: list[Candidate]) -> None:
        copy = MeasuringCopy(self.inserted, self.plan, self.quantized, self.floats, optimize=False)
        equal = 0
        found = copy.run_each(self.feeds[0], candidates)
        for ours, candidate in zip(found, candidates, strict=True):
            theirs = ort.load(self._file(candidate), optimize=False).run(self.feeds[0])
            equal += all(a.tobytes() == b.tobytes() for a, b in zip(ours, theirs, strict=True))
        print(
            f"  {self.name}: {equal} of {len(candidates)} candidates are their files', bit for bit",
            flush=True,
        )


def _status(field: str) -> float:
    """A size that Linux tells of this process, MiB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(field))) / 1024


def _new_peak() -> float:
    """Begins to look for the peak of resident memory anew; returns what is resident now, MiB."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what is free is not resident
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS:")


def _peak() -> float:
    """The peak of resident memory since then, MiB."""
    return _status("VmHWM:")


if __name__ == "__main__":
    main()

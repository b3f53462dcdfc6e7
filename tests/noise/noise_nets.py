"""Nets whose noise has a cause that is known, and what measures them."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "quant"))

from grid_nets import Net

from onnxq.graph.model import Model
from onnxq.noise.sources import Sources
from onnxq.quant.measuring import MeasuringCopy
from onnxq.quant.placement import make_plan
from onnxq.quant.scales import activation_scales
from onnxq.rule.load import load_rules
from onnxq.run import ort

RULES = load_rules(())
Feeds = dict[str, np.ndarray]


class Case:
    """A float model, its plan with scales of the greatest magnitudes, and samples."""

    def __init__(self, proto: onnx.ModelProto, samples: int = 12, seed: int = 0) -> None:
        self.model = Model.open(proto)
        self.plan = make_plan(self.model, RULES)
        rng = np.random.default_rng(seed)
        self.samples = [self._feeds(rng) for _ in range(samples)]
        self.copy = MeasuringCopy.of(self.model, self.plan, self._scales(proto))
        self.sources = Sources.of(self.plan)

    def _feeds(self, rng: np.random.Generator) -> Feeds:
        found = {}
        for one in self.model.inputs:
            size = [dim if isinstance(dim, int) else 2 for dim in one.shape or ()]
            assert one.dtype is not None
            found[one.name] = rng.standard_normal(size).astype(one.dtype)
        return found

    def _scales(self, proto: onnx.ModelProto) -> dict[int, np.float32]:
        wanted = list(self.plan.measured)
        tapped = onnx.ModelProto()
        tapped.CopyFrom(self.model.to_proto())
        known = {value.name for value in [*tapped.graph.output, *tapped.graph.input]}
        tapped.graph.output.extend(onnx.ValueInfoProto(name=name) for name in wanted if name not in known)
        session = ort.load(tapped)
        made = [name for name in wanted if name in session.outputs]
        amax = dict.fromkeys(wanted, 1e-6)
        for feeds in self.samples:
            found = dict(zip(made, session.run(feeds, made), strict=True)) | feeds
            for name in wanted:
                amax[name] = max(amax[name], float(np.abs(found[name]).max()))
        return activation_scales(self.plan, amax)


def dense(net: Net, x: str, into: int, out: int, size: int = 1, seed: int = 0, **attrs: object) -> str:
    """A convolution that keeps the variance, with a Relu behind it."""
    weights = np.random.default_rng(seed).standard_normal((out, into, size, size))
    weights /= np.sqrt(into * size * size / 2)
    pads = [size // 2] * 4
    return net.add("Conv", x, net.const(weights.astype(np.float32)), pads=pads, **attrs)


def scaled(net: Net, x: str, factors: np.ndarray) -> str:
    """Channels times factors: what is no layer, and stays in float."""
    return net.add("Mul", x, net.const(factors.reshape(1, -1, 1, 1).astype(np.float32)))


def outlier_channel() -> tuple[onnx.ModelProto, str]:
    """One channel is 300 times the others, and its reader undoes that."""
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=1))
    factors = np.ones(16)
    factors[3] = 300
    loud = net.add("Relu", scaled(net, x, factors))
    weights = np.random.default_rng(2).standard_normal((16, 16, 1, 1)) / np.sqrt(8)
    weights[:, 3] /= 300
    culprit = net.add("Conv", loud, net.const(weights.astype(np.float32)))
    y = net.add("Relu", culprit)
    y = net.add("Relu", dense(net, y, 16, 32, 3, seed=3))
    return net.model(dense(net, y, 32, 16, 1, seed=4)), culprit


def bimodal() -> tuple[onnx.ModelProto, str]:
    """A tensor of small values beside few that are 100 times as great, where the small ones say all."""
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=11))
    rare = net.add("Mul", net.add("Sigmoid", scaled(net, x, np.full(16, 8.0))), x)
    corner = np.zeros((1, 1, 8, 8), np.float32)
    corner[..., 0, 0] = 100
    both = net.add("Relu", net.add("Add", rare, net.const(corner)))
    culprit = net.add("Conv", both, net.const(_kernel(16, 16, 12)))
    inner = np.ones((1, 1, 8, 8), np.float32)
    inner[..., 0, 0] = 0
    y = net.add("Relu", net.add("Mul", culprit, net.const(inner)))
    y = net.add("Relu", dense(net, y, 16, 32, 3, seed=13))
    return net.model(dense(net, y, 32, 16, 1, seed=14)), culprit


def uneven_concat() -> tuple[onnx.ModelProto, str]:
    """A Concat of two tensors, 1000 to 1, whose reader makes them alike."""
    net = Net(1, 16, 8, 8)
    one = net.add("Relu", scaled(net, dense(net, "x", 16, 16, 3, seed=21), np.full(16, 1000.0)))
    other = net.add("Relu", dense(net, "x", 16, 16, 3, seed=22))
    cat = net.add("Concat", one, other, axis=1)
    weights = _kernel(32, 16, 23)
    weights[:, :16] /= 1000
    culprit = net.add("Conv", cat, net.const(weights))
    y = net.add("Relu", culprit)
    y = net.add("Relu", dense(net, y, 16, 32, 3, seed=24))
    return net.model(dense(net, y, 32, 16, 1, seed=25)), culprit


def before_shared_pool() -> tuple[onnx.ModelProto, tuple[str, str]]:
    """What is rounded badly is in front of a MaxPool that two convolutions read."""
    net = Net(1, 16, 8, 8)
    x = net.add("Relu", dense(net, "x", 16, 16, 3, seed=31))
    factors = np.ones(16)
    factors[5] = 300
    loud = net.add("Relu", scaled(net, x, factors))
    pool = net.add("MaxPool", loud, kernel_shape=[2, 2], strides=[2, 2])
    readers = []
    for seed in (32, 33):
        weights = _kernel(16, 16, seed)
        weights[:, 5] /= 300
        readers.append(net.add("Conv", pool, net.const(weights)))
    y = net.add("Relu", net.add("Concat", *readers, axis=1))
    y = net.add("Relu", dense(net, y, 32, 32, 3, seed=34))
    return net.model(dense(net, y, 32, 16, 1, seed=35)), (readers[0], readers[1])


def _kernel(into: int, out: int, seed: int) -> np.ndarray:
    weights = np.random.default_rng(seed).standard_normal((out, into, 1, 1)) / np.sqrt(into / 2)
    return weights.astype(np.float32)

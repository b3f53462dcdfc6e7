"""Small nets whose weights and values lie exactly on int8 grids."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Net:
    """A model, node by node; each method returns its output's name."""

    def __init__(self, *shape: int, name: str = "x") -> None:
        self.graph = onnx.GraphProto(name="net")
        self._count = 0
        self.input(name, *shape)

    def input(self, name: str, *shape: int) -> str:
        self.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def const(self, values: np.ndarray, name: str = "") -> str:
        name = name or f"k{len(self.graph.initializer)}"
        self.graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def add(self, op: str, *inputs: str, outputs: int = 1, name: str = "", **attrs: object) -> str:
        self._count += 1
        name = name or f"{op.lower()}{self._count}"
        outs = [name] if outputs == 1 else [f"{name}_{i}" for i in range(outputs)]
        self.graph.node.append(helper.make_node(op, inputs, outs, name=name, **attrs))
        return outs[0]

    def weights(self, out: int, *rest: int, seed: int = 0, steps: int = 3) -> np.ndarray:
        """[out, *rest]: two nonzeros an output channel, of magnitude 1, 1/2, ... (`steps`) by channel."""
        rng = np.random.default_rng(seed)
        flat = np.zeros((out, int(np.prod(rest))), np.float32)
        for channel in range(out):
            at = rng.choice(flat.shape[1], 2, replace=False)
            flat[channel, at] = np.float32(0.5 ** (channel % steps)) * np.array([1, -1], np.float32)
        return flat.reshape(out, *rest)

    def conv(
        self, x: str, cin: int, cout: int, *kernel: int, seed: int = 0, steps: int = 3, **attrs: object
    ) -> str:
        weight = self.const(self.weights(cout, cin, *kernel, seed=seed, steps=steps))
        pads = [k // 2 for k in kernel] * 2
        return self.add("Conv", x, weight, **{"pads": pads, **attrs})

    def model(self, *outputs: str, opset: int = 17) -> onnx.ModelProto:
        for name in outputs:
            self.graph.output.add(name=name)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(self.graph, opset_imports=opsets, ir_version=8)
        return onnx.shape_inference.infer_shapes(model)

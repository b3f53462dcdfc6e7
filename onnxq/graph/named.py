"""What a model has of what flags name: inputs, dimensions, nodes and tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from onnxq.graph.model import Model
from onnxq.graph.view import every_node


def named(model: Model) -> Mapping[str, Callable[[str], bool]]:
    """By flag, whether a model has what a value of it names; a value without a name stands for any."""
    inputs = {tensor.name for tensor in model.inputs}
    symbols = model.dim_symbols()
    names = {
        name for node in every_node(model) for name in (node.name, *(tensor.name for tensor in node.outputs))
    }

    def before_sign(known: set[str]) -> Callable[[str], bool]:
        def has(value: str) -> bool:
            name, sign, _ = value.rpartition("=")
            return not sign or name in known or (name.isupper() and len(name) > 3)  # NAME=VALUE, say

        return has

    return {
        "--freeze": before_sign(inputs),
        "--shape": before_sign(inputs),
        "--assume": before_sign(symbols),
        "--around": names.__contains__,
    }

"""What an engine moves, predicted from shapes: what a step of repair costs, before anything is compiled.

A product, a pool, a softmax has a kernel of its own. What is computed element by element runs at the end of the
kernel whose result nobody else reads; what several such give that meet in a Concat is one kernel. Reshapes and
other Concats move nothing. A tensor that leaves its kernel is written once for each type in which it is read,
and read by each kernel that reads it: a byte an element where a pair stands in between, else two.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from onnxq.base.joined import Joined
from onnxq.graph.elementwise import ELEMENTWISE
from onnxq.graph.model import Model
from onnxq.graph.moves import REARRANGES
from onnxq.graph.types import is_float
from onnxq.graph.view import Node, Tensor, main_nodes
from onnxq.quant.plan import QuantPlan

_CODES, _HALF, _WHOLE = 1, 2, 4  # bytes of an element: int8, of the body, of inputs and outputs


def engine_bytes(model: Model, plan: QuantPlan) -> int | None:
    """The bytes that an engine moves in a run, its weights included, about; None where sizes are not known.

    Args:
        model: the float model, with its edits.
        plan: what is quantized in it; an empty one: plain float16.
    """
    return _Kernels(model, plan).bytes

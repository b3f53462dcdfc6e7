"""What rule files import: the whole vocabulary of a rule, and nothing else of onnxq."""

from onnxq.graph.elements import known_elements
from onnxq.graph.fold import computed, evaluate, is_computed, probe, replaced_bytes
from onnxq.graph.functions import function_body
from onnxq.graph.layers import Layer, layer_of
from onnxq.graph.moves import MOVES, REARRANGES
from onnxq.graph.pairs import Pair
from onnxq.graph.statements import deciding_operands
from onnxq.graph.types import is_float, is_static, limits
from onnxq.graph.value import RANDOM, exact_product, float32_only, inline, op, remake
from onnxq.graph.view import Body, Node, Tensor, Value
from onnxq.rule.api import (
    STATED,
    Assuming,
    Close,
    Except,
    Fires,
    Float,
    Follow,
    Interface,
    Quantize,
    Read,
    Skip,
    Skips,
    Together,
    Within,
    constant,
    made_by,
    operands,
    place,
    required,
    rule,
)

__all__ = [
    "MOVES",
    "RANDOM",
    "REARRANGES",
    "STATED",
    "Assuming",
    "Body",
    "Close",
    "Except",
    "Fires",
    "Float",
    "Follow",
    "Interface",
    "Layer",
    "Node",
    "Pair",
    "Quantize",
    "Read",
    "Skip",
    "Skips",
    "Tensor",
    "Together",
    "Value",
    "Within",
    "computed",
    "constant",
    "deciding_operands",
    "evaluate",
    "exact_product",
    "float32_only",
    "function_body",
    "inline",
    "is_computed",
    "is_float",
    "is_static",
    "known_elements",
    "layer_of",
    "limits",
    "made_by",
    "op",
    "operands",
    "place",
    "probe",
    "remake",
    "replaced_bytes",
    "required",
    "rule",
]

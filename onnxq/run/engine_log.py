r"""The layers of an engine, read from NVIDIA's verbose build log.

The engine inspector needs a GPU driver; the log does not. With profiling verbosity DETAILED the
compiler ends a build with one message, a line for each layer:

    Layers:
    Name: c_myl0_1, LayerType: correlation, Inputs: [ { Name: x, Dimensions: [1,8,4,4],
    Strides: [...], StrideOrder: [...], Datatype: Int8, Format: (NHWC) ... }], Constants: [...],
    Outputs: [...], TacticName: ..., StreamId: 0, Metadata: [ONNX Layer: c]\x1f[ONNX Layer: relu]

Names stand there without quotes, so that an ONNX name such as `a, LayerType: b` makes the line
ambiguous. Therefore whoever builds the engine gives the compiler escaped names (`escape`), and
`parse_layers` takes back what it reads (`restore`). What the grammar below does not cover is an
error, never a guess; but for the name of a datatype, which stands where nothing else can: one that is
not known is that tensor's alone (`unknown`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from onnxq.base.errors import Fault
from onnxq.base.plain import DocumentPart
from onnxq.run.product_shapes import Product, attention_places, operands

# The compiler's spelling of a datatype, and ours. A product of operands of different types counts
# as the later one here (the compiler converts the other): never int8 unless every operand is.
_PRECISIONS = {
    "Int8": "int8",
    "UInt8": "uint8",
    "Int4": "int4",
    "UInt4": "uint4",
    "FP4": "fp4",
    "FP4E2M1": "fp4",
    "E8M0": "e8m0",
    "FP8UE8M0": "e8m0",
    "Bool": "bool",
    "FP8": "fp8",
    "FP8E4M3": "fp8",
    "Int32": "int32",
    "Int64": "int64",
    "Half": "fp16",
    "BFloat16": "bf16",
    "Float": "fp32",
}
_WIDTH = {precision: rank for rank, precision in enumerate(dict.fromkeys(_PRECISIONS.values()))}
_UNKNOWN = "unknown: "

# Layers that multiply matrices: library kernels by their type, generated kernels by the operations
# in their name (`__myl_CastMulFcAdd_myl0_3` is Cast, Mul, Fc, Add), fused attention by its name.
_MATRIX_KINDS = frozenset({"correlation", "deconv", "gemm"})
_MATRIX_OPS = frozenset({"Corr", "Deco", "Fc"})
_ATTENTION = "_gemm_mha"
_FUSED = re.compile(r"__myl_((?:[A-Z][a-z0-9]*_?)+)_myl\d+_\d+")


@dataclass(frozen=True, slots=True)
class EngineTensor(DocumentPart):
    """A tensor that an engine layer reads or writes.

    Attributes:
        name: the ONNX tensor's name, or one that the compiler made.
        dtype: "int8", "fp8", "fp16", "bf16", "fp32", "int32", "int64", "bool", "uint8", "int4", "uint4",
            "fp4", "e8m0"; "unknown: X" where the compiler calls it X and that is none of those.
        shape: its dimensions, -1 where dynamic.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class EngineLayer(DocumentPart):
    """A layer of an engine, usually one kernel.

    Attributes:
        name: the compiler's name for it.
        kind: the compiler's layer type, such as "correlation" (convolution), "gemm" or "kgen"
            (generated).
        precision: for a layer that multiplies matrices, the type in which it multiplies: "int8"
            only where both activation and weights are int8; for the others the type of the first
            output; None where there is none.
        inputs: what it reads.
        constants: the weights that it holds.
        outputs: what it writes.
        nodes: names of the ONNX nodes that it runs, or runs a part of; `node_of_<output>` for a
            node without a name.
        tactic: the kernel, where the compiler names it.
    """

    name: str
    kind: str
    precision: str | None
    inputs: tuple[EngineTensor, ...]
    constants: tuple[EngineTensor, ...]
    outputs: tuple[EngineTensor, ...]
    nodes: tuple[str, ...]
    tactic: str

    @property
    def is_matrix(self) -> bool:
        """Whether the layer is a convolution, a matrix product, or fused attention."""
        return self.kind in _MATRIX_KINDS or is_attention(self.name) or bool(matrix_operations(self.name))

    def multiplies(self, format: str) -> bool:
        """Whether the layer multiplies numbers of a format (a kernel that only writes them does not)."""
        return self.is_matrix and self.precision == format


def dtype_of(spelling: str) -> str:
    """Our name of a datatype that the compiler spells so; "unknown: X" where X is none that we know."""
    return _PRECISIONS.get(spelling, _UNKNOWN + spelling)


def is_unknown(dtype: str) -> bool:
    """Whether a datatype is one that the compiler names and we do not know."""
    return dtype.startswith(_UNKNOWN)


# --- names ----------------------------------------------------------------------------------------

_UNSAFE = re.compile(r"[^\x20-\x7e]|[,{}\[\]~]")
_ESCAPED = re.compile(r"~([0-9a-f]+)~")


def escape(name: str) -> str:
    """A name without the characters that separate fields in the log; most stay as they are."""
    return _UNSAFE.sub(lambda char: f"~{ord(char[0]):x}~", name)


def restore(text: str) -> str:
    """Undoes `escape`, for each name inside a text."""
    return _ESCAPED.sub(lambda code: chr(int(code[1], 16)), text)


# A node of a subgraph or a local function is followed by where it stands: `conv | body (Loop)`.
_FRAMES = re.compile(r"(?: \| [^|]*\([^|()]*\))+\Z")


# --- grammar --------------------------------------------------------------------------------------

_TEXT = re.compile(r"[^,{}\n]*")
_INTEGER = re.compile(r"\d+")
_INTEGERS = re.compile(r"\[(?:-?\d+(?:, ?-?\d+)*)?\]")
_FORMAT = re.compile(r"[^{}\n]*?(?= ?\})")
_KEY = re.compile(r"([A-Za-z]+\d*): ?")
_SEPARATOR = "\x1f"  # between the nodes of a layer
# A node that the compiler makes something else of has a suffix: `[ONNX Layer: c]__gemm_from_conv1x1`.
_NODE = re.compile(r"\[ONNX Layer: ([^\[\]]*)\](?:__\w+)?")

_TENSOR_LISTS = ("Inputs", "Constants", "Outputs")
# Each field of a layer and the form of its value. The last three describe a copy of shape values
# to the GPU, which is the compiler's own layer and has fewer fields than a kernel.
_FIELDS = {
    "Name": _TEXT,
    "LayerType": _TEXT,
    "TacticName": _TEXT,
    "StreamId": _INTEGER,
    "EventId": _INTEGER,
    "JumpTarget": _TEXT,
    "JumpTargetThen": _TEXT,
    "JumpTargetElse": _TEXT,
    "ParameterType": _TEXT,
    "TacticValue": _TEXT,
    "shapeValues": _INTEGERS,
}
_TENSOR_FIELDS = {
    "Name": _TEXT,
    "Location": _TEXT,
    "Dimensions": _INTEGERS,
    "Strides": _INTEGERS,
    "StrideOrder": _INTEGERS,
    "Datatype": _TEXT,
    "Format": _FORMAT,
}


def parse_layers(message: str) -> tuple[EngineLayer, ...]:
    """Reads the layers of an engine from the log message that begins with `Layers:`.

    Args:
        message: the whole message; what follows the first empty line is not about layers.

    Raises:
        Fault: a line, a field or a datatype that is not understood; the message quotes it.
    """
    head, *lines = message.split("\n")
    if head != "Layers:" or "" not in lines:
        raise Fault(f"the compiler's list of layers is not understood: {message[:200]!r}")
    return tuple(_Line(line).layer() for line in lines[: lines.index("")])


_FURTHER = re.compile(r" \[profile [1-9]\d*\]")
_GRAPH = re.compile(r"_myl(\d+)(?:_\d+)?$")


def of_first_profile(layers: Sequence[EngineLayer]) -> tuple[EngineLayer, ...]:
    """The layers of the first optimization profile: the engine has those of each.

    The compiler names tensors of the others `x [profile 1]`, which no escaped name can hold; what it makes
    itself there is in the same graph of its own, `_myl1`.
    """

    def graph(layer: EngineLayer) -> str:
        found = _GRAPH.search(layer.name)
        return found[1] if found else ""

    def is_further(layer: EngineLayer) -> bool:
        names = [layer.name, *(tensor.name for tensor in (*layer.inputs, *layer.constants, *layer.outputs))]
        return any(map(_FURTHER.search, names))

    graphs = {graph(layer) for layer in layers if is_further(layer)} - {""}
    return tuple(layer for layer in layers if not is_further(layer) and graph(layer) not in graphs)


class _Line:
    """One line of the list, read from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def layer(self) -> EngineLayer:
        fields: dict[str, str] = {}
        tensors: dict[str, tuple[EngineTensor, ...]] = {}
        while (key := self._key()) != "Metadata":
            if key in fields or key in tensors:
                raise self._fault(f"a second {key}")
            if key in _TENSOR_LISTS:
                tensors[key] = self._tensors()
            else:
                fields[key] = self._value(_FIELDS, key)
            self._expect(", ")
        nodes = []
        while self._at < len(self._text):
            nodes.append(_FRAMES.sub("", restore(self._match(_NODE, "the name of an ONNX node")[1])))
            if self._at < len(self._text):
                self._expect(_SEPARATOR)
        if not {"Name", "LayerType", "Inputs", "Outputs"} <= fields.keys() | tensors.keys():
            raise self._fault("a layer without Name, LayerType, Inputs or Outputs")
        name, kind = fields["Name"], fields["LayerType"]
        inputs, constants, outputs = (tensors.get(key, ()) for key in _TENSOR_LISTS)
        return EngineLayer(
            name=restore(name),
            kind=kind,
            precision=precision_of(name, kind, inputs, constants, outputs),
            inputs=inputs,
            constants=constants,
            outputs=outputs,
            nodes=tuple(dict.fromkeys(nodes)),
            tactic=fields.get("TacticName", ""),
        )

    def _tensors(self) -> tuple[EngineTensor, ...]:
        if self._accept("[]"):
            return ()
        self._expect("[ ")
        tensors = [self._tensor()]
        while self._accept(", "):
            tensors.append(self._tensor())
        self._expect("]")
        return tuple(tensors)

    def _tensor(self) -> EngineTensor:
        self._expect("{ ")
        fields: dict[str, str] = {}
        while not fields or self._accept(", "):
            key = self._key()
            if key in fields:
                raise self._fault(f"a second {key}")
            fields[key] = self._value(_TENSOR_FIELDS, key)
        self._accept(" ")
        self._expect("}")
        if not {"Name", "Dimensions", "Datatype"} <= fields.keys():
            raise self._fault("a tensor without Name, Dimensions or Datatype")
        if not fields["Datatype"].isalnum():
            raise self._fault(f"datatype {fields['Datatype']!r}")
        dtype = dtype_of(fields["Datatype"])
        shape = tuple(int(size) for size in re.findall(r"-?\d+", fields["Dimensions"]))
        return EngineTensor(restore(fields["Name"]), dtype, shape)

    def _key(self) -> str:
        return str(self._match(_KEY, "the name of a field")[1])

    def _value(self, fields: dict[str, re.Pattern[str]], key: str) -> str:
        form = fields.get(key) or fields.get(key.rstrip("0123456789"))
        if form is None:
            raise self._fault(f"field {key!r}")
        return str(self._match(form, f"the value of {key}")[0])

    def _match(self, pattern: re.Pattern[str], what: str) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._fault(f"not {what}")
        self._at = match.end()
        return match

    def _accept(self, literal: str) -> bool:
        found = self._text.startswith(literal, self._at)
        self._at += len(literal) if found else 0
        return found

    def _expect(self, literal: str) -> None:
        if not self._accept(literal):
            raise self._fault(f"not {literal!r}")

    def _fault(self, what: str) -> Fault:
        rest = self._text[self._at : self._at + 120]
        return Fault(
            f"a layer of the engine is not understood: {what} at {rest!r}, column {self._at} of "
            f"{self._text!r}",
            hint="this version of NVIDIA's compiler may be newer than this onnxq",
        )


# --- precision ------------------------------------------------------------------------------------


def operations_of(name: str) -> tuple[str, ...]:
    """The operations of a generated kernel, in order; empty where the name is not one of those."""
    match = _FUSED.fullmatch(name)
    return tuple(re.findall(r"[A-Z][a-z0-9]*", match[1])) if match else ()


def matrix_operations(name: str) -> tuple[str, ...]:
    """The operations of a generated kernel that multiply matrices: "Corr", "Deco", "Fc"."""
    return tuple(operation for operation in operations_of(name) if operation in _MATRIX_OPS)


def is_attention(name: str) -> bool:
    """Whether a kernel of that name is fused attention."""
    return name.startswith(_ATTENTION)


def attention_factors(
    inputs: Sequence[EngineTensor], outputs: Sequence[EngineTensor]
) -> tuple[EngineTensor, ...]:
    """Queries, keys and values of a fused attention, among what it reads."""
    out = outputs[0].shape if outputs else ()
    places = attention_places([tensor.shape for tensor in inputs], out)
    if places is None:
        return (*inputs[:2], *inputs[-1:])
    return tuple(inputs[place] for place in places)


def precision_of(
    name: str,
    kind: str,
    inputs: tuple[EngineTensor, ...],
    constants: tuple[EngineTensor, ...],
    outputs: tuple[EngineTensor, ...],
) -> str | None:
    """The type in which a layer multiplies, or of one that does not that of its first output.

    Args:
        name: the compiler's name for it.
        kind: the compiler's type of it.
        inputs: what it reads.
        constants: what it holds.
        outputs: what it writes.
    """
    factors: tuple[EngineTensor, ...] = ()
    ops = operations_of(name)
    matrix_at = next((i for i, op in enumerate(ops) if op in _MATRIX_OPS), None)
    if is_attention(name):
        factors = attention_factors(inputs, outputs)
    elif kind in _MATRIX_KINDS or matrix_at is not None:
        factors = _factors(kind, ops, inputs, constants, outputs)
        if "Cast" in ops[:matrix_at]:  # the kernel converts what it reads before it multiplies
            factors += outputs
    if factors:  # of an unknown type: nobody may take it for int8
        return max((tensor.dtype for tensor in factors), key=lambda dtype: _WIDTH.get(dtype, len(_WIDTH)))
    return outputs[0].dtype if outputs else None


def product_of(kind: str, ops: tuple[str, ...]) -> Product:
    """What a layer that multiplies matrices is, by its type or by its first such operation."""
    first = next((op for op in ops if op in _MATRIX_OPS), None)
    if kind == "deconv" or first == "Deco":
        return "deconvolution"
    return "convolution" if kind == "correlation" or first == "Corr" else "matmul"


def _factors(
    kind: str,
    ops: tuple[str, ...],
    inputs: tuple[EngineTensor, ...],
    constants: tuple[EngineTensor, ...],
    outputs: tuple[EngineTensor, ...],
) -> tuple[EngineTensor, ...]:
    """The activation and the weights of a layer that multiplies matrices; residuals of its shape too.

    A kernel of the library reads the activation first. Where shapes do not tell, the weights are the largest
    constant, unless that has no more values than the layer has output channels (a bias or a scale): then they
    are the second input, computed while the engine runs.
    """
    tensors = (*inputs, *constants)
    product = product_of(kind, ops)
    fit = operands(product, *([t.shape for t in group] for group in (inputs, constants, outputs)))
    if fit is not None:
        firsts = fit.firsts[:1] if kind in _MATRIX_KINDS else fit.firsts
        return (*(tensors[place] for place in firsts), tensors[fit.second])
    shape = outputs[0].shape if outputs else ()
    channels = shape[-1 if product == "matmul" else 1] if len(shape) > 1 else math.prod(shape)
    largest = max(constants, key=lambda tensor: math.prod(tensor.shape), default=None)
    if largest is not None and (math.prod(largest.shape) > channels or len(inputs) < 2):
        return (*inputs[:1], largest)
    return inputs[:2]

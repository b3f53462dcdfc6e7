"""What became of a model in its engine: by ONNX node, and in all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnxq.base.grouped import grouped
from onnxq.base.plain import DocumentPart
from onnxq.compiled.kernels import CODES, CONVERSIONS, FLOATS, Kernel, elements, kernels_of
from onnxq.formats import FP8, INT8
from onnxq.graph.model import Model
from onnxq.graph.pairs import BUILT, QUANTIZE, pair_of
from onnxq.graph.view import Node, Tensor, every_node
from onnxq.run.engine_log import EngineLayer, is_unknown

# What the compiler calls types of codes that numpy calls otherwise.
_CODE_TYPES = {"float8_e4m3fn": "fp8", "float8_e5m2": "fp8", "float4_e2m1fn": "fp4"}
_QUANTIZERS = {"TRT_FP4DynamicQuantize": "fp4", "TRT_MXFP8DynamicQuantize": "fp8"}
PAIRS = (QUANTIZE, *BUILT.ends, *_QUANTIZERS)
"""Operators that only quantize or dequantize."""

LAYERS = ("Conv", "ConvTranspose", "Gemm", "MatMul")
"""Operators whose kernels multiply."""


@dataclass(frozen=True, slots=True)
class NodeInEngine(DocumentPart):
    """What became of an ONNX node.

    Attributes:
        node: its name in the model.
        op: its operator.
        planned: of a product the type that its Q/DQ pairs ask for ("int8", "fp8", "int4", "fp4"; of two
            types both, as in "int8 x int4"); None where no operand comes from a DequantizeLinear.
        half: whether only one of a product's operands is quantized.
        compiled: of a product the type in which its kernel multiplies, of another node that of what its
            kernel writes; None where no kernel lists it.
        kernel: the kernel that it went into, "" where no kernel lists it, or nothing tells which.
        kind: what that kernel is for, one of `onnxq.compiled.kernels.KINDS`, "" likewise.
        role: "own": the kernel is this node's (or of several such products); "fused": it runs in the kernel
            of others; "folded": no kernel lists it, its result is a constant, a view, or part of a neighbour.
        kernels: how many kernels list it.
        macs: multiply-accumulates as compiled; products that share a kernel have equal parts of it.
        seconds: its part of what one run of its kernels takes, as measured on a GPU, in equal parts among the
            nodes of a kernel; None where nobody measured.
    """

    node: str
    op: str
    planned: str | None
    half: bool
    compiled: str | None
    kernel: str
    kind: str
    role: str
    kernels: int
    macs: int
    seconds: float | None

    @property
    def as_planned(self) -> bool:
        """Whether it is a product of two quantized operands, and multiplies in their type."""
        return self.planned is not None and not self.half and self.compiled == self.planned

    @property
    def missed(self) -> bool:
        """Whether its operands are both quantized, and it multiplies in another type, or in no kernel."""
        return self.planned is not None and not self.half and not self.as_planned and not self.untold

    @property
    def untold(self) -> bool:
        """Whether a kernel runs it of which the type is not known: TensorRT's files need not say."""
        return self.compiled is None and self.kernels > 0


@dataclass(frozen=True, slots=True)
class RuntimeWeights(DocumentPart):
    """Weights that the file holds quantized and the engine dequantizes at each run.

    Attributes:
        kernel: the kernel that does it.
        inside: whether that is the product's own kernel; else it is one more, which writes them.
        nodes: the ONNX nodes that it lists.
        held: the type in which they are held.
        made: the type that they are given.
        shape: their shape.
        bytes_written: what the kernel writes, 0 inside of a product.
    """

    kernel: str
    inside: bool
    nodes: tuple[str, ...]
    held: str
    made: str
    shape: tuple[int, ...]
    bytes_written: int


@dataclass(frozen=True, slots=True)
class EngineTotals(DocumentPart):
    """An engine in figures.

    Attributes:
        kernels: how many kernels.
        waits: layers by which streams wait for each other, which are no kernels.
        kinds: kernels by what they are for, the most frequent first.
        macs: multiply-accumulates by type, as compiled.
        products: kernels that multiply matrices, by type.
        attention: fused attention, by type.
        bytes_activations: read and written by kernels that compute.
        bytes_conversions: read and written by kernels that only convert (`CONVERSIONS`).
        bytes_weights: of the constants that kernels hold.
        constants: how many constants of more than one value they hold.
        quantize: kernels that only quantize.
        dequantize: kernels that only dequantize.
        cast: kernels that only cast.
        reformat: kernels that only move values, where no node of the model does.
        runtime_weights: weights that are dequantized at each run.
        planned: products of which both operands are quantized.
        as_planned: those that multiply in that type.
        half: products of which one operand is quantized.
        dynamic: whether sizes are known at run time only; each of them counts as 1.
        unknown_types: names that the compiler has for datatypes, which are not known here and count as no
            bytes.
        seconds: one run, the sum of its kernels as measured on a GPU; None where nobody measured.
    """

    kernels: int
    waits: int
    kinds: Mapping[str, int]
    macs: Mapping[str, int]
    products: Mapping[str, int]
    attention: Mapping[str, int]
    bytes_activations: int
    bytes_conversions: int
    bytes_weights: int
    constants: int
    quantize: int
    dequantize: int
    cast: int
    reformat: int
    runtime_weights: int
    planned: int
    as_planned: int
    half: int
    dynamic: bool
    unknown_types: tuple[str, ...]
    seconds: float | None

    @property
    def int8_macs(self) -> int:
        """Multiply-accumulates in int8."""
        return self.macs.get(INT8.name, 0)

    @property
    def fp8_macs(self) -> int:
        """Multiply-accumulates in fp8."""
        return self.macs.get(FP8.name, 0)

    @property
    def other_macs(self) -> int:
        """Multiply-accumulates in any other type."""
        return sum(self.macs.values()) - self.int8_macs - self.fp8_macs

    @property
    def conversions(self) -> int:
        """Kernels that only convert."""
        return sum(self.kinds.get(kind, 0) for kind in CONVERSIONS)


@dataclass(frozen=True, slots=True)
class EngineReading(DocumentPart):
    """An engine, read.

    Attributes:
        totals: in figures.
        nodes: each ONNX node, in the model's order.
        kernels: in the order in which they run.
        runtime_weights: weights that are dequantized at each run.
    """

    totals: EngineTotals
    nodes: tuple[NodeInEngine, ...]
    kernels: tuple[Kernel, ...]
    runtime_weights: tuple[RuntimeWeights, ...]


def read(layers: Sequence[EngineLayer], model: Model) -> EngineReading:
    """Reads a compiled engine.

    Args:
        layers: its layers, `onnxq.run.trt.Engine.layers`.
        model: the model that it was compiled from.
    """
    return reading_of(kernels_of(layers, operators_of(model)), model)


def operators_of(model: Model) -> dict[str, str]:
    """The operator of each node of a model, by the names that an engine may have for it."""
    return {spelling: node.op for node in every_node(model) for spelling in _spellings(node)}


def reading_of(kernels: Sequence[Kernel], model: Model) -> EngineReading:
    """What became of the nodes of a model in these kernels.

    Args:
        kernels: the kernels of its engine.
        model: the model.
    """
    listing = grouped((name, kernel) for kernel in kernels for name in kernel.nodes)
    nodes = list(every_node(model))
    spelled = {spelling: node for node in nodes for spelling in _spellings(node)}
    products = {name for name, node in spelled.items() if node.op in LAYERS}
    regions = [kernel for kernel in kernels if kernel.is_region]
    read_nodes = tuple(_node(node, listing, spelled, products, regions) for node in nodes)
    weights = tuple(_runtime_weights(kernels))
    return EngineReading(_totals(kernels, read_nodes, weights), read_nodes, tuple(kernels), weights)


# --- nodes ----------------------------------------------------------------------------------------


def _spellings(node: Node) -> tuple[str, ...]:
    """How an engine may call a node: by its name in the file, or without one by its first output's."""
    first = next((tensor.name for tensor in node.outputs if tensor.name), "")
    return (node.name, f"node_of_{first}", *filter(None, [getattr(node.node, "given_name", "")]))


def _node(
    node: Node,
    listing: Mapping[str, list[Kernel]],
    spelled: Mapping[str, Node],
    products: set[str],
    regions: Sequence[Kernel],
) -> NodeInEngine:
    """What became of a node; a product that no kernel lists is in a region, of which types are not known."""
    running = next((listing[name] for name in _spellings(node) if name in listing), [])
    is_product = node.op in LAYERS
    planned, half = _planned(node) if is_product else (None, False)
    inside = (running or regions) if is_product else []
    if inside and all(kernel.is_region for kernel in inside):
        name = inside[0].name if len(inside) == 1 else ""  # of several nothing tells which
        return NodeInEngine(
            node.name, node.op, planned, half, None, name, inside[0].kind, "fused", 1, 0, None
        )
    if not running:
        return NodeInEngine(node.name, node.op, planned, half, None, "", "", "folded", 0, 0, None)
    main = min(running, key=lambda kernel: _preference(kernel, node.op, is_product))
    if main.is_product:
        own = is_product
    else:
        others = {spelled[name].op for name in main.nodes if name in spelled and spelled[name] != node}
        own = not others - set(PAIRS) - {"Cast"}
    measured = [kernel for kernel in running if kernel.seconds is not None]
    return NodeInEngine(
        node=node.name,
        op=node.op,
        planned=planned,
        half=half,
        compiled=main.precision,
        kernel=main.name,
        kind=main.kind,
        role="own" if own else "fused",
        kernels=len(running),
        macs=sum(_part(kernel, products) for kernel in running if kernel.is_product) if is_product else 0,
        seconds=sum((k.seconds or 0) / len(k.nodes) for k in measured) if measured else None,
    )


def _preference(kernel: Kernel, op: str, is_product: bool) -> tuple[bool, bool]:
    """Which of the kernels that list a node is its own, the least first.

    For products one that multiplies, and of such one that does not do it in codes; for others one that does
    not multiply.
    """
    if is_product:
        return not kernel.is_product, kernel.precision in CODES
    converts = "quantize" if op == QUANTIZE else "dequantize"
    return kernel.is_product, op in PAIRS and kernel.kind != converts


def _part(kernel: Kernel, products: set[str]) -> int:
    return kernel.macs // max(sum(name in products for name in kernel.nodes), 1)


def _planned(node: Node) -> tuple[str | None, bool]:
    """The type that the pairs before a product ask for, and whether they do so for one operand only."""
    types = [_codes(tensor) for tensor in node.operands(2)]
    named = list(dict.fromkeys(name for name in types if name is not None))
    return (" x ".join(named) or None), len(named) > 0 and None in types


def _codes(tensor: Tensor | None) -> str | None:
    """The type of the codes that a tensor is dequantized from, moved or cast at most behind that."""
    pair = pair_of(tensor, BUILT) if tensor is not None else None
    if pair is None or pair.codes is None:
        return None
    maker = pair.codes.producer
    if maker is not None and maker.op in _QUANTIZERS:
        return _QUANTIZERS[maker.op]
    return "unknown" if pair.format is None else _CODE_TYPES.get(pair.format.name, pair.format.name)


# --- weights and totals ---------------------------------------------------------------------------


def _runtime_weights(kernels: Iterable[Kernel]) -> Iterable[RuntimeWeights]:
    for kernel in kernels:
        tensors = kernel.constants if kernel.is_product else (*kernel.constants, *kernel.inputs)
        codes = (tensor for tensor in tensors if tensor.dtype in CODES)
        held = max(codes, key=elements, default=None)
        if held is None or elements(held) < max(map(elements, tensors)):
            continue  # nothing, or scales
        if kernel.kind == "weights":
            made = max(kernel.outputs, key=elements)
            if made.dtype in FLOATS:
                yield RuntimeWeights(
                    kernel.name, False, kernel.nodes, held.dtype, made.dtype, made.shape, kernel.bytes_written
                )
        elif kernel.is_product and kernel.precision in FLOATS and elements(held) > 1:
            yield RuntimeWeights(
                kernel.name, True, kernel.nodes, held.dtype, str(kernel.precision), held.shape, 0
            )


def _totals(
    kernels: Sequence[Kernel], nodes: Sequence[NodeInEngine], weights: Sequence[RuntimeWeights]
) -> EngineTotals:
    running = [kernel for kernel in kernels if kernel.is_kernel]
    kinds = Counter(kernel.kind for kernel in running)
    macs: Counter[str] = Counter()
    for kernel in running:
        if kernel.macs:
            macs[kernel.precision or "none"] += kernel.macs
    tensors = [t for k in running for t in (*k.inputs, *k.constants, *k.outputs)]
    times = [kernel.seconds for kernel in running if kernel.seconds is not None]
    return EngineTotals(
        kernels=len(running),
        waits=len(kernels) - len(running),
        kinds=dict(kinds.most_common()),
        macs=dict(macs.most_common()),
        products=_by_type(kernel for kernel in running if kernel.is_product),
        attention=_by_type(kernel for kernel in running if kernel.kind == "attention"),
        bytes_activations=sum(kernel.moved for kernel in running if not kernel.is_conversion),
        bytes_conversions=sum(kernel.moved for kernel in running if kernel.is_conversion),
        bytes_weights=sum(kernel.bytes_weights for kernel in running),
        constants=sum(elements(tensor) > 1 for kernel in running for tensor in kernel.constants),
        quantize=kinds["quantize"],
        dequantize=kinds["dequantize"],
        cast=kinds["cast"],
        reformat=kinds["reformat"],
        runtime_weights=len(weights),
        planned=sum(node.planned is not None and not node.half for node in nodes),
        as_planned=sum(node.as_planned for node in nodes),
        half=sum(node.half for node in nodes),
        dynamic=any(size < 0 for tensor in tensors for size in tensor.shape),
        unknown_types=tuple(sorted({tensor.dtype for tensor in tensors if is_unknown(tensor.dtype)})),
        seconds=sum(times) if times else None,
    )


def _by_type(kernels: Iterable[Kernel]) -> dict[str, int]:
    return dict(Counter(kernel.precision or "none" for kernel in kernels).most_common())

"""What an engine shows of a model's pairs, and the judges that ask it: kernels know more than any rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from onnxq.base.grouped import grouped
from onnxq.checks.finding import Finding
from onnxq.checks.subject import Product, Subject
from onnxq.compiled.kernels import Kernel
from onnxq.formats import INT8


@dataclass(frozen=True, slots=True)
class Seen:
    """An engine by ONNX node.

    Attributes:
        products: the products of the model with quantized operands, by name.
        subject: the model.
        kernels: the kernels that list a node, by its name.
        told: the nodes that findings of the model's pairs are about already.
    """

    products: Mapping[str, Product]
    subject: Subject
    kernels: Mapping[str, Sequence[Kernel]]
    told: frozenset[str] = frozenset()

    @classmethod
    def of(cls, subject: Subject, kernels: Iterable[Kernel], told: Iterable[str] = ()) -> Seen:
        """Of an engine's kernels; the names of nodes as `Seen.told` has them."""
        names = {  # the compiler's for a node without one in the file; the model gives it another
            f"node_of_{node.outputs[0].name}": node.name for node in subject.nodes if node.outputs
        }
        listing = grouped((names.get(node, node), kernel) for kernel in kernels for node in kernel.nodes)
        products = {product.node.name: product for product in subject.products}
        return cls(products, subject, listing, frozenset(told))

    def product(self, node: str) -> Kernel | None:
        """The kernel that multiplies for a node; of several one that does not in int8."""
        products = [kernel for kernel in self.kernels.get(node, ()) if kernel.is_product]
        return min(products, key=lambda kernel: kernel.precision == INT8.name, default=None)

    def precision(self, node: str) -> str | None:
        """What a node is multiplied in; None where no kernel multiplies for it."""
        kernel = self.product(node)
        return None if kernel is None else kernel.precision

    def quantizers(self, node: str) -> list[str]:
        """The names of a DequantizeLinear and of the QuantizeLinear in front of it."""
        for pair in self.subject.pairs:
            if pair.node.name == node:
                source = pair.node.operands(1)[0]
                maker = source.producer if source is not None else None
                return [node] if maker is None else [node, maker.name]
        return [node]


Judge = Callable[[Finding, Seen], bool | None]
"""How the engine is asked about a finding: it shows it, it contradicts it (False), it cannot tell (None)."""


def in_float(one: Finding, seen: Seen) -> bool | None:
    """Whether a product does not run in int8."""
    precision = seen.precision(one.node)
    return None if precision is None else precision != INT8.name


def in_int8(one: Finding, seen: Seen) -> bool | None:
    """Whether a product runs in int8."""
    precision = seen.precision(one.node)
    return None if precision is None else precision == INT8.name


def readers_in_float(one: Finding, seen: Seen) -> bool | None:
    """Whether a product that reads a pair runs in float."""
    precisions = [
        seen.precision(name)
        for name, product in seen.products.items()
        for pair in (*product.of_data, *product.of_weight)
        if one.node in seen.quantizers(pair.node.name)
    ]
    in_float = [precision != INT8.name for precision in precisions if precision is not None]
    return any(in_float) if in_float else None


def makes_weights(one: Finding, seen: Seen) -> bool | None:
    """Whether a kernel dequantizes the weights of a product."""
    product = seen.products.get(one.node)
    if product is None or seen.product(one.node) is None:
        return None
    return any(
        kernel.kind == "weights"
        for pair in product.of_weight
        for kernel in seen.kernels.get(pair.node.name, ())
    )


def larger(one: Finding, seen: Seen) -> bool | None:
    """Whether a convolution reads more channels than it would in float, or does not run in int8."""
    kernel, product = seen.product(one.node), seen.products.get(one.node)
    if kernel is None or product is None or product.layer is None:
        return None
    if kernel.precision != INT8.name:
        return True
    shape = kernel.inputs[0].shape if kernel.inputs else ()
    return shape[1] > product.layer.inputs if len(shape) > 1 else None


def more_kernels(one: Finding, seen: Seen) -> bool | None:
    """Whether a product and the pairs of its data are more than one kernel."""
    product = seen.products.get(one.node)
    if product is None or seen.product(one.node) is None:
        return None
    names = [one.node, *(name for pair in product.of_data for name in seen.quantizers(pair.node.name))]
    return len({kernel.name for name in names for kernel in seen.kernels.get(name, ())}) > 1


def only_rounds(one: Finding, seen: Seen) -> bool | None:
    """Whether no kernel writes the codes of a pair."""
    kernels = [kernel for name in seen.quantizers(one.node) for kernel in seen.kernels.get(name, ())]
    if not kernels:
        return False
    return not any(
        tensor.dtype in (INT8.name, *INT8.reads) for kernel in kernels for tensor in kernel.outputs
    )


def without_attention(one: Finding, seen: Seen) -> bool | None:
    """Whether a product is in no kernel of attention."""
    kernels = seen.kernels.get(one.node, ())
    return not any(kernel.kind == "attention" for kernel in kernels) if kernels else None


def as_int8(one: Finding, seen: Seen) -> bool | None:
    """Whether codes that are uint8 in the file are not in the engine."""
    kernels = [kernel for name in seen.quantizers(one.node) for kernel in seen.kernels.get(name, ())]
    tensors = [tensor for kernel in kernels for tensor in (*kernel.inputs, *kernel.outputs)]
    return all(tensor.dtype != "uint8" for tensor in tensors) if tensors else None


def sums_in_half(one: Finding, seen: Seen) -> bool | None:
    """Whether a product of int8 writes float16, which another kernel scales then."""
    kernel = seen.product(one.node)
    if kernel is None:
        return None
    if kernel.precision != INT8.name or not kernel.outputs:
        return False
    others = [other for other in seen.kernels[one.node] if other is not kernel and other.kind != "weights"]
    return kernel.outputs[0].dtype == "fp16" and bool(others)


def is_built(one: Finding, seen: Seen) -> bool | None:
    """The engine is there, although the finding says that it is not built."""
    return False

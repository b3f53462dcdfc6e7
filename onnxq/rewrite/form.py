"""The form of a snippet: what is left where the weights and sizes of its layers are anybody's.

Convolutions whose BatchNormalization is folded are of few forms. What a rule does wrong with edge values,
other batches or numbers of the graph it does wrong with the whole form; what it does wrong with certain
weights or sizes is seen on ordinary inputs. So a form is proved once, and each further snippet of it on few
inputs (`onnxq.rewrite.together`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import numpy_helper

from onnxq.graph.snippet import Snippet
from onnxq.graph.types import Dim
from onnxq.rewrite.difference import Claim

# What they compute is linear in these of their inputs, by place.
_LINEAR = {
    "Conv": (1, 2), "ConvTranspose": (1, 2), "Gemm": (0, 1, 2), "MatMul": (0, 1), "Add": (0, 1),
    "Sub": (0, 1), "Mul": (0, 1), "BatchNormalization": (1, 2, 3, 4),
}  # fmt: skip
_PLAIN = frozenset({*_LINEAR, "Relu", "Clip", "Identity", "LeakyRelu", "Sigmoid", "HardSigmoid", "Neg"})
_MOST = 1e12  # a magnitude: weights up to it are nothing special


def form_of(snippet: Snippet, claim: Claim) -> str | None:
    """A digest of the form of a snippet, for a claim; None where values or sizes may matter.

    Two of one form differ in what linear layers are made of, and in sizes: equal ones are equal in both.

    Args:
        snippet: the two sides.
        claim: as what they must be the same.
    """
    if not claim.close:
        return None
    digest, sizes = hashlib.blake2b(digest_size=16), _Sizes()
    digest.update(f"{claim}".encode())
    for _, dtype, shape in snippet.inputs:
        digest.update(f"{dtype} {[sizes.of(dim) for dim in shape]}".encode())
    for model in (snippet.before, snippet.after):
        for part in _parts(model, sizes):
            if part is None:
                return None
            digest.update(part)
    return digest.hexdigest()


class _Sizes:
    """Numbers for sizes, in the order in which they come; 0, and 1, which broadcasts, are themselves."""

    def __init__(self) -> None:
        self._known: dict[Dim, str] = {}

    def of(self, dim: Dim) -> str:
        """What stands for a size; what is dynamic is never what is known."""
        if dim in (0, 1):
            return str(dim)
        return self._known.setdefault(dim, f"{'s' if isinstance(dim, int) else 'd'}{len(self._known)}")


def _parts(model: onnx.ModelProto, sizes: _Sizes) -> Iterator[bytes | None]:
    """What makes a side of a snippet; None where values or sizes may matter."""
    numbers: dict[str, int] = {"": -1}

    def number(name: str) -> int:
        return numbers.setdefault(name, len(numbers))

    readers: dict[str, set[tuple[str, int]]] = {}
    for node in model.graph.node:
        for place, name in enumerate(node.input):
            readers.setdefault(name, set()).add((node.op_type, place))
    yield str([number(info.name) for info in model.graph.input]).encode()
    for tensor in model.graph.initializer:
        values = numpy_helper.to_array(tensor)
        free = all(place in _LINEAR.get(op, ()) for op, place in readers.get(tensor.name, ()))
        head = f"{number(tensor.name)} {tensor.data_type}"
        if values.dtype.kind != "f" or values.size == 1 or not free:
            yield f"{head} {list(tensor.dims)}".encode() + values.tobytes()
            continue
        if not (np.abs(values) < _MOST).all():
            yield None
        yield f"{head} {[sizes.of(dim) for dim in tensor.dims]} {(values == 0).all()}".encode()
    for node in model.graph.node:
        if node.domain or node.op_type not in _PLAIN:
            yield None
        yield f"{node.op_type} {[*map(number, node.input)]} {[*map(number, node.output)]}".encode()
        for attribute in sorted(node.attribute, key=lambda one: one.name):
            if attribute.name == "group":
                yield f"group {sizes.of(attribute.i)}".encode()
            else:
                yield attribute.SerializeToString(deterministic=True)
    yield str([number(info.name) for info in model.graph.output]).encode()

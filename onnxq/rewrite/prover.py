"""Proving the changes of a model: ever larger parts around them, until one tells."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import onnx

from onnxq.base.reason import noted
from onnxq.graph.edit import Replacement
from onnxq.graph.loops import has_loop
from onnxq.graph.model import Model
from onnxq.graph.rooted import values_of
from onnxq.graph.snippet import NoSnippet, Snippet, snippets
from onnxq.graph.types import Dim
from onnxq.graph.view import Node
from onnxq.rewrite.difference import Claim
from onnxq.rewrite.proof import Proof, by_definition, compare, ran_on_nothing
from onnxq.rewrite.together import Sessions

# The runs of a snippet with a Loop are given up after so many seconds: its condition may never be false.
# After so many seconds in vain, others are not run any more.
_LOOP_SECONDS, _IN_VAIN = 5.0, 10.0
# The same for ONNX's own evaluator, of parts that onnxruntime loads and runs on nothing.
_SILENT_SECONDS, _SILENT_IN_VAIN = 3.0, 10.0


class Prover:
    """Proves changes; equal snippets are proved once, and those of a form that is proved on few inputs.

    Args:
        loops: whether snippets with a Loop are run. They have a time limit, and a slow machine may prove
            less than a fast one: they are not where only what is proved is kept.
    """

    def __init__(self, *, loops: bool = True) -> None:
        self._known: dict[str, Proof] = {}
        self._forms: dict[str, Sessions] = {}
        self._patience = _IN_VAIN if loops else 0.0
        self._silence = _SILENT_IN_VAIN
        self.runs = 0

    def prove(
        self, model: Model, root: Node, results: Replacement, claim: Claim
    ) -> tuple[Proof, Snippet | None]:
        """Compares a node's outputs with their replacement.

        Args:
            model: the model before the change.
            root: the node whose outputs are replaced.
            results: what is to compute them.
            claim: as what they must be the same.

        Returns:
            The proof, and the snippet that it is about (None where none could be cut).
        """
        last: tuple[Proof, Snippet | None] = (Proof("unproven", why="nothing to compare"), None)
        silent: list[tuple[Proof, Snippet]] = []
        try:
            for snippet in snippets(model, root, results):
                if last[1] is not None and has_loop(snippet.before) and not has_loop(last[1].before):
                    break  # what a Loop computes, if it ends, may be anything
                if snippet.upstream and last[0].verdict != "failed" and last[0].inputs:
                    break  # something ran, and nothing is wrong for which a reason could be found there
                proof = self._compare(snippet, claim, model.assumed)
                if proof.holds and proof.inputs >= proof.not_run:
                    return proof, snippet
                if ran_on_nothing(
                    proof
                ):  # mostly as its sizes do not fit each other: a larger part states them
                    silent.append((proof, snippet))
                # what runs on few of its inputs may be wrong where it did not: a larger part tells
                if not snippet.upstream and (proof.verdict == "failed" or not last[0].holds):
                    last = (proof, snippet)
        except NoSnippet as reason:
            if last[1] is None:
                return Proof("unproven", why=str(reason)), None
        return last if last[0].holds else self._defined(silent, claim, model.assumed) or last

    def _defined(
        self, silent: Sequence[tuple[Proof, Snippet]], claim: Claim, sizes: Mapping[str, int]
    ) -> tuple[Proof, Snippet] | None:
        """What ONNX's own evaluator says of parts that onnxruntime ran on nothing; None: as little.

        It is slow, so that of all the parts it runs the smallest one and the largest.
        """
        for unproven, snippet in silent if len(silent) < 3 else (silent[0], silent[-1]):
            if self._silence <= 0 or has_loop(snippet.before) or has_loop(snippet.after):
                continue
            key = f"by definition {self._key(snippet, claim, sizes)}"
            if key not in self._known:
                start = time.monotonic()
                proof = by_definition(snippet, claim, sizes, unproven, min(_SILENT_SECONDS, self._silence))
                self._known[key] = proof
                if ran_on_nothing(proof):
                    self._silence -= time.monotonic() - start
            if not ran_on_nothing(self._known[key]):
                return self._known[key], snippet
        return None

    def _key(self, snippet: Snippet, claim: Claim, sizes: Mapping[str, int]) -> str:
        stated = [[sizes.get(d) if isinstance(d, str) else d for d in s] for _, _, s in snippet.inputs]
        return f"{snippet.key} {claim} {stated}"  # equal snippets may differ in what is assumed

    def _compare(self, snippet: Snippet, claim: Claim, sizes: Mapping[str, int]) -> Proof:
        form = form_of(snippet, claim)
        if form in self._forms:
            self.runs += 1
            return compare(snippet, claim, sizes, form=self._forms[form])
        key = self._key(snippet, claim, sizes)
        if key not in self._known:
            self.runs += 1
            self._known[key] = proof = self._compared(snippet, claim, sizes)
            if form is not None and proof.holds:
                self._forms[form] = {}
        return self._known[key]

    def _compared(self, snippet: Snippet, claim: Claim, sizes: Mapping[str, int]) -> Proof:
        if not (has_loop(snippet.before) or has_loop(snippet.after)):
            return compare(snippet, claim, sizes)
        if self._patience <= 0:
            return Proof("unproven", why=noted("unproven.loop"))
        start = time.monotonic()
        proof = compare(snippet, claim, sizes, min(_LOOP_SECONDS, self._patience))
        if proof.verdict == "unproven":
            self._patience -= time.monotonic() - start
        return proof


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
        values = values_of(tensor)
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

"""Proving the changes of a model: ever larger parts around them, until one tells."""

from __future__ import annotations

import time
from collections.abc import Mapping

from onnxq.graph.edit import Replacement
from onnxq.graph.loops import has_loop
from onnxq.graph.model import Model
from onnxq.graph.snippet import NoSnippet, Snippet, snippets
from onnxq.graph.view import Node
from onnxq.rewrite.difference import Claim
from onnxq.rewrite.proof import Proof, compare

# The runs of a snippet with a Loop are given up after so many seconds: its condition may never be false.
# After so many seconds in vain, others are not run any more.
_LOOP_SECONDS, _IN_VAIN = 5.0, 10.0


class Prover:
    """Proves changes; equal snippets are proved once.

    Args:
        loops: whether snippets with a Loop are run. They have a time limit, and a slow machine may prove
            less than a fast one: they are not where only what is proved is kept.
    """

    def __init__(self, *, loops: bool = True) -> None:
        self._known: dict[str, Proof] = {}
        self._patience = _IN_VAIN if loops else 0.0
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
        try:
            for snippet in snippets(model, root, results):
                if last[1] is not None and has_loop(snippet.before) and not has_loop(last[1].before):
                    break  # what a Loop computes, if it ends, may be anything
                if snippet.upstream and last[0].verdict != "failed" and last[0].inputs:
                    break  # something ran, and nothing is wrong for which a reason could be found there
                proof = self._compare(snippet, claim, model.assumed)
                if proof.holds and proof.inputs >= proof.not_run:
                    return proof, snippet
                # what runs on few of its inputs may be wrong where it did not: a larger part tells
                if not snippet.upstream and (proof.verdict == "failed" or not last[0].holds):
                    last = (proof, snippet)
        except NoSnippet as reason:
            if last[1] is None:
                return Proof("unproven", why=str(reason)), None
        return last

    def _compare(self, snippet: Snippet, claim: Claim, sizes: Mapping[str, int]) -> Proof:
        stated = [[sizes.get(d) if isinstance(d, str) else d for d in s] for _, _, s in snippet.inputs]
        key = f"{snippet.key} {claim} {stated}"  # equal snippets may differ in what is assumed
        if key not in self._known:
            self.runs += 1
            self._known[key] = self._compared(snippet, claim, sizes)
        return self._known[key]

    def _compared(self, snippet: Snippet, claim: Claim, sizes: Mapping[str, int]) -> Proof:
        if not (has_loop(snippet.before) or has_loop(snippet.after)):
            return compare(snippet, claim, sizes)
        if self._patience <= 0:
            return Proof("unproven", why="it has a Loop, which may never end on made-up input")
        start = time.monotonic()
        proof = compare(snippet, claim, sizes, min(_LOOP_SECONDS, self._patience))
        if proof.verdict == "unproven":
            self._patience -= time.monotonic() - start
        return proof

"""The rule engine: a worklist of nodes, stages to a fixpoint, each change proved before it is kept."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from onnxq.base.errors import Fault
from onnxq.base.reason import Reason, code_of, noted, reason
from onnxq.graph.edit import Edit, Editor, Replacement, infer_outputs
from onnxq.graph.model import Model
from onnxq.graph.types import Shape, value_info
from onnxq.graph.value import remake, validate
from onnxq.graph.view import Node, Tensor, Value, every_node
from onnxq.options.settings import Prove
from onnxq.rewrite.change_sketch import CHANGES, sketch, sketched_above
from onnxq.rewrite.changes import ACCEPTED, Assumption, Change, NearMiss
from onnxq.rewrite.claim import claim_of, narrowed
from onnxq.rewrite.difference import Claim
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.prover import Prover
from onnxq.rewrite.reproducer import save_reproducer
from onnxq.rewrite.whole import CHANGES as OUTPUTS_CHANGE
from onnxq.rewrite.whole import Differs, WholeModel, WholeProof
from onnxq.rule.api import (
    ANY,
    REPLACING,
    STATED,
    Assuming,
    Interface,
    Replacing,
    Rule,
    Skip,
)
from onnxq.rule.told import told

AT_FAULT = "rule-at-fault"
"""Why a change is rejected whose rule fails, or gives what is no replacement: nothing was proved."""

# A stage may make this many changes for each node that it starts with, and this many more.
_BUDGET_FACTOR, _BUDGET_BASE = 10, 1000


class Unsettled(Fault):
    """Rules undo each other.

    Attributes:
        rules: those that fired most in the end.
    """

    def __init__(self, message: str, rules: Sequence[str]) -> None:
        super().__init__(
            message, hint=f"leave one of them out: skip = {rules[0]!r} under [repair] of onnxq.toml"
        )
        self.rules = tuple(rules)


@dataclass(slots=True)
class RewriteReport:
    """What the rules did.

    Attributes:
        changes: kept, in order.
        rejected: changes whose proof failed; the model is as if they had not been tried.
        near_misses: patterns that guards left alone.
        assumptions: what changes rely on.
        whole: comparisons of the whole model with the original, one a stage that changed it.
        exact: whether all changes claim bit-equality.
        steps: whether a change may move integers by a step.
        accepted: whether a change was made although its values are off, as the user accepts that.
    """

    changes: list[Change] = field(default_factory=list)
    rejected: list[Change] = field(default_factory=list)
    near_misses: list[NearMiss] = field(default_factory=list)
    assumptions: list[Assumption] = field(default_factory=list)
    whole: list[WholeProof] = field(default_factory=list)
    exact: bool = True
    steps: bool = False
    accepted: bool = False


def rewrite(
    model: Model,
    rules: Sequence[Rule],
    lacks: Callable[[str], bool],
    *,
    prove: Prove = "when-possible",
    reproducers: Path | None = None,
    whole: WholeModel | None = None,
    exact: bool = True,
    steps: bool = False,
    observe: Callable[[str], None] | None = None,
    prover: Prover | None = None,
    refused: Iterable[tuple[str, str]] = (),
    limit: int | None = None,
    interface: bool = False,
    accept: Collection[str] = (),
    accepted: bool = False,
) -> RewriteReport:
    """Applies rules to a model, stage by stage, each to a fixpoint.

    Args:
        model: the model, which is changed.
        rules: the rules that are on; those of stage `place` are not for here.
        lacks: whether the target lacks a feature that a rule names.
        prove: `always` keeps no change that is not proved; `when-possible` keeps one that cannot be
            proved, and lists it; `never` proves nothing.
        reproducers: the folder for the snippets of changes whose proof fails.
        whole: compares the whole model after each stage.
        exact: whether the model is still bit-equal to the original that `whole` has.
        steps: whether integers of it may already be a step off.
        observe: is told each stage's name.
        prover: one that may know proofs from before.
        refused: rules that are not to fire on a node, as `(rule, node)`.
        limit: how many changes are made at most.
        interface: whether rules may give inputs and outputs of the model another type or shape.
        accept: rules whose changes are made where values are off, and nothing else is wrong.
        accepted: whether there is such a change already.

    Raises:
        Unsettled: rules undo each other without end.
        Differs: the whole model is another one although each change was proved; the model is not usable.
    """
    model.lacks = lacks
    run = _Run(model, prove, reproducers, prover or Prover(), refused, limit, interface, accept)
    run.report.exact, run.report.steps, run.report.accepted = exact, steps, accepted
    active = [rule for rule in rules if rule.lacks is None or lacks(rule.lacks)]
    compared = 0
    for stage in REPLACING:
        chosen = [rule for rule in active if rule.stage == stage]
        if observe is not None:
            observe(stage)
        if run.stage(stage, chosen) and whole is not None:
            try:
                proof = whole.compare(model, stage, exact=run.report.exact, steps=run.report.steps)
                run.report.whole.append(proof)
            except Differs as error:
                if not (run.report.accepted and str(error).startswith(OUTPUTS_CHANGE)):
                    error.changes, error.equal = len(run.report.changes), compared
                    raise
                run.report.whole.append(
                    WholeProof(stage, "unproven", why=noted("differs-by.accepted", difference=error))
                )
            compared = len(run.report.changes)
    left = {node.name for node in every_node(model)}
    run.report.near_misses = [
        NearMiss(*key, why, run.asked.get(key, {})) for key, why in run.misses.items() if key[1] in left
    ]
    return run.report


class _Run:
    """One run of the engine over one model."""

    def __init__(
        self,
        model: Model,
        prove: Prove,
        reproducers: Path | None,
        prover: Prover,
        refused: Iterable[tuple[str, str]],
        limit: int | None,
        interface: bool,
        accept: Collection[str],
    ) -> None:
        self.model = model
        self.prove = prove
        self.reproducers = reproducers
        self.prover = prover
        self.report = RewriteReport()
        self.misses: dict[tuple[str, str], str] = {}
        self.asked: dict[tuple[str, str], dict[str, int]] = {}
        self.refused = set(refused)
        self.limit = limit
        self.interface = interface
        self.accept = accept
        self._drawn = Counter[str]()  # changes of a rule that have a sketch
        self._swept_from = 0  # how many changes there were when the sweep began

    def stage(self, stage: Replacing, rules: Sequence[Rule]) -> bool:
        """Runs the rules of a stage to a fixpoint; returns whether anything changed."""
        index: dict[str, list[Rule]] = defaultdict(list)
        for rule in rules:
            for root in rule.roots:
                index[root].append(rule)
        count = len([*every_node(self.model)])
        budget = _BUDGET_FACTOR * count + _BUDGET_BASE
        started = len(self.report.changes)
        while self._sweep(stage, index, budget + started):
            self.model.infer_shapes()
        return len(self.report.changes) > started

    @property
    def is_full(self) -> bool:
        """Whether there are as many changes as there may be."""
        return self.limit is not None and len(self.report.changes) >= self.limit

    def _sweep(self, stage: Replacing, index: dict[str, list[Rule]], budget: int) -> bool:
        editor = Editor(self.model)
        self._swept_from = len(self.report.changes)
        todo = deque(node for graph in self.model.graphs(defined=True) for node in graph.nodes)
        ours = {id(node) for node in todo}
        closed = {id(node) for graph in self.model.graphs() for node in graph.nodes} - ours
        queued = {id(node) for node in todo}
        before = len(self.report.changes)
        while todo and not self.is_full:
            node = todo.popleft()
            queued.discard(id(node))
            if not editor.alive(node) or id(node) in closed:
                continue
            again = self._visit(node, stage, index, editor)
            for other in again:
                if editor.alive(other) and id(other) not in queued:
                    queued.add(id(other))
                    todo.append(other)
            if len(self.report.changes) > budget:
                raise self._unsettled(stage)
        changed = len(self.report.changes) > before
        if changed:
            editor.finish()
        return changed

    def _visit(
        self, node: Any, stage: Replacing, index: dict[str, list[Rule]], editor: Editor
    ) -> Iterable[Any]:
        """Asks the rules about a node; returns the nodes to look at again."""
        view = Node(self.model, node)
        if any(tensor.dtype is None or tensor.shape is None for tensor in node.outputs):
            infer_outputs(self.model, node)  # what it reads may have been rewritten a moment ago
        for rule in (rule for root in (view.operator, ANY) for rule in index.get(root, ())):
            key = (rule.id, view.name)
            if key in self.refused:
                continue
            self.model.asked_limits = {}
            try:
                answer = rule(view)
            except Skip as reason:
                self.misses[key] = str(reason)
                self.asked[key] = self.model.asked_limits
                continue
            except Exception as error:
                self._refuse(rule, stage, view, f"the rule raised {told(error, rule.path)}")
                continue
            self.misses.pop(key, None)
            if answer is None:
                continue
            asked, made = self.model.asked_limits, len(self.report.changes)
            touched = self._apply(rule, stage, view, answer, editor)
            for change in self.report.changes[made:]:
                self.report.changes[-1] = replace(change, limits=asked)
            if touched is not None:
                return touched
        return ()

    def _apply(
        self, rule: Rule, stage: Replacing, view: Node, answer: Any, editor: Editor
    ) -> list[Any] | None:
        """Proves an answer and puts it into the graph; None where it is not kept."""
        if isinstance(answer, Interface):
            return self._change_interface(rule, stage, view, answer, editor)
        if not isinstance(answer, Assuming):
            return self._try(rule, stage, view, answer, editor)
        sizes, was = self.model.assumed, self.model.assumed.get(answer.dim)
        sizes[answer.dim] = answer.size  # for the proof; for good where the change is kept
        touched = self._try(rule, stage, view, answer.results, editor)
        if touched is not None:
            self._assume(answer)
        elif was is None:
            del sizes[answer.dim]
        else:
            sizes[answer.dim] = was
        return touched

    def _try(self, rule: Rule, stage: Replacing, view: Node, answer: Any, editor: Editor) -> list[Any] | None:
        claim, answer = claim_of(answer)
        try:
            results = _by_output(answer, view)
            read = {i: v for i, v in results.items() if editor.is_read(view.node.outputs[i])}
            if bool(read) != bool(results) or (not read and not editor.is_unread(view.node)):
                return None
            results = read
            validate(tuple(results.values()), view.opset)
            claim = narrowed(claim, view, results)
        except (ValueError, TypeError, AttributeError) as error:
            self._refuse(rule, stage, view, f"the replacement is not valid: {error}")
            return None
        proof, snippet = self._proof(view, results, claim)
        accepted = rule.id in self.accept and bool(proof.offer)
        if accepted:
            why = reason(ACCEPTED, "accept", offer=proof.offer)
            proof = replace(proof, verdict="unproven", why=why, example=None)
        if proof.verdict == "unproven" and snippet is None and self._is_stale():
            return None  # types are not known here: after this sweep they are inferred again
        name = view.name
        if proof.verdict == "failed" or (self.prove == "always" and not (proof.holds or accepted)):
            saved = None
            if proof.verdict == "failed" and snippet is not None and self.reproducers is not None:
                saved = str(save_reproducer(snippet, self.reproducers, f"{rule.id}-{name}", proof.example))
            self.refused.add((rule.id, name))
            self.report.rejected.append(Change(rule.id, stage, name, (), (), proof, saved))
            return None
        drawn = self._drawn[rule.id] < CHANGES
        above = sketched_above(view) if drawn else {}
        if results:
            edit = editor.replace(view, results)
            if edit is None:
                return None
            added, removed, gone, touched = edit.added, edit.removed, edit.gone, edit.touched
        else:
            producers = [p for tensor in view.node.inputs for p in tensor.inputs]
            added, removed, touched = [], editor.remove_unread([view.node]), producers
            gone = tuple(str(n.name) for n in removed)
        self.report.exact = self.report.exact and claim.is_exact and not accepted
        self.report.accepted = self.report.accepted or accepted
        self.report.steps = self.report.steps or claim.steps > 0
        self._drawn[rule.id] += drawn
        self.report.changes.append(
            Change(
                rule.id,
                stage,
                name,
                gone,
                tuple(str(n.name) for n in added),
                proof,
                sketch=sketch(above, removed, added) if drawn else None,
            )
        )
        users = [user for n in added for tensor in n.outputs for user in tensor.outputs]
        return [*added, *touched, *users, view.node]

    def _change_interface(
        self, rule: Rule, stage: Replacing, view: Node, answer: Interface, editor: Editor
    ) -> list[Any] | None:
        """Gives an input or output another type or shape, where that is allowed and loses nothing."""
        tensor = answer.tensor
        is_output = tensor in self.model.outputs
        kind, key = "output" if is_output else "input", (rule.id, view.name)
        if (not is_output and not tensor.is_input) or tensor.dtype is None:
            self._refuse(rule, stage, view, f"{tensor.name!r} is no input or output of the model")
            return None
        if not self.interface:
            self.misses[key] = noted("interface-change", why=answer.because, kind=kind, tensor=tensor.name)
            return None
        try:
            convert = conversion(self.model, tensor, answer.convert)
            if is_output and tensor.producer is not None:
                producer = tensor.producer
                again = remake(producer, *producer.inputs, outputs=len(producer.outputs))
                index = producer.outputs.index(tensor)
                was = again if len(producer.outputs) == 1 else again[index]
                proof, _ = self.prover.prove(
                    self.model, producer, {index: answer.restore(answer.convert(was))}, Claim()
                )
            else:
                small = identity(self.model, tensor.dtype, tensor.shape)
                root = small.nodes[0]
                both = answer.restore(answer.convert(root.operands(1)[0] or root.outputs[0]))
                proof, _ = self.prover.prove(small, root, {0: both}, Claim())
        except Exception as error:
            self._refuse(rule, stage, view, f"the conversion is not valid: {told(error, rule.path)}")
            return None
        name = tensor.name
        if not proof.holds:
            self.refused.add(key)
            self.report.rejected.append(Change(rule.id, stage, name, (), (), proof))
            return None
        edit = change_interface(self.model, editor, tensor, answer.convert, answer.restore)
        self.model.interface_changes.append(InterfaceChange(kind, name, convert, rule.id, answer.because))
        added = tuple(str(node.name) for node in edit.added) if edit is not None else ()
        self.report.changes.append(Change(rule.id, stage, view.name, (), added, proof))
        return [*(edit.added if edit is not None else ()), view.node]

    def _is_stale(self) -> bool:
        """Whether this sweep changed something since shapes and types were inferred."""
        return self.prove != "never" and len(self.report.changes) > self._swept_from

    def _proof(self, view: Node, results: Replacement, claim: Claim) -> tuple[Proof, Any]:
        if not results:
            return Proof("exact", why="nothing reads it"), None
        if self.prove == "never":
            return Proof("unproven", why="proofs are off"), None
        return self.prover.prove(self.model, view, results, claim)

    def _assume(self, assuming: Assuming) -> None:
        flag = "--assume" if code_of(assuming.why) == STATED.code else "proved"
        stated = {(entry.name, entry.value) for entry in self.report.assumptions}
        if (assuming.dim, assuming.size) not in stated:
            self.report.assumptions.append(Assumption(flag, assuming.dim, assuming.size, assuming.why))

    def _refuse(self, rule: Rule, stage: Replacing, view: Node, why: str) -> None:
        self.refused.add((rule.id, view.name))
        proof = Proof("failed", why=Reason(AT_FAULT, why, rule.id))
        self.report.rejected.append(Change(rule.id, stage, view.name, (), (), proof))

    def _unsettled(self, stage: Replacing) -> Unsettled:
        recent = Counter(change.rule for change in self.report.changes[-200:])
        rules = [name for name, _ in recent.most_common(2)]
        doing = "undo each other" if len(recent) > 1 else "fires again and again"
        count = len(self.report.changes)
        return Unsettled(
            f"stage {stage!r} does not end after {count} changes: {' and '.join(rules)} {doing}", rules
        )


def _by_output(answer: Any, view: Node) -> Replacement:
    results = answer if isinstance(answer, Mapping) else {0: answer}
    for index, value in results.items():
        is_value = isinstance(value, Value | np.ndarray | np.generic)
        if index not in range(len(view.node.outputs)):
            count = len(view.node.outputs)
            raise TypeError(f"keys are output numbers, 0 to {count - 1}; {index!r} is none of {view.op}")
        if not is_value:
            what = f"{type(value).__name__} for output {index}"
            raise TypeError(f"a rule returns a value, or values by output; this is {what}")
    return {i: np.asarray(v) if isinstance(v, np.generic) else v for i, v in results.items()}


Conversion = Callable[[Value], Value]


@dataclass(frozen=True, slots=True)
class InterfaceChange:
    """An input or an output that is another one now.

    Attributes:
        kind: `input` or `output`.
        name: its name, which stays.
        convert: a model that makes the new one's values (`new`) of the old one's (`old`).
        rule: the rule that changes it.
        because: why.
    """

    kind: str
    name: str
    convert: onnx.ModelProto
    rule: str
    because: str


def identity(model: Model, dtype: np.dtype, shape: Shape | None) -> Model:
    """A model of its own, of the same opset, that hands on one tensor: `new` is `old`."""
    proto = onnx.ModelProto(ir_version=model.envelope.ir_version)
    proto.opset_import.extend(model.envelope.opset_import)
    proto.graph.name = "convert"
    proto.graph.input.append(value_info("old", dtype, shape))
    proto.graph.output.append(value_info("new", dtype, None))
    proto.graph.node.add(op_type="Identity", input=["old"], output=["new"], name="hand_on")
    return Model.open(proto)


def conversion(model: Model, tensor: Tensor, convert: Conversion) -> onnx.ModelProto:
    """The model of a conversion of values of a tensor."""
    assert tensor.dtype is not None
    small = identity(model, tensor.dtype, tensor.shape)
    root = Node(small, small.graph.nodes[0])
    source = root.inputs[0]
    assert source is not None
    small.graph.outputs[0].dtype = small.graph.outputs[0].shape = None  # those of what replaces it
    editor = Editor(small)
    editor.replace(root, {0: convert(source)})
    editor.finish()
    small.infer_shapes()
    return small.to_proto()


def change_interface(
    model: Model, editor: Editor, tensor: Tensor, convert: Conversion, restore: Conversion
) -> Edit | None:
    """Puts a conversion between the graph and its caller.

    Args:
        model: the model.
        editor: its editor.
        tensor: an input or output of the main graph.
        convert: makes the new tensor's values of the old one's: an output's, in the graph.
        restore: makes the old tensor's values of the new one's: an input's, in the graph.
    """
    old = tensor.tensor
    if tensor.is_input:
        place = next(i for i, entry in enumerate(model.graph.inputs) if entry is old)
        new = type(old)(old.name)
        made = convert(tensor)
        new.dtype, new.shape = made.dtype, made.shape
        old.name = model.unique(f"{old.name}_was")
        model.graph.inputs[place] = new
        return editor.compute(old, new, restore(Tensor(model, new)))
    place = next(i for i, entry in enumerate(model.graph.outputs) if entry is old)
    name, old.name = old.name, model.unique(f"{old.name}_was")
    new = type(old)(name)
    model.graph.outputs[place] = new
    del model.graph_outputs[id(old)]
    model.graph_outputs[id(new)] = model.graph
    return editor.compute(new, old, convert(tensor))

"""Sanitizing: the rules over a model, and what is done when the repaired model is another one as a whole.

Then one of the changes is wrong although it was proved by itself. The rules are run again over the model
as it was, with fewer and fewer changes, until it is known with which one the difference begins. That one
is left out, and named in the report.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace

from onnxq.base.errors import Fault, UserError, cause_of
from onnxq.base.reason import Reason, noted, reason
from onnxq.base.shown import counted
from onnxq.emit.files import save_model
from onnxq.graph.model import Model
from onnxq.graph.named import named
from onnxq.graph.spool import LARGE, weight_bytes
from onnxq.options.command_line import without_refused
from onnxq.options.settings import Prove
from onnxq.rewrite.changes import Change
from onnxq.rewrite.engine import RewriteReport, Unsettled, rewrite
from onnxq.rewrite.proof import Proof
from onnxq.rewrite.prover import Prover
from onnxq.rewrite.reproducer import new_folder, place
from onnxq.rewrite.whole import CHANGES, Differs, WholeModel, proof_of
from onnxq.rule.api import REPLACING, Replacing, Rule
from onnxq.run import ort
from onnxq.run.versions import operators

_MOST = 8
"""So many changes are searched for and left out, one by one, before a stage is left out as a whole."""


@dataclass(frozen=True, slots=True)
class _Tried:
    """A model with some of the changes, and how it differs from the original ("": not at all)."""

    model: Model
    report: RewriteReport
    difference: str = ""


class Sanitizing:
    """The rules' run over a model, repeated without what turns out to be wrong."""

    def __init__(
        self,
        rules: Sequence[Rule],
        lacks: Callable[[str], bool],
        prove: Prove,
        whole: WholeModel | None,
        fresh: Callable[[], Model],
        observe: Callable[[str], None],
        interface: bool = False,
        accept: Collection[str] = (),
    ) -> None:
        """Takes what `rewrite` takes, and `fresh`, which opens the model as it was."""
        self._rules, self._lacks, self._prove = list(rules), lacks, prove
        self._whole, self._fresh, self._observe = whole, fresh, observe
        self._interface, self._accept = interface, accept
        self._prover = Prover(loops=prove != "always")
        self._left_out: list[Change] = []
        self._stage: Replacing = REPLACING[0]
        self._folder = place()

    def run(self, model: Model) -> tuple[Model, RewriteReport]:
        """Runs the rules.

        Returns:
            The repaired model, and what was done and left out.

        Raises:
            UserError: what the user states of the model cannot be.
            Fault: the model is another one whatever is left out.
        """
        inlined = self._inlined(model)
        while True:
            try:
                with ort.made_up():
                    report = self._attempt(model, self._whole)
            except (UserError, MemoryError):
                raise
            except Differs as error:
                self._leave_out(error)
            except Unsettled as error:
                rules = [rule for rule in self._rules if rule.id in error.rules]
                self._drop(rules, " and ".join(error.rules), str(error), error)
            except Exception as error:  # a fault of ours: the stage is as if it had not been
                self._drop_stage(
                    noted("stage-dropped.fault", stage=self._stage, cause=cause_of(error)), error
                )
            else:
                report.rejected[:0] = self._left_out
                report.changes[:0] = inlined
                return model, report
            del model  # two large ones would be in memory at a time
            model = self._fresh()

    def _inlined(self, model: Model) -> list[Change]:
        """That a model's own functions were put where they are called.

        Raises:
            UserError: they are not what onnxruntime runs in their place.
        """
        count = len(model.source.functions) - len(model.envelope.functions)
        if count <= 0:
            return []
        proof = Proof("unproven", why="proofs are off")
        try:
            if self._whole is not None:
                proof = proof_of(self._whole.compare(model, "inline", exact=False))
        except Differs as error:
            own = sorted({(one.domain, one.name) for one in model.source.functions} & operators())
            names = " (" + ", ".join(repr(".".join(one)) for one in own) + ")" if own else ""
            raise UserError(
                f"the model's own functions{names} are not what onnxruntime runs: "
                f"with them put where they are called, {error}",
                hint="onnxruntime has operators of these names: give the functions others"
                if own
                else "export the model again without functions of its own",
            ) from error
        return [Change("inline_functions", "upgrade", counted(count, "function"), (), (), proof)]

    def _attempt(self, model: Model, whole: WholeModel | None, limit: int | None = None) -> RewriteReport:
        """Runs the rules; once more after sizes that changes rely on are written into the inputs."""
        report, takes = RewriteReport(), named(model)
        self._rewrite(model, report, whole, limit)
        if model.assumed and (limit is None or len(report.changes) < limit):
            model.bind_dims(model.assumed)
            model.infer_shapes()
            self._rewrite(model, report, whole, limit)
        report.near_misses = [
            replace(one, reason=without_refused(one.reason, takes)) for one in report.near_misses
        ]
        return report

    def _rewrite(
        self, model: Model, report: RewriteReport, whole: WholeModel | None, limit: int | None
    ) -> None:
        before = len(report.changes)
        try:
            rewrites = rewrite(
                model,
                self._rules,
                self._lacks,
                prove=self._prove,
                reproducers=self._folder if limit is None else None,
                whole=whole,
                exact=report.exact,
                steps=report.steps,
                observe=self._watch,
                prover=self._prover,
                refused=[(change.rule, change.node) for change in self._left_out],
                limit=None if limit is None else limit - before,
                interface=self._interface,
                accept=self._accept,
                accepted=report.accepted,
            )
        except Differs as error:
            error.changes, error.equal = error.changes + before, error.equal + before
            raise
        report.changes += rewrites.changes
        report.rejected += rewrites.rejected
        report.near_misses = rewrites.near_misses
        report.assumptions += rewrites.assumptions
        report.whole += rewrites.whole
        report.exact, report.steps, report.accepted = rewrites.exact, rewrites.steps, rewrites.accepted

    def _watch(self, stage: str) -> None:
        self._stage = next(known for known in REPLACING if known == stage)
        self._observe(stage)

    # -- what is wrong -------------------------------------------------------------------------

    def _leave_out(self, error: Differs) -> None:
        """Finds the change with which the whole model becomes another one, and leaves it out."""
        stage = self._stage
        culprit = self._search(error.equal, error.changes) if len(self._left_out) < _MOST else None
        if culprit is not None:
            self._left_out.append(culprit)
            return
        self._stage = stage
        self._drop_stage(noted("stage-dropped.differs", stage=stage, difference=error), error)

    def _search(self, low: int, high: int) -> Change | None:
        """Bisects: a model with `low` changes is still the original, one with `high` is not."""
        self._observe("search")
        last = self._with(high)
        while last is not None and high - low > 1:
            middle = (low + high) // 2
            trial = self._with(middle)
            if trial is None or trial.difference:
                high, last = middle, trial
            else:
                low = middle
        if last is None or not last.difference:  # it does not repeat
            return None
        change = last.report.changes[-1]
        proof = replace(change.proof, verdict="failed", why=_why_that(last, change))
        return replace(change, removed=(), added=(), proof=proof, reproducer=self._save(last, low))

    def _with(self, changes: int) -> _Tried | None:
        """The model with so many changes; None where the run does not repeat."""
        assert self._whole is not None
        model = self._fresh()
        report = self._attempt(model, None, changes)
        if len(report.changes) != changes:
            return None
        try:
            self._whole.compare(model, "", exact=report.exact, steps=report.steps)
        except Differs as error:
            return _Tried(model, report, str(error))
        return _Tried(model, report)

    def _save(self, wrong: _Tried, low: int) -> str:
        """Saves the model before and after a change, and the inputs that tell them apart."""
        assert self._whole is not None
        change = wrong.report.changes[-1]
        folder = new_folder(self._folder, f"{change.rule}-{change.node}")
        self._whole.save_inputs(folder / "inputs.npz")
        right = self._with(low)
        for name, tried in (("before", right), ("after", wrong)):
            if tried is not None and weight_bytes(proto := tried.model.to_proto()) < LARGE:
                save_model(proto, folder / f"{name}.onnx", tried.model.data_dir)
        return str(folder)

    def _drop_stage(self, why: str, error: Exception) -> None:
        stage = self._stage
        self._drop([rule for rule in self._rules if rule.stage == stage], f"all of stage {stage}", why, error)

    def _drop(self, rules: Sequence[Rule], name: str, why: str, error: Exception) -> None:
        """Leaves out rules, under one name."""
        if not rules:
            raise Fault(why, hint="leave rules out: skip under [repair] of onnxq.toml") from error
        folder = new_folder(self._folder, name)
        (folder / "fault.txt").write_text("".join(traceback.format_exception(error)), "utf-8", "replace")
        dropped = {rule.id for rule in rules}
        self._rules = [rule for rule in self._rules if rule.id not in dropped]
        proof = Proof("failed", why=f"{why}; left out: {', '.join(sorted(dropped))}")
        stage = next(known for known in REPLACING if known == rules[0].stage)
        self._left_out.append(Change(name, stage, "", (), (), proof, str(folder)))


def _why_that(tried: _Tried, change: Change) -> Reason:
    """What is said of a change with which the whole model is another one.

    Where it claims no more than to be close, and the model rounds to codes, its rule may be right.
    """
    if tried.difference.startswith(CHANGES) and tried.report.steps and change.proof.verdict == "close":
        return reason("grows", difference=tried.difference)
    return reason("differs", difference=tried.difference)

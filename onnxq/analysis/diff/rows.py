"""What two runs differ in, as rows; and the judge, who says which of them are worse."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.base.shown import Shown, Words
from onnxq.options.settings import Margins

_ROWS = 10

Cell = str | int | float | bool | None

WORSE, BETTER, WITHIN, OTHER = "worse", "better", "within", "other"
VERDICTS = (WORSE, BETTER, OTHER, WITHIN)
"""In the order in which rows stand."""


@dataclass(frozen=True, slots=True)
class RunDifference(DocumentPart):
    """One thing that run B has otherwise than run A.

    Attributes:
        verdict: "worse" or "better" where B is so by more than the margin, "within" where it differs by no
            more than that, "other" where neither is better.
        part: what it is about: "accuracy", "goal", "plan", "scales", "body", "changes", "repair", "engine",
            "files", "settings".
        what: the figure or the property.
        name: the output, node, tensor, rule, ... that it is of; "" for the whole run.
        node: the node that it concerns, "" where it is none's.
        a: what it is in run A; None: there is none.
        b: what it is in run B.
        change: B less A in `unit`; of a scale B divided by A; None where it is no number.
        unit: "dB", "points" (hundredths), "%", "ratio", "" for counts and for what is no number.
        weight: how many margins it is apart; of a scale the magnitude of log2 of the ratio; infinite for what
            has no margin (a model that does not compile any more), 0 for what is not judged.
        why: the reason that a report gives, "" for none.
    """

    verdict: str
    part: str
    what: str
    name: str
    node: str
    a: Cell
    b: Cell
    change: float | None
    unit: str
    weight: float
    why: str


@dataclass(frozen=True, slots=True)
class MissingPart(DocumentPart):
    """A part that was not compared.

    Attributes:
        part: as of `RunDifference`.
        of: whose report lacks it: "A", "B" or "both".
        why: why, as far as the report says it.
    """

    part: str
    of: str
    why: str


@dataclass(frozen=True, slots=True)
class ComparedRun(DocumentPart):
    """Whose report is compared.

    Attributes:
        report: the report's file.
        onnxq: the version of onnxq that wrote it.
        schema: the report's schema.
        model: the model that was read, "" where it was none of a file.
        output: the model that was written, "" where none was.
        target: the TensorRT that it is for, "" where the report does not say.
    """

    report: str
    onnxq: str
    schema: int
    model: str
    output: str
    target: str


@dataclass(frozen=True, slots=True, repr=False)
class RunDiff(Shown, DocumentPart):
    """What run B has otherwise than run A.

    Attributes:
        kind: "diff".
        schema: 1.
        a: run A.
        b: run B.
        margins: by how much a figure may be worse, see `onnxq.Margins`.
        counts: how many rows have each verdict.
        differences: the rows: the worst first, then what is better, what is neither, what is within a margin.
        compared: the parts that both reports have.
        missing: the parts that are not compared.
        notes: what makes the comparison doubtful.
    """

    kind: str
    schema: int
    a: ComparedRun
    b: ComparedRun
    margins: Mapping[str, float]
    counts: Mapping[str, int]
    differences: tuple[RunDifference, ...]
    compared: tuple[str, ...]
    missing: tuple[MissingPart, ...]
    notes: tuple[str, ...]

    def words(self) -> Words:
        """How much is worse and better, the worst first."""
        each = [f"{number} {verdict}" for verdict, number in self.counts.items()]
        rows = [
            (one.verdict, one.part, one.what, one.name, str(one.a), str(one.b))
            for one in self.differences[:_ROWS]
        ]
        columns = ("verdict", "part", "what", "of", "A", "B")
        return Words(f"{self.b.report} against {self.a.report}", each, columns, rows)

    @property
    def worse(self) -> int:
        """How many rows say that B is worse."""
        return self.counts[WORSE]


@dataclass(slots=True)
class Judge:
    """Gathers the rows of a part.

    Attributes:
        margins: by how much a figure may be worse.
        part: the part that is compared now.
        rows: all rows.
    """

    margins: Margins
    part: str = ""
    rows: list[RunDifference] = field(default_factory=list)

    def figure(
        self,
        what: str,
        a: float | None,
        b: float | None,
        *,
        unit: str,
        name: str = "",
        node: str = "",
        better: int = 1,
        why: str = "",
    ) -> None:
        """A figure with a margin.

        Args:
            what: the figure.
            a: that of run A; None: not measured.
            b: that of run B.
            unit: "dB"; "points", of a share from 0 to 1; "%", of what is compared by its ratio.
            name: what it is of.
            node: the node that it concerns.
            better: 1 where more is better, -1 where less is, 0 where neither is.
            why: a reason.
        """
        if a is None or b is None:
            self.other(what, a, b, name=name, node=node, why=why or noted("two-reports.one-run"))
            return
        if a == b:
            return
        change = self._change(a, b, unit)
        if abs(change) < 1e-9:
            return
        margin = {"dB": self.margins.margin_db, "points": self.margins.margin_points}.get(
            unit, self.margins.margin_percent
        )
        verdict = OTHER if not better else WITHIN
        if better and abs(change) > margin:
            verdict = BETTER if change * better > 0 else WORSE
        weight = abs(change) / margin if margin else math.inf
        self._add(verdict, what, name, node, a, b, change, unit, weight if better else 0.0, why)

    @staticmethod
    def _change(a: float, b: float, unit: str) -> float:
        if math.isinf(a) or math.isinf(b):
            return math.inf if b > a else -math.inf
        if unit == "points":
            return 100 * (b - a)
        if unit == "%":
            return 100 * (b - a) / abs(a) if a else math.copysign(math.inf, b)
        return b - a

    def count(self, what: str, a: float | None, b: float | None, *, better: int = 0, name: str = "") -> None:
        """A number without a margin: any more, or any less, is worse where one is better."""
        if a == b:
            return
        if a is None or b is None:
            self.other(what, a, b, name=name, why=noted("two-reports.one-report"))
            return
        change = b - a
        verdict = OTHER if not better else BETTER if change * better > 0 else WORSE
        self._add(verdict, what, name, "", a, b, change, "", math.inf if better else 0.0, "")

    def state(
        self, verdict: str, what: str, a: Cell, b: Cell, *, name: str = "", node: str = "", why: str = ""
    ) -> None:
        """What is no number, and worse, better or neither whatever the margins are."""
        if a != b:
            self._add(verdict, what, name, node, a, b, None, "", 0.0 if verdict == OTHER else math.inf, why)

    def other(self, what: str, a: Cell, b: Cell, *, name: str = "", node: str = "", why: str = "") -> None:
        """What is neither worse nor better."""
        self.state(OTHER, what, a, b, name=name, node=node, why=why)

    def layer(
        self, what: str, a: Cell, b: Cell, *, share: float | None, gained: bool, node: str, why: str
    ) -> None:
        """What a layer of the plan became: worse or better where its share of the work is beyond the margin.

        Args:
            what: the property.
            a: what it is in run A.
            b: what it is in run B.
            share: the layer's share of the multiply-accumulates; None: not known, which counts as much.
            gained: whether B has it quantized, and A does not.
            node: the layer.
            why: why it is float.
        """
        points = math.inf if share is None else 100 * share
        margin = self.margins.margin_points
        verdict = WITHIN if points <= margin else BETTER if gained else WORSE
        weight = points / margin if margin else math.inf
        self._add(verdict, what, node, node, a, b, None, "", weight, why)

    def ratio(self, what: str, a: float, b: float, *, name: str, node: str, why: str) -> None:
        """Two scales."""
        if a == b:
            return
        sane = a > 0 and b > 0 and math.isfinite(a) and math.isfinite(b)
        change = b / a if sane else None
        if change is not None and abs(change - 1) <= 1e-6:  # a float32's last places
            return
        weight = math.inf if change is None else abs(math.log2(change)) if change > 0 else math.inf
        self._add(OTHER, what, name, node, a, b, change, "ratio", weight, why)

    def _add(
        self, verdict: str, what: str, name: str, node: str, a: Cell, b: Cell, change: float | None,
        unit: str, weight: float, why: str,
    ) -> None:  # fmt: skip
        self.rows.append(RunDifference(verdict, self.part, what, name, node, a, b, change, unit, weight, why))

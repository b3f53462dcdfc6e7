"""What is seen, why, what repairs it, what that costs: of all checks, findings, causes, doubts and messages.

What rules quote and do is taken from them; the rest stands in `base/catalogue/`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from onnxq.base.catalogue import Fact, table
from onnxq.base.errors import UserError
from onnxq.base.grouped import grouped
from onnxq.base.plain import DocumentPart
from onnxq.base.shown import Shown, Words, count
from onnxq.checks.load import CHECKS
from onnxq.options.flag_words import tells_keywords
from onnxq.rule.api import Rule
from onnxq.rule.known_message import KNOWN
from onnxq.rule.load import load_rules
from onnxq.rule.messages import quotations

GROUPS: Mapping[str, tuple[str, str]] = {
    "file": ("Why a file is rejected, or does not run as it asks for", "docs/lint.md"),
    "scales": ("Scales that do not suit your data", "docs/lint.md"),
    "answer": ("What speaks against a result, and why", "docs/advice.md"),
    "samples": ("What is doubtful about samples", "docs/data.md"),
    "message": ("What TensorRT prints, and no rule repairs", "docs/tensorrt-says.md"),
    "rule": ("What TensorRT prints, and onnxq sanitize repairs", "docs/reference/rules.md"),
}
"""By a word for programs: the heading, and the page that says more."""


@dataclass(frozen=True, slots=True)
class Symptom(DocumentPart):
    """Something that is seen, and what to do about it.

    Attributes:
        group: where it belongs, one of `GROUPS`.
        code: the check, the finding or cause, the doubt, the message or the rule, as documents name it.
        seen: what is seen.
        cause: why.
        repair: what to do.
        costs: what that costs.
    """

    group: str
    code: str
    seen: str
    cause: str
    repair: str
    costs: str


@dataclass(frozen=True, slots=True, repr=False)
class SymptomTable(Shown, DocumentPart):
    """Symptoms.

    Attributes:
        kind: "symptoms".
        schema: 1.
        entries: they, by group.
    """

    kind: str
    schema: int
    entries: tuple[Symptom, ...]

    def words(self) -> Words:
        """What is seen, why, what to do, and what that costs."""
        rows = [(one.seen, one.cause, one.repair, one.costs) for one in self.entries]
        return Words(count(len(rows), "symptom"), (), ("seen", "cause", "repair", "costs"), rows)


@tells_keywords
def symptoms(word: str | None = None) -> SymptomTable:
    """What is seen, why, what repairs it, and what that costs.

    Args:
        word: only what has this text in it, in upper or lower case; None: all.

    Raises:
        UserError: nothing has it.
    """
    entries = tuple(_entries())
    if word is None:
        return SymptomTable("symptoms", 1, entries)
    folded = word.casefold()
    found = tuple(
        one
        for one in entries
        if any(folded in text.casefold() for text in (one.code, one.seen, one.cause, one.repair, one.costs))
    )
    if not found:
        raise UserError(
            f"no symptom has {word!r} in it",
            hint="onnxq help symptoms lists all; onnxq rules explain --message TEXT knows messages",
        )
    return SymptomTable("symptoms", 1, found)


def symptoms_page() -> str:
    """The page of all of them, in Markdown."""
    lines = [
        "# Symptoms", "",
        "This page says what is seen, why, what repairs it, and what that costs. It has each check, each",
        "finding and cause of the answer, each doubt about samples, and each message of TensorRT's that is",
        "known. `onnxq help symptoms WORD` shows those with a word in them. `onnxq rules explain --message",
        "TEXT` finds a message by a part of it. `make reference` writes this page.",
    ]  # fmt: skip
    for group, entries in grouped((one.group, one) for one in symptoms().entries).items():
        title, page = GROUPS[group]
        to = page.replace("docs/reference/", "").replace("docs/", "../")
        lines += [
            "", f"## {title}", "", f"More: [{page}]({to}).", "",
            "| seen | cause | repair | costs | named |", "|---|---|---|---|---|",
        ]  # fmt: skip
        for one in entries:
            link = f"[{one.code}](rules.md#{one.code})" if group == "rule" else f"`{one.code}`"
            lines.append(
                f"| {' | '.join(map(_cell, (one.seen, one.cause, one.repair, one.costs)))} | {link} |"
            )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def _entries() -> Iterator[Symptom]:
    for group, needs in (("file", False), ("scales", True)):
        for name, check in CHECKS.items():
            if (check.needs in ("data", "plan")) == needs:
                yield _of_row("checks", group, name)
    for group, file in (("answer", "answers"), ("samples", "samples")):
        yield from (_of_row(file, group, name) for name in table(file))
    for name, said in KNOWN.items():
        cause, _, do = said.do.partition(": ")
        yield Symptom("message", name, said.seen, cause, do or said.do, said.costs)
    yield from filter(None, map(_of_rule, sorted(load_rules(()), key=lambda rule: rule.id)))


def _of_row(file: str, group: str, name: str) -> Symptom:
    seen, cause, repair, costs = (
        Fact(name).text(file, part) for part in ("seen", "cause", "repair", "costs")
    )
    return Symptom(group, name, seen, cause, repair, costs)


def _of_rule(rule: Rule) -> Symptom | None:
    """What a rule repairs, by the first message that it quotes; None where it quotes none."""
    quoted = quotations(rule.doc)
    if not quoted:
        return None
    operators = ", ".join(rule.roots[:3]) + ", ..." * (len(rule.roots) > 3)
    cause = "a node that TensorRT does not take" if "*" in rule.roots else f"{operators} as it stands"
    costs = "what the rule says; its proof compares the values"
    return Symptom("rule", rule.id, quoted[0], cause, f"onnxq sanitize: {rule.summary}", costs)

"""What onnxq knows to do: the rules, their documentation, and what is known of TensorRT's messages."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from onnxq.base.errors import OnnxqError, unknown_name
from onnxq.base.plain import DocumentPart
from onnxq.base.progress import Observer, told
from onnxq.base.reason import say
from onnxq.base.shown import Shown, Words, count
from onnxq.inspection.examples import check_rule
from onnxq.options.flag_words import tells_keywords
from onnxq.rule.api import Rule
from onnxq.rule.load import load_rules
from onnxq.rule.messages import Match, known_of
from onnxq.rule.page import markdown
from onnxq.run import ort
from onnxq.targets import DEFAULT, compiled_here, load_target

PathLike = str | os.PathLike[str]
_ROWS = 200


@dataclass(frozen=True, slots=True)
class RuleEntry(DocumentPart):
    """A rule.

    Attributes:
        id: its name.
        stage: when it runs: clean, compat, fuse or quant.
        operators: those that it looks at, `*` for all.
        lacks: what a target has to lack for it; None: it does not matter.
        default: whether it runs without being asked for.
        aliases: other names of it.
        summary: what it does, in a line.
        file: where it stands.
    """

    id: str
    stage: str
    operators: tuple[str, ...]
    lacks: str | None
    default: bool
    aliases: tuple[str, ...]
    summary: str
    file: str


@dataclass(frozen=True, slots=True)
class ExplainedRule(RuleEntry):
    """A rule with its documentation.

    Attributes:
        doc: the documentation.
    """

    doc: str


@dataclass(frozen=True, slots=True, repr=False)
class RuleList(Shown, DocumentPart):
    """Rules.

    Attributes:
        kind: "rules".
        schema: 1.
        rules: the rules.
    """

    kind: str
    schema: int
    rules: tuple[RuleEntry, ...]

    def words(self) -> Words:
        """What each does."""
        rows = [(one.id, one.stage, one.summary) for one in self.rules[:_ROWS]]
        return Words(count(len(self.rules), "rule"), (), ("rule", "stage", "what"), rows)


@dataclass(frozen=True, slots=True, repr=False)
class RuleText(Shown, DocumentPart):
    """A rule in full.

    Attributes:
        kind: "rule".
        schema: 1.
        rule: the rule.
    """

    kind: str
    schema: int
    rule: ExplainedRule

    def words(self) -> Words:
        """What it does."""
        return Words(f"{self.rule.id} ({self.rule.stage})", [self.rule.summary])


@dataclass(frozen=True, slots=True, repr=False)
class KnownOfMessage(Shown, DocumentPart):
    """What is known of a message.

    Attributes:
        kind: "message".
        schema: 1.
        message: what TensorRT printed.
        known: what is known of it, the most likely first.
    """

    kind: str
    schema: int
    message: str
    known: tuple[Match, ...]

    def words(self) -> Words:
        """The rules that repair it, or what to do."""
        rows = [(one.name, one.kind, one.summary) for one in self.known]
        head = f"{count(len(rows), 'rule')} or advice on the message" if rows else say("message.unknown")
        return Words(head, [f"{name}: {what}" for name, _, what in rows[:1]], ("name", "kind", "what"), rows)


@dataclass(frozen=True, slots=True)
class RuleTried(DocumentPart):
    """What the examples of a rule showed.

    Attributes:
        id: the rule's name.
        examples: how many it has.
        failure: what is wrong; None: nothing.
    """

    id: str
    examples: int
    failure: str | None


@dataclass(frozen=True, slots=True, repr=False)
class RulesTried(Shown, DocumentPart):
    """What the examples of rules showed.

    Attributes:
        kind: "tried-rules".
        schema: 1.
        rules: each rule.
    """

    kind: str
    schema: int
    rules: tuple[RuleTried, ...]

    @property
    def failed(self) -> int:
        """How many fail."""
        return sum(one.failure is not None for one in self.rules)

    def words(self) -> Words:
        """How many fail, and why."""
        rows = [(one.id, one.failure or "") for one in self.rules if one.failure is not None]
        head = f"{count(len(self.rules), 'rule')} tried, {self.failed or 'none'} failed"
        return Words(head, (), ("rule", "failure"), rows)


@tells_keywords
def list_rules(rules: Sequence[PathLike] = ()) -> RuleList:
    """The rules, by stage.

    Args:
        rules: folders of the user's own, beside the built-in ones; their Python is run.

    Raises:
        UserError: a folder or a rule cannot be read.
    """
    return RuleList("rules", 1, tuple(map(_entry, load_rules(rules))))


@tells_keywords
def explain_rule(name: str, *, rules: Sequence[PathLike] = ()) -> RuleText:
    """A rule's documentation.

    Args:
        name: its name, or another name of it.
        rules: as in `list_rules`.

    Raises:
        UserError: there is no such rule.
    """
    by_name = {alias: rule for rule in load_rules(rules) for alias in (rule.id, *rule.aliases)}
    if name not in by_name:
        raise unknown_name("rule", name, by_name)
    rule = by_name[name]
    entry = _entry(rule)
    fields = {field: getattr(entry, field) for field in RuleEntry.__slots__}
    return RuleText("rule", 1, ExplainedRule(**fields, doc=rule.doc))


@tells_keywords
def explain_message(
    message: str, *, target: PathLike = DEFAULT, rules: Sequence[PathLike] = ()
) -> KnownOfMessage:
    """The rules that repair what TensorRT said, or what to do about it; names and numbers may differ.

    Args:
        message: what it printed, a line or several.
        target: what the model is for.
        rules: as in `list_rules`.

    Raises:
        UserError: there is no such target, or a folder of rules cannot be read.
    """
    asked = load_target(target)
    targets = [asked, *(one for one in compiled_here() if one.name != asked.name)]
    return KnownOfMessage("message", 1, message, tuple(known_of(message, load_rules(rules), targets)))


@tells_keywords
def try_rules(folder: PathLike | None = None, *, observe: Observer | None = None) -> RulesTried:
    """Runs the examples of rules, and proves what they change.

    Args:
        folder: a folder of the user's own rules; None: the built-in ones.
        observe: is told how many are done.

    Raises:
        UserError: the folder cannot be read.
    """
    tell = told(observe)
    rules = load_rules((folder,) if folder is not None else ())
    chosen = [
        rule
        for rule in rules
        if folder is None or Path(rule.path).resolve().is_relative_to(Path(folder).resolve())
    ]
    tried: list[RuleTried] = []
    with ort.quiet():
        for done, rule in enumerate(chosen):
            tell("rules", done, len(chosen))
            failure = None
            try:
                check_rule(rule, rules)
            except OnnxqError as error:
                failure = str(error)
            except Exception as error:  # an example's text or a placement rule may raise anything
                failure = f"rule {rule.id!r}: {type(error).__name__}: {error}"
            tried.append(RuleTried(rule.id, len(rule.examples), failure))
    return RulesTried("tried-rules", 1, tuple(tried))


@tells_keywords
def rules_page() -> str:
    """The documentation of all built-in rules as one page of Markdown."""
    return markdown(load_rules(()))


def _entry(rule: Rule) -> RuleEntry:
    return RuleEntry(
        id=rule.id,
        stage=rule.stage,
        operators=tuple(rule.roots),
        lacks=rule.lacks,
        default=rule.default,
        aliases=tuple(rule.aliases),
        summary=rule.summary,
        file=str(rule.path),
    )

"""What TensorRT printed, and what is known of it: the rules that quote it, and the operators that it names.

Rules quote the parser's and the compiler's messages in their documentation, as indented lines. A message
that a user pastes has other names and numbers, so that only words are compared: each counts by how few of
the quotations have it. A quotation is found by the part of its own words that the message has; or, where
only a part of it was pasted, by the part of the message's words that it has.

Of several lines the first error that says more than that something failed is the cause: those behind it are
consequences, and what the parser prints around it is the node at which it noticed.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from onnxq.base.plain import DocumentPart
from onnxq.base.reason import noted
from onnxq.graph.value import operator_names
from onnxq.rule.api import Rule
from onnxq.rule.known_message import KNOWN
from onnxq.targets import Target

_ENOUGH = 0.7
"""The part of a quotation's words that a message has to have."""

_ALL_OF_IT = 0.9
"""The part of a message's words that a quotation has to have of which the message is a part."""

_OF_ANY = 0.8
"""What is said of any node counts less than what is known of one."""

_GENERAL = (1.0, _OF_ANY, _ENOUGH)
"""How much an entry counts, by how little it says."""

_NEAR = 0.9
"""What is as near as this to the best is shown beside it."""

_MOST = 5

_FEW = 3
"""Operators: a rule for more is for none of them above all."""

BY_OPERATOR = 0.9
"""A rule for an operator that is not taken; with less it repairs a form of it, perhaps another one."""

_ENDED = ("build-ended", "no-onnx-file", "no-engine")
"""With what a build ends, whatever it ended over."""

ANY_NODE = KNOWN["no-importer"].do
_OF_THE_PARSER = {name for name, said in KNOWN.items() if said.do == ANY_NODE}
"""What parsers say of any node."""


@dataclass(frozen=True, slots=True)
class Match(DocumentPart):
    """Something that is known of a message.

    Attributes:
        kind: `rule`, or `advice` where nothing repairs it.
        name: the rule's name, or the operator's or feature's.
        quoted: the line of the documentation that is like the message; "" where only the operator is named.
        summary: what the rule does, or what the user can do.
        score: how much of the quotation is in the message, at most 1.
    """

    kind: Literal["rule", "advice"]
    name: str
    quoted: str
    summary: str
    score: float


def known_of(message: str, rules: Sequence[Rule], targets: Sequence[Target]) -> list[Match]:
    """What is known of a message, the most likely first; none where nothing is.

    Args:
        message: what TensorRT printed, a line or several.
        rules: all rules.
        targets: they say which operators are not taken, and what to do about those that no rule repairs.
    """
    quoted = [(rule, line) for rule in rules for line in quotations(rule.doc)]
    lines = [*(line for _, line in quoted), *(said.seen for said in KNOWN.values() if not said.mark)]
    weights = _weights(lines)

    def known(text: str) -> list[Match]:
        return _known(text, quoted, weights, rules, targets)

    of_all, errors = known(message), errors_of(message)
    by_error = [match for one in errors for match in known(one)]
    if any(map(_is_telling, by_error)):
        of_all = [*filter(_is_telling, by_error), *filter(_is_telling, of_all)]
    elif errors:  # what a warning among them says is not the cause
        left = [match for match in by_error if match.name not in _ENDED] or by_error
        of_all = [*sorted(left, key=_says_little), *of_all]
    found: dict[str, Match] = {}
    for match in of_all:
        found.setdefault(match.name, match)
    return [*found.values()][:_MOST]


def _is_telling(match: Match) -> bool:
    """Whether it is known of what the message says, and not only of the operator or the kind of fault."""
    if match.kind == "rule" or match.name not in KNOWN:
        return bool(match.quoted)
    return not KNOWN[match.name].general


def _known(
    message: str,
    quoted: Sequence[tuple[Rule, str]],
    weights: Mapping[str, float],
    rules: Sequence[Rule],
    targets: Sequence[Target],
) -> list[Match]:
    """What is known of one message: see `known_of`."""
    words, operators = list(dict.fromkeys(_words(message))), set(_operators(message))
    named, says_little = {*operators, *_asked_for(message)}, _of_any_node(message)
    entries = []
    for rule, line in quoted:
        score = _score(line, words, weights)
        if not named & {*_roots(rule), *_operators(line)}:  # it is for another operator, or for none
            little = says_little or _of_any_node(line) or _is_of_the_name(line, rule, message)
            score *= 0.0 if little else 0.75 if named else 1.0
        entries.append(Match("rule", rule.id, line, rule.summary, score))
    for name, said in KNOWN.items():
        if said.mark:
            score = float(re.search(said.mark, message, re.IGNORECASE | re.DOTALL) is not None)
        else:
            score = _score(said.seen, words, weights)
        score *= _GENERAL[said.general]
        entries.append(Match("advice", name, said.seen, said.do, score))
    likely = [one for one in entries if one.score >= _ENOUGH]
    any_node = any(one.summary == ANY_NODE for one in likely) and not any(map(_is_telling, likely))
    entries += _of_operators(operators, rules, targets, any_node=any_node)
    entries = [_of_the_node(one, named) if one.summary == ANY_NODE else one for one in entries]
    best: dict[str, Match] = {}
    for match in sorted(entries, key=lambda match: (-match.score, -len(set(_words(match.quoted))))):
        if match.score >= _ENOUGH and not (_OF_THE_PARSER & {match.name} and _OF_THE_PARSER & best.keys()):
            best.setdefault(match.name, match)
    if any(match.kind == "rule" and match.quoted for match in best.values()):  # which says more
        best = {name: one for name, one in best.items() if name not in KNOWN or not KNOWN[name].general}
    top = max((match.score for match in best.values()), default=0.0)
    near = [match for match in best.values() if match.score >= _NEAR * top]
    near.sort(key=_says_little)
    if len(near) > _MOST:  # what so many rules quote says nothing of which one
        near = [match for match in best.values() if match.kind == "advice"] or near
    return near[:_MOST]


def quotations(doc: str) -> list[str]:
    """The messages that a rule's documentation quotes: indented lines that do not show the rewriting."""
    quoted: list[str] = []
    block: list[str] = []
    for line in [*doc.splitlines(), ""]:
        if line.startswith("    "):
            block.append(line.strip())
            continue
        if line.strip() or not block:
            block = [] if line.strip() else block
            continue
        if not any(re.match(r"(before|after)\b", one) for one in block):
            quoted += block
        block = []
    return quoted


def _words(text: str) -> Iterator[str]:
    """The words of a message: without quoted names, paths, places in sources, numbers, and what all have."""
    text = re.sub(r"'[^']*'|\"[^\"\s]*\"|\[?\S*\.cpp\S*|\S*/\S*|0x[0-9a-fA-F]+", " ", text)
    text = re.sub(r"API Usage Error|Internal Error|Parameter check failed|Error Code|condition:", " ", text)
    yield from (word.lower() for word in re.findall(r"(?:u?int|b?float)\d+|[a-z][a-z]+", text, re.IGNORECASE))


def _weights(lines: Iterable[str]) -> Mapping[str, float]:
    """How much each word of the quotations says: the rarer, the more."""
    sets = [set(_words(line)) for line in dict.fromkeys(lines)]
    counts = Counter(word for words in sets for word in words)
    return {word: math.log(1 + len(sets) / count) for word, count in counts.items()}


def _score(line: str, words: Sequence[str], weights: Mapping[str, float]) -> float:
    """How much of a quotation is in a message, or of the message in it."""
    own = set(_words(line))
    whole = math.fsum(weights[word] for word in own)  # in any order the same
    shared = own.intersection(words)
    if not whole or not shared:
        return 0.0
    rare = max(weights.values())
    both = math.fsum(weights[word] for word in shared)
    asked = math.fsum(weights.get(word, rare) for word in words)
    if both >= min(rare, whole) and both >= _ALL_OF_IT * asked:
        return max(both / whole, _ENOUGH)
    return both / whole if len(shared) >= min(2, len(own)) else 0.0


def _operators(message: str) -> Iterator[str]:
    """The operators of ONNX that a message names."""
    for word in re.findall(r"(?:\b|check|import|parse)([A-Z][A-Za-z0-9]+)", message):
        if word in operator_names():
            yield word


def _asked_for(message: str) -> Iterator[str]:
    """The operators that a message says it is about, those that are none of ONNX's among them."""
    for names in re.findall(_OPERATOR, message):
        yield from filter(None, names)


_OPERATOR = r"for op: ?(\w+)|operator: ?(\w+)|node number \d+ \[(\w+)|In function (?:import|check|parse)(\w+)"


def _says_little(match: Match) -> int:
    """0 for what a message is about, 1 for the node at which it was noticed, 2 for a rule of its operator."""
    if match.kind == "rule":
        return 0 if match.quoted or match.score >= BY_OPERATOR else 2
    return int(match.name in _OF_THE_PARSER)


def _of_the_node(match: Match, named: Collection[str]) -> Match:
    """What parsers say of any node, said of the operator that the message names."""
    if len(named) != 1:
        return match
    (name,) = named
    known = name in operator_names()
    return replace(
        match, summary=noted("named-operator.known" if known else "named-operator.plugin", op=name)
    )


def _of_any_node(line: str) -> bool:
    """Whether a line says no more than that a node is not taken."""
    operators = {name.lower() for name in _operators(line)}
    return all(word in operators or _OF_ANY_NODE.fullmatch(word) for word in _words(line))


def _is_of_the_name(line: str, rule: Rule, message: str) -> bool:
    """Whether a short line says little but its operator's name, and the message names another thing."""
    names = [root for root in _roots(rule) if root in line]
    return bool(names) and not any(name in message for name in names) and len(set(_words(line))) <= _SHORT


_SHORT = 5  # words

_OF_ANY_NODE = re.compile(
    r"(?:check|import|parse)\w+|in|node|with|name|and|operator|invalid|unsupported|assertion|failed|false|no|"
    r"importer|registered|for|op|attempting|to|import|as|plugin|creator|not|found|are|the|version|namespace|"
    r"correct"
)
"""Words that parsers say of any node."""


def _roots(rule: Rule) -> set[str]:
    return {root.rpartition(".")[2] for root in rule.roots}


def _of_operators(
    operators: set[str], rules: Sequence[Rule], targets: Sequence[Target], *, any_node: bool
) -> Iterator[Match]:
    """What is known of an operator that is not taken, whatever else the message says.

    Args:
        operators: those that it names.
        rules: all rules.
        targets: they say which operators are not taken.
        any_node: whether the message says that of one of them.
    """
    advice = {name: text for target in targets for name, text in target.advice.items()}
    for name in sorted(operators):
        lacking = [rule for rule in rules if rule.lacks == name or name in _quoted_of(rule)]
        without = [target.title for target in targets if name in target.unsupported]
        if without and not lacking:
            lack = "lack" if len(without) > 1 else "lacks"
            summary = (
                f"{' and '.join(without)} {lack} it: {advice.get(name, noted('named-operator.otherwise'))}"
            )
            yield Match("advice", name, "", summary, BY_OPERATOR)
        some = [rule for rule in rules if rule.stage != "place" and _is_for(rule, name)]
        for rule in lacking or (some if any_node else ()):
            yield Match("rule", rule.id, "", rule.summary, BY_OPERATOR if lacking else 0.78)


def _is_for(rule: Rule, operator: str) -> bool:
    """Whether a rule looks at an operator, and at hardly any other."""
    return operator in _roots(rule) and len(rule.roots) <= _FEW


def _quoted_of(rule: Rule) -> set[str]:
    """The operators of which a rule quotes that nothing imports them."""
    return {name for line in quotations(rule.doc) for name in re.findall(r"for op: (\w+)", line)}


# The errors of a log that a user pastes, each with the lines that belong to it.

_BEGINS = re.compile(r"\[[VIWEF]\]|\b(ERROR|WARNING)\b ?:|^\S*ERROR\b|Error Code|\bError\[\d+\]")
"""Where TensorRT, its tools and servers begin a line of a log."""

_ERROR = re.compile(r"\[[EF]\]|\bERROR\b|Error Code|\bError\[\d+\]")

_MOST_ERRORS = 10
"""Errors that are looked at: behind so many there are only consequences."""


def errors_of(log: str) -> list[str]:
    """The errors of a log in their order, at most 10; none where nothing else stands beside one.

    Args:
        log: lines as they were printed, other lines among them.
    """
    records: list[list[str]] = []
    for line in log.splitlines():
        if _BEGINS.search(line) or not records:
            records.append([])
        records[-1].append(line)
    errors = ["\n".join(lines) for lines in records if _ERROR.search(lines[0])]
    return errors[:_MOST_ERRORS] if len(records) > 1 else []

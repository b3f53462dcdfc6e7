"""A command line that is not understood, and the one that is meant: of other tools, or mistyped."""

from __future__ import annotations

import difflib
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import typer

from onnxq.base.errors import UserError
from onnxq.base.reason import say
from onnxq.cli.peer_flags import PEER_VERBS, PEERS, dashed, in_our_words, peer_of, peer_of_key

UsageError: Any = typer.BadParameter.__base__
"""The class of all errors in the use of the command line; where it is defined depends on typer's version."""

_MOST = 32  # mistakes in one line
_NUMBER = re.compile(r"\d+(\.\d+)?")
_JOINTS = {"--batch": ":", "--resize": "x", "--letterbox": "x", "--crop": "x"}
"""What stands between the values of a flag, where that is no comma."""
_SHOWN = frozenset(("-h", "--help", "--help-all", "--version"))  # when they are read
_DATA = frozenset(("--calib", "--stats", "--plan"))


@dataclass(frozen=True, slots=True)
class Meant:
    """What is meant.

    Attributes:
        words: the command line, without `onnxq`.
        remarks: what is said of the words that mean the same and are taken.
        wrong: what is wrong with the others; "": the line is taken.
        line: all that is to be typed, where that is not `onnxq` and the words.
    """

    words: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    wrong: str = ""
    line: str = ""

    def typed(self) -> str:
        """What is to be typed."""
        return self.line or shlex.join(["onnxq", *self.words])

    def but(self, words: Sequence[str], wrong: str) -> Meant:
        """It with other words, for something that is wrong."""
        return replace(self, words=tuple(words), wrong="; ".join(filter(None, (self.wrong, wrong))))


def meant(words: Sequence[str], error: Any, command: Any) -> Meant | None:
    """What is meant by a command line; None: that is not known.

    Args:
        words: it.
        error: why it is not understood, a `UsageError`.
        command: the command of all verbs, click's `Group`.
    """
    found = Meant(tuple(words))
    for _ in range(_MOST):
        step = _stepped(found, error, command)
        if step is None or step.line or step == found:
            return step if step != found else None
        found = step
        try:
            understood(command, found.words)
        except UsageError as again:
            error = again
        except UserError:  # a value makes no sense: the verb says so
            return found
        else:
            return found
    return None


def understood(command: Any, words: Sequence[str]) -> None:
    """Reads a command line, and runs nothing.

    Raises:
        UsageError: it is not understood.
        UserError: a value of a flag makes no sense.
    """
    while hasattr(command, "commands"):
        verb = next((word for word in words if not word.startswith("-")), None)
        if verb not in command.commands:
            break
        place = words.index(verb)
        command, words = command.commands[verb], [*words[:place], *words[place + 1 :]]
    if not _SHOWN.isdisjoint(words):
        return
    context = command.make_context(command.name, list(words))
    if hasattr(command, "commands"):
        context.fail(say("typed.no-such-verb"))


def _stepped(found: Meant, error: Any, verbs: Any) -> Meant | None:
    """The line with one mistake less; None: it is not known."""
    if error.ctx is None:
        return None
    command = error.ctx.command
    unknown = error.option_name if type(error).__name__ == "NoSuchOption" else ""
    if hasattr(command, "commands"):
        return _of_verb(found, command, unknown)
    if unknown:
        return _of_flag(found, command, unknown, verbs.commands)
    places = list(_arguments(found.words, command))
    depth = 1 + [found.words[one] for one in places].index(command.name)  # 2 of a verb in a group
    return _of_extra(found, command, depth, places[depth:]) if len(places) > depth + _count(command) else None


def _of_verb(found: Meant, command: Any, flag: str) -> Meant | None:
    """A line whose verb is missing, is another tool's or mistyped, or stands behind its flags."""
    words = found.words
    if flag == "-V" or words[:1] == ("version",):
        return found.but(("--version",), "the flag is --version")
    place = next((place for place, word in enumerate(words) if not word.startswith("-")), None)
    verb = "" if place is None else words[place]
    behind = [word for before, word in zip(["", *words], words, strict=False) if before not in _DATA]
    later = next((word for word in behind if word in command.commands), None)
    if flag and later is not None:
        rest = list(words)
        rest.remove(later)
        return found.but((later, *rest), say("typed.verb-first"))
    known, why = PEER_VERBS.get(verb, ("", ""))
    if not why and (flag or verb.endswith(".onnx") or os.path.exists(verb)):
        verb = "quantize" if _has_data(words) else "check"
        return found.but((verb, *words), say("typed.verb-missing"))
    if place is None:
        return None
    below = words[place + 1] if why and words[place + 1 :] else ""
    if below in {*command.commands, *PEER_VERBS} and " " not in known:  # polygraphy surgeon VERB
        return found.but((*words[:place], *words[place + 1 :]), f"verbs stand without {verb!r}")
    if why:
        known = known or ("quantize" if _has_data(words) else "sanitize")
    else:
        (known, *_) = [*difflib.get_close_matches(verb, command.commands, 1), ""]
    wrong = say("typed.no-verb", verb=verb) + (f": {why}" if why else "")
    return found.but((*words[:place], *known.split(), *words[place + 1 :]), wrong) if known else None


def _of_flag(found: Meant, command: Any, flag: str, verbs: Mapping[str, Any]) -> Meant | None:
    """A line with a flag of another tool, of another verb, or mistyped."""
    words, ours = found.words, _flags(command)
    wrong = f"no such option: {flag}"
    if flag in ("--version", "-V"):
        return found.but(("--version",), say("typed.alone"))
    peer = peer_of(flag, ours, command.name) or peer_of_key(words, flag, command.name)
    if peer is not None:
        changed = in_our_words(words, flag, peer)
        if peer.why:
            return found.but(changed, f"{wrong}: {peer.why}")
        (name, *_) = peer.ours.split()
        said = say("typed.no-flag" if peer.ours == "{}" else "typed.called", flag=flag, name=name)
        return replace(found, words=tuple(changed), remarks=(*found.remarks, said))
    if len(flag) == 2 and (long := next((word for word in words if word.startswith(flag) and word[2:]), "")):
        name = dashed(f"-{long.partition('=')[0]}")
        if name in ours or name in PEERS:
            put = [f"-{word}" if word == long else word for word in words]
            return found.but(put, say("typed.dashes"))
    near = difflib.get_close_matches(dashed(flag), ours, 1, 0.75)
    if near:
        put = [near[0] + word[len(flag) :] if word.partition("=")[0] == flag else word for word in words]
        return found.but(put, wrong)
    having = next((name for name, one in verbs.items() if flag in _flags(one)), "")
    if not having or words[0] != command.name:
        return None
    said = say("typed.elsewhere", wrong=wrong, verb=words[0], having=having)
    return found.but((having, *words[1:]), said)


def _of_extra(found: Meant, command: Any, depth: int, places: Sequence[int]) -> Meant | None:
    """A line with a word too many: a value, another tool's word, data, the file to write, another model.

    Args:
        found: it.
        command: its verb.
        depth: of how many words its verb is.
        places: those of the arguments.
    """
    words, ours = found.words, _flags(command)
    first, place = places[0], places[_count(command)]
    word, before, after = words[place], words[:place], words[place + 1 :]
    if _NUMBER.fullmatch(word) and (flag := _flag_of(before[-1], before)):
        joint = _JOINTS.get(flag, ",")
        joined = (*before[:-1], f"{before[-1]}{joint}{word}", *after)
        said = say("typed.one-word", flag=flag)
        return found.but(joined, "" if said in found.wrong else said)
    if word.endswith(".onnx") and not words[first].endswith(".onnx"):
        rest = (*words[:first], *words[first + 1 :])
        if words[first] == "model" and not os.path.exists("model"):  # as in polygraphy inspect model
            return found.but(rest, say("typed.bare-model"))
        return found.but((*rest, words[first]), say("typed.model-first"))
    if not word.endswith(".onnx"):
        data = next((flag for flag in ("--calib", "--data") if flag in ours), None)
        if data is None or data in words:
            return None
        return found.but((*before, data, word, *after), say("typed.data", flag=data))
    if "--output" in ours and not {"--output", "-o"} & {*words} and not os.path.exists(word):
        return found.but((*before, "-o", word, *after), say("typed.output"))
    models = [words[one] for one in places]
    flags = [one for one in _without_output(words[depth:]) if one not in models]
    if command.name == "check":
        module = ["python", "-P", "-m", "onnxq.cli.each_model"]
        line = shlex.join([*module, *flags, *["--"] * bool(flags), *models])
    else:
        line = " && ".join(shlex.join(["onnxq", *words[:depth], model, *flags]) for model in models)
    return replace(found.but(words, say("typed.one-model")), line=line)


def _without_output(words: Sequence[str]) -> list[str]:
    """Words without the file to write, which several models would all be written to."""
    left = list(words)
    for place, word in reversed([*enumerate(left)]):
        if word in ("-o", "--output"):
            del left[place : place + 2]
        elif word.startswith("--output="):
            del left[place]
    return left


def _flag_of(value: str, words: Sequence[str]) -> str:
    """The flag whose value is the last of some words, if that ends in a number; else ""."""
    flag, joined, last = value.rpartition("=")
    flag = flag if joined else words[-2] if len(words) > 1 else ""
    return flag if flag.startswith("--") and re.search(r"\d$", last) else ""


def _has_data(words: Sequence[str]) -> bool:
    """Whether data are given, or what stands for them."""
    names = [dashed(word.partition("=")[0]) for word in words]
    return any(name in _DATA or (name in PEERS and PEERS[name].ours == "--calib {}") for name in names)


def _flags(command: Any) -> list[str]:
    return [name for one in command.params if one.param_type_name == "option" for name in one.opts]


def _count(command: Any) -> int:
    """How many arguments a command takes."""
    return sum(one.param_type_name == "argument" for one in command.params)


def _arguments(words: Sequence[str], command: Any) -> Iterator[int]:
    """The places of the words that are no flags and no values of theirs; the verb is the first."""
    valued = {name for one in command.params if not getattr(one, "is_flag", True) for name in one.opts}
    is_value = False
    for place, word in enumerate(words):
        if not is_value and not word.startswith("-"):
            yield place
        is_value = not is_value and word in valued

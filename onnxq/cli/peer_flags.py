"""Flags and verbs of other tools, and what they are called here: a line each, for all that share it.

Of Model-Optimizer, onnxruntime, AIMET, Quark, neural-compressor, polygraphy, trtexec, onnxsim, onnxslim and
Ultralytics. What means the same is taken as it is; of the others the command line to type is said.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from onnxq.base.catalogue import table
from onnxq.options.settings import Common
from onnxq.options.verbs import VERBS

ALL = -1
"""Values of a flag: all words up to the next flag or model."""


@dataclass(frozen=True, slots=True)
class Peer:
    """What a flag is here.

    Attributes:
        ours: what is typed in its place, `{}` for each value; "": nothing is.
        why: what its user has to know; "": it means the same, and is taken.
        values: how many values it has.
        of: the verb that had it, behind whose words its value stands; "": it is of all.
    """

    ours: str = ""
    why: str = ""
    values: int = 1
    of: str = ""


_SHAPES = ("--minShapes", "--optShapes", "--maxShapes")

PEERS: Mapping[str, Peer] = {
    name: Peer(row.get("ours", ""), row.get("says", ""), row.get("values", 1), row.get("of", ""))
    for names, row in table("peer-flags").items()
    for name in names.split()
}
"""By each name, with dashes."""

PEER_VERBS: Mapping[str, tuple[str, str]] = {
    name: (row.get("ours", ""), row.get("says", ""))
    for names, row in table("peer-verbs").items()
    for name in names.split()
}
"""By the verb of another tool: the verb here ("": what is given decides), and what its user has to know."""

METHODS: Mapping[str, str] = {
    "max": "minmax", "min_max": "minmax", "MinMax": "minmax", "CalibrationMethod.MinMax": "minmax",
    "Entropy": "entropy", "CalibrationMethod.Entropy": "entropy", "kl": "entropy", "hist_entropy": "entropy",
    "Percentile": "percentile", "CalibrationMethod.Percentile": "percentile", "hist_percentile": "percentile",
    "sqnr": "mse", "tf_enhanced": "mse", "tf": "minmax",
}  # fmt: skip
"""What is called so, behind a flag of the same tools, is called so here."""


def dashed(flag: str) -> str:
    """A flag with dashes for underscores."""
    return f"--{flag[2:].replace('_', '-')}" if flag.startswith("--") else flag


def peer_of(flag: str, ours: Collection[str], verb: str = "") -> Peer | None:
    """What a flag that is not known is here; None of what no other tool has, or of another verb's.

    Args:
        flag: as it is typed.
        ours: the flags that there are.
        verb: the name of the verb.
    """
    name = dashed(flag)
    if name in _SHAPES:
        return Peer("--profile {}") if "--profile" in ours else None
    if name in ours:
        return Peer(name, values=0)  # its values stay behind it
    peer = PEERS.get(name)
    if peer is not None and peer.ours.startswith("--calib ") and "--calib" not in ours:
        peer = Peer("--data {}")
    needs = re.findall(r"--[a-z0-9-]+", peer.ours) if peer is not None and peer.of in ("", verb) else [name]
    return peer if set(needs) <= set(ours) else None


def peer_of_key(words: Sequence[str], flag: str, verb: str) -> Peer | None:
    """What a flag is that a verb has as a key of `onnxq.toml` alone; None of all others.

    Args:
        words: the command line.
        flag: as it is typed.
        verb: the name of the verb.
    """
    for group in (Common, *VERBS[verb].groups) if verb in VERBS else ():
        for name, said in VERBS[verb].options(group).items():
            if said.flag[-1] == dashed(flag) and name not in VERBS[verb].flags(group):
                behind = zip(
                    (word.partition("=") for word in words), [*words[1:], said.metavar or ""], strict=True
                )
                given = [value if joined else after for (one, joined, value), after in behind if one == flag]
                why = f"it is a key of onnxq.toml now: {said.in_file(given)}"
                return Peer(why=why, values=int(said.kind.typed is not bool))
    return None


def in_our_words(words: Sequence[str], unknown: str, peer: Peer) -> list[str]:
    """A command line with the words that it has here for a flag.

    Args:
        words: the command line.
        unknown: the flag.
        peer: what it is here.
    """
    if dashed(unknown) in _SHAPES:
        return _with_profiles(words)
    said, behind, rest = list[str](), list[str](), list(words)
    while rest:
        word = rest.pop(0)
        flag, joined, value = word.partition("=")
        if flag != unknown:
            said.append(word)
            continue
        values = [value] if joined else []
        while rest and not joined and len(values) != peer.values and not _ends(rest[0], peer, values):
            values.append(rest.pop(0))
        if "{}" not in peer.ours:
            said += [f"{peer.ours}={value}"] if joined and peer.ours == dashed(unknown) else peer.ours.split()
            continue
        (behind if peer.of else said).extend(
            part.replace("{}", _value(peer.ours, one)) for one in values for part in peer.ours.split()
        )
    return said + behind


def _ends(word: str, peer: Peer, values: Sequence[str]) -> bool:
    """Whether a word is no value any more."""
    if word.startswith("-") and not re.fullmatch(r"-[\d.]+", word):
        return True
    return peer.values == ALL and bool(values) and word.endswith(".onnx")


def _value(ours: str, value: str) -> str:
    if ours.startswith("--method "):
        return METHODS.get(value, value)
    return _shape(value) if ours.startswith("--shape ") else value


def _shape(value: str) -> str:
    """`x:1,3,224,224` and `x:1x3x224x224` as `x=1x3x224x224`."""
    name, colon, sizes = value.rpartition(":")
    return f"{name}={re.sub(r'[,x ]+', 'x', sizes.strip('[]'))}" if colon and name else value


def _with_profiles(words: Sequence[str]) -> list[str]:
    """The three flags of trtexec as --profile: a shape that is not given is that of the nearest one."""
    said, rest, shapes = list[str](), list(words), dict[str, dict[str, str]]()
    while rest:
        flag, joined, value = rest.pop(0).partition("=")
        if dashed(flag) not in _SHAPES:
            said.append(flag + joined + value)
            continue
        value = value if joined or not rest else rest.pop(0)
        for one in re.split(r",(?=[^,]*:)", value):
            name, _, sizes = one.rpartition(":")
            shapes.setdefault(name.strip("'\""), {})[flag] = sizes
    for name, stated in shapes.items():
        low, usual, high = (stated.get(flag) for flag in _SHAPES)
        middle = usual or high or low
        said += ["--profile", f"{name}={low or middle}:{middle}:{high or middle}"]
    return said

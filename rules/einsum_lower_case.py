"""Spell an Einsum with small letters.

    Invalid character(s) in Einsum equation: B,H,I,D,B,H,J,D,B,H,I,J

    before    y = Einsum<"BHIJ, BHJD -> BHID">(p, v)
    after     y = Einsum<"abcd,abde->abce">(p, v)

A result that the equation leaves out is written: its order is that of the alphabet, and capital letters come first.
"""

from _einsum import explicit

from onnxq.rule import Fires, Node, Skip, Skips, Value, remake, required, rule

_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@rule("Einsum", stage="compat", lacks="einsum-capitals")
def einsum_lower_case(node: Node) -> Value | None:
    equation = str(node.attr("equation", ""))
    capitals = list(dict.fromkeys(letter for letter in equation if letter.isupper()))
    if not capitals:
        return None
    free = [letter for letter in _LETTERS if letter not in equation]
    if len(capitals) > len(free):
        raise Skip(f"{equation!r} has more labels than there are small letters")
    small = dict(zip(capitals, free, strict=False))
    spelled = "".join(small.get(letter, letter) for letter in explicit(equation))
    return remake(node, *required(node, len(node.inputs)), equation=spelled)


def _net(equation: str, a: str, b: str) -> str:
    return f"""<ir_version: 8, opset_import: ["" : 17]>
    g (float[{a}] a, float[{b}] b) => (y) {{ y = Einsum <equation = "{equation}"> (a, b) }}"""


def _ones(rank: int) -> str:
    return ", ".join(["1"] * rank)


EXAMPLES = [
    Fires(
        _net("BHIJ, BHJD -> BHID", "N, 2, 3, 4", "N, 2, 4, 5"),
        becomes='y = Einsum <equation = "abcd,abde->abce"> (a, b)',
    ),
    Fires(_net("Ba,aC", "N, 3", "3, 4"), becomes='y = Einsum <equation = "ba,ac->bc"> (a, b)'),
    Fires(
        _net("...aB,...Bc", "N, 3, 4", "N, 4, 2"),
        becomes='y = Einsum <equation = "...ab,...bc->...ac"> (a, b)',
    ),
    Fires(
        _net("abcdefghijklA,nopqrstuvwxyz->", _ones(13), _ones(13)),
        becomes='y = Einsum <equation = "abcdefghijklm,nopqrstuvwxyz->"> (a, b)',
    ),
    Skips(_net("abcdefghijklmA,nopqrstuvwxyz->", _ones(14), _ones(13)), because="more labels"),
    Skips(_net("bij,bjk->bik", "N, 3, 4", "N, 4, 5")),
]

"""What nobody stated, as screens and pages say it."""

from __future__ import annotations


def assumed(by: str, what: str = "") -> str:
    """That a value is taken for granted, and what states it: flags to type, or what the data would have.

    Args:
        by: what one gives to state the value, as `--batch MIN:OPT:MAX`.
        what: the value, where it does not stand in front.
    """
    return f"({f'{what} ' * bool(what)}assumed; to state it: {by})"

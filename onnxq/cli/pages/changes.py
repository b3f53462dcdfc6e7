"""The sections on the repair: what changed, what was rejected, what nearly matched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from onnxq.cli.pages.words import FEW, counted, listed, tally
from onnxq.cli.screen import Page, shorten
from onnxq.rewrite.changes import ACCEPTED, OFF

if TYPE_CHECKING:
    from onnxq.documents.report import Report
    from onnxq.rewrite.changes import Change, NearMiss
    from onnxq.rewrite.whole import WholeProof


def changes_section(page: Page, report: Report) -> None:
    """What was repaired, how it was proved, and what was rejected."""
    changes, proved = report.changes, report.proved
    if changes:
        verdicts = ", ".join(f"{count} {verdict}" for verdict, count in asdict(proved).items() if count)
        how = " (on sampled inputs)" if proved.exact or proved.close else ""
        page.section("Repaired", f"{counted(len(changes), 'change')}: {verdicts}{how}")
        page.entry(listed(tally(change.rule for change in changes)))
        proofs = [change.proof for change in changes]
        for change in changes:
            if change.proof.code == ACCEPTED:
                page.entry(accepted_text(change), style="yellow")
        unproven = [one for one in proofs if one.verdict == "unproven" and one.code != ACCEPTED]
        for why, count in tally(one.why for one in unproven).items():
            page.entry(f"unproven ({count}): {why}", style="yellow")
        for why, count in tally(one.why for one in proofs if one.verdict == "close" and one.why).items():
            page.entry(f"close ({count}): {why}")
    else:
        page.section("Repaired", "nothing to change")
    for whole in report.whole_model[-1:]:
        page.entry(f"whole model against the original: {_whole(whole)}")
    for change in report.rejected:
        why = rejected_text(change)
        if change.proof.verdict == "unproven":  # under --prove always
            page.entry(why, style="yellow")
            continue
        if change.proof.code in ("grows", OFF):  # its rule may be right
            page.entry(why, style="yellow")
        else:
            page.entry(f"{why}; a bug of that rule, not of your model", style="red")
        if change.reproducer:
            page.entry(f"reproducer: {change.reproducer}", 2)


def rejected_text(change: Change) -> str:
    """A change that was rejected, and why."""
    where = f" on {shorten(change.node)}" if change.node else ""
    accept = f'accept = ["{change.rule}"] in onnxq.toml makes it all the same'
    offer = f"; {accept}" if change.proof.code == OFF else ""
    return f"rejected: {change.rule}{where}: {change.proof.why}{offer}"


def accepted_text(change: Change) -> str:
    """A change that was made although values are off."""
    return f"{change.rule} on {shorten(change.node)}: {change.proof.why}"


def _whole(proof: WholeProof) -> str:
    if proof.verdict == "unproven":
        return f"not compared: {proof.why}"
    if proof.verdict == "exact":
        return "equal"
    floats = [f"max difference {proof.max_abs:.2g}"] if proof.sqnr_db is not None else []
    return ", ".join(["close", *floats, *([proof.why] if proof.why else [])])


def misses_section(page: Page, misses: Sequence[NearMiss], where: str = "in the report") -> None:
    """Where a rule nearly matched, and what was missing."""
    for number, miss in enumerate(misses[:FEW]):
        text = f"{shorten(miss.node)}: {miss.reason} ({miss.rule})"
        page.section("Near miss" if number == 0 else "", text)
    if len(misses) > FEW:
        page.section("", f"+{len(misses) - FEW} more {where}", "dim")

"""The section on what is not quantized: its type, what stays float32, the form of weight scales."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnxq.cli.pages.words import counted, decibels, first_few, say, tally
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.body import BodyPart

_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32"}

_SHOWN = 6

_QUIET = ("between",)
"""Reasons that are no news: what stands between two quantized layers."""


def body_section(page: Page, body: BodyPart) -> None:
    """The type of what is not quantized, what stays float32, and why."""
    page.section("Body", f"{_NAMES.get(body.type) or say('body.own')}: {body.because}")
    half = body.type in ("fp16", "bf16")
    if half:
        if body.io != "float32":
            names = first_few(body.interface)
            page.entry(say("body.io") + (f": {names}" if names else ""), style="yellow")
        _float32(page, body)
    forms = len(body.post_scaled)
    if forms:
        page.entry(say("body.scales", layers=counted(forms, "layer")))
    other = body.onnxruntime
    if other is not None and other.int8 < other.planned:
        page.entry(say("body.runtime", some=other.int8, all=other.planned), style="dim")
    for note in body.notes:
        page.entry(note, style="yellow")


def _float32(page: Page, body: BodyPart) -> None:
    """What stays float32, by kind of reason."""
    stays = [entry for entry in body.float32 if entry.code not in _QUIET]
    if not stays:
        return
    page.entry(f"{counted(len(stays), 'node')} stay{'s' if len(stays) == 1 else ''} float32")
    for code, count in tally(entry.code for entry in stays).items():
        first = next(entry for entry in stays if entry.code == code)
        more = f" (and {count - 1} like it)" if count > 1 else ""
        page.entry(f"{shorten(first.node)} ({first.op}): {first.because}{more}", 2, "dim")


def outputs_alone(page: Page, body: BodyPart) -> None:
    """How near the outputs of a model with this body are, where nothing is quantized."""
    for entry in body.outputs[:_SHOWN]:
        if entry.body_db is not None:
            name, level = shorten(entry.output, 40), decibels(entry.body_db)
            page.entry(f"{name}: {level}; {say('half-simulated')}")

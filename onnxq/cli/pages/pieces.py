"""What `onnxq split`, `run` and `extract` show."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from onnxq.cli.pages.accuracy import closeness
from onnxq.cli.pages.data import data_section
from onnxq.cli.pages.words import counted, listed, size_text, type_text
from onnxq.cli.screen import Page, shorten


def split_page(model: Path, manifest: Path, document: Mapping[str, Any]) -> Page:
    """The pieces of a model."""
    page = Page()
    pieces = document["pieces"]
    symbols = {dim for entry in document["inputs"] for dim in entry["shape"] or ()}
    page.head(f"{model} -> {counted(len(pieces), 'piece')}")
    for index, piece in enumerate(pieces):
        path = manifest.with_name(piece["file"])
        size = sum(p.stat().st_size for p in (path, path.with_name(f"{path.name}.data")) if p.exists())
        text = f"{path}  {counted(piece['nodes'], 'node')}, {size_text(size)}, for {piece['runs']}"
        page.section(f"Piece {index}", text)
        for kind in ("inputs", "outputs"):
            _tensors(page, kind, piece[kind], symbols)
    for note in document["notes"]:
        page.section("Note", note, "yellow")
    page.section("Manifest", str(manifest))
    page.section("Next", "")
    page.code(shlex.join(["onnxq", "run", str(manifest), "--data", "DATA"]))
    return page


def _tensors(page: Page, kind: str, entries: Sequence[Mapping[str, Any]], symbols: set[Any]) -> None:
    """Inputs or outputs of a piece; `?` is for sizes under a symbol that the model does not have."""
    for entry in entries[:6]:
        dims = [d if isinstance(d, int) or d in symbols else None for d in entry["shape"] or ()]
        known = {**entry, "shape": None if entry["shape"] is None else dims}
        page.entry(f"{kind[:-1]} {shorten(entry['name'])}  {type_text(known)}")
    if len(entries) > 6:
        page.entry(f"+{len(entries) - 6} more {kind}", style="dim")


def chain_page(document: Mapping[str, Any]) -> Page:
    """What the pieces gave, against the original."""
    page = Page()
    against = f" against {document['original']}" if document["original"] else ""
    pieces, samples = len(document["pieces"]), document["samples"]
    page.head(f"{counted(pieces, 'piece')} in a chain{against}, {counted(samples, 'sample')}")
    bound = document["tolerance_db"]
    for entry in document["outputs"]:
        style = "" if entry["verdict"] == "equal" else "yellow"
        text = closeness(entry)
        if entry["verdict"] != "equal":
            text = f"differs: {text}" + ("" if bound is None else f"; the bound is {bound:g} dB")
        page.plain(f"{shorten(entry['output'], 40)}: {text}", style=style)
    for note in document["notes"]:
        page.plain(note, style="yellow")
    data_section(page, document["data"])
    if document["saved"]:
        page.plain(f"each sample's tensors are in {document['saved']}")
    return page


def extract_page(document: Mapping[str, Any]) -> Page:
    """A part of a model."""
    page = Page()
    page.head(f"{document['model']} -> {document['output']}")
    page.section("Nodes", f"{sum(document['ops'].values())}: {listed(document['ops'])}")
    for kind in ("inputs", "outputs"):
        for number, entry in enumerate(document[kind] or [None]):
            text = f"{entry['name']}  {type_text(entry)}" if entry else "none"
            page.section(kind.capitalize() if number == 0 else "", text)
    for number, file in enumerate(document["files"]):
        page.section("Files" if number == 0 else "", f"{file}  {size_text(Path(file).stat().st_size)}")
    return page

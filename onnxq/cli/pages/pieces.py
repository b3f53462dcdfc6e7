"""What `onnxq pieces split`, `run` and `extract` show."""

from __future__ import annotations

import shlex
from collections.abc import Set
from pathlib import Path
from typing import TYPE_CHECKING

from onnxq.cli.pages.accuracy import closeness
from onnxq.cli.pages.data import data_section
from onnxq.cli.pages.size import files_section
from onnxq.cli.pages.words import counted, first_few, listed, say, size_text, type_text
from onnxq.cli.screen import Page, shorten

if TYPE_CHECKING:
    from onnxq.documents.pieces import ChainRun, ExtractReport, Manifest, TensorDescribed, UntilCompiles

_FEW = 4
_MARGIN = 10.0  # dB: other samples are further off than those that the pieces were compared on


def split_page(model: Path, manifest: Path, document: Manifest) -> Page:
    """The pieces of a model."""
    page = Page()
    symbols = {dim for entry in document.inputs for dim in entry.shape or ()}
    page.head(f"{model} -> {_answer(document)}")
    if until := document.until:
        _proof(page, until)
    for index, piece in enumerate(document.pieces):
        assert piece.file is not None  # it is saved
        path = manifest.with_name(piece.file)
        size = sum(p.stat().st_size for p in (path, path.with_name(f"{path.name}.data")) if p.exists())
        text = f"{path}  {counted(piece.nodes, 'node')}, {size_text(size)}, for {piece.runs}"
        page.section(f"Piece {index}", text)
        for one in piece.refused[:_FEW]:
            page.entry(f"{one.op} {shorten(one.node, 40)}: {one.reason}", style="yellow")
        page.more(len(piece.refused) - _FEW, "refused nodes")
        _tensors(page, "input", piece.inputs, symbols)
        _tensors(page, "output", piece.outputs, symbols)
    for note in document.notes:
        page.section("Note", note, "yellow")
    page.section("Manifest", str(manifest))
    page.section("Next", "")
    outputs = document.until.outputs if document.until else ()
    off = [one.sqnr_db for one in outputs if one.verdict == "differs" and one.sqnr_db is not None]
    bound = ["--tolerance", f"{min(off) - _MARGIN:.0f}"] if off else []
    passed = manifest.with_name(manifest.name.replace(".split.json", ".passed"))
    command = ["onnxq", "pieces", "run", str(manifest), "--data", "DATA", *bound]
    pieces = [piece.file for piece in document.pieces if piece.macs and piece.runs == "tensorrt"]
    page.code(shlex.join([*command, *(["--save", str(passed)] if pieces else [])]))
    for file in filter(None, pieces):
        path, made = manifest.with_name(file), manifest.with_name(file).with_suffix(".int8.onnx")
        page.code(shlex.join(["onnxq", "quantize", str(path), "--calib", str(passed), "-o", str(made)]))
    return page


def _answer(document: Manifest) -> str:
    """How many pieces there are; and how many compile, with how much of the work, where that was asked."""
    pieces, until = counted(len(document.pieces), "piece"), document.until
    if until is None:
        return pieces
    apart = [piece for piece in document.pieces if piece.runs == "onnxruntime"]
    engines = len(document.pieces) - len(apart)
    share = (
        ""
        if until.share is None
        else say("pieces-compile.share", share=f"{until.share:.1%}".replace("%", " %"))
    )
    one = ".one" * (engines == 1)
    texts = [say(f"pieces-compile{one}", pieces=pieces, engines=engines, share=share)]
    if apart:
        one, refused = ".one" * (len(apart) == 1), [entry for piece in apart for entry in piece.refused]
        nodes = first_few([f"{entry.op} ({entry.node!r})" for entry in refused], _FEW, "")
        texts.append(say(f"pieces-apart{one}", pieces=len(apart), nodes=nodes))
    return "; ".join(texts)


def _proof(page: Page, until: UntilCompiles) -> None:
    """What the compiler was asked, and what the chain gives beside the original."""
    whole = say("pieces-compile.whole", why=until.whole) if until.whole else say("pieces-compile.as-is")
    repaired = (
        say("pieces-compile.repaired", changes=counted(until.repairs, "change")) if until.repairs else ""
    )
    asked = f"{until.compiler}, {counted(until.compilations, 'compilation')}, for {until.target}"
    page.sections("Compiler", [asked, whole, *filter(None, [repaired])])
    for entry in until.outputs:
        text = "equal" if entry.verdict == "equal" else f"differs: {closeness(entry)}"
        page.plain(f"{shorten(entry.output, 40)}: {text}", style="" if entry.verdict == "equal" else "yellow")
    if until.uncounted:
        page.section("Note", say("pieces-compile.uncounted", nodes=first_few(until.uncounted)), "yellow")


def _tensors(page: Page, kind: str, entries: tuple[TensorDescribed, ...], symbols: Set[object]) -> None:
    """Inputs or outputs of a piece; `?` is for sizes under a symbol that the model does not have."""
    for entry in entries[:6]:
        dims = tuple(dim if isinstance(dim, int) or dim in symbols else None for dim in entry.shape or ())
        known = type_text(entry.dtype, None if entry.shape is None else dims)
        page.entry(f"{kind} {shorten(entry.name)}  {known}")
    page.more(len(entries) - 6, f"{kind}s")


def chain_page(chain: ChainRun) -> Page:
    """What the pieces gave, against the original."""
    page = Page()
    against = f" against {chain.original}" if chain.original else ""
    pieces, samples = counted(len(chain.pieces), "piece"), counted(chain.samples, "sample")
    page.head(f"{pieces} in a chain{against}, {samples}")
    bound = chain.tolerance_db
    for entry in chain.outputs:
        style = "" if entry.verdict == "equal" else "yellow"
        text = closeness(entry)
        if entry.verdict != "equal":
            text = f"differs: {text}" + ("" if bound is None else f"; the bound is {bound:g} dB")
        page.plain(f"{shorten(entry.output, 40)}: {text}", style=style)
    for note in chain.notes:
        page.plain(note, style="yellow")
    data_section(page, chain.data)
    if chain.saved:
        page.plain(say("samples-saved", folder=chain.saved))
    return page


def extract_page(document: ExtractReport) -> Page:
    """A part of a model."""
    page = Page()
    page.head(f"{document.model} -> {document.output}")
    page.section("Nodes", f"{sum(document.ops.values())}: {listed(document.ops)}")
    for label, entries in (("Inputs", document.inputs), ("Outputs", document.outputs)):
        texts = [f"{one.name}  {type_text(one.dtype, one.shape)}" for one in entries]
        page.sections(label, texts or ["none"])
    files_section(page, document.files)
    return page

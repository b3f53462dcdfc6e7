"""What NVIDIA's compiler made of a model: the sections of the end screen, and what `onnxq engine` shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnxq.cli.pages.words import counted, first_lines, listed, size_text, tally
from onnxq.cli.screen import Page, shorten

_QDQ = ("_QuantizeLinear", "_DequantizeLinear")


def regression_alarm(page: Page, engine: Mapping[str, Any]) -> None:
    """Says before all else that the result does not compile, and the original does."""
    if not engine["regressed"]:
        return
    found = engine["regression"]
    at = f", at {shorten(found['node'])}" if found["node"] else ""
    quantized = found["by"] == "quantization"
    what = "quantization" if quantized else "the repair"
    page.alarm(f"NOT COMPILED, and NVIDIA's compiler takes the original: {what} breaks it{at}")
    page.plain(first_lines(found["reason"]), 1, "red")
    advice = "keep layers in float (--keep-float)" if quantized else "leave rules out (--skip)"
    page.plain(f"{advice}, and report this", 1)


def engine_section(page: Page, engine: Mapping[str, Any]) -> None:
    """What the compiler made of the result."""
    where = f"({engine['compiler']}, sm {engine['sm']})"
    if engine["unread"]:
        page.section("Engine", f"it compiles {where}; what runs in int8 is not known", "yellow")
        page.entry(first_lines(engine["unread"]))
    elif engine["status"] == "compiled":
        text = f"{engine['int8']} of {counted(engine['planned'], 'planned int8 layer')} run in int8 {where}"
        missing = engine["not_int8"]
        page.section("Engine", text, "yellow" if missing else "")
        page.names(missing)
        if engine["regression"] is not None:
            node, reason = engine["regression"]["node"], engine["regression"]["reason"]
            page.entry(
                f"{shorten(node)} is left in float: quantized, it fails: {first_lines(reason)}", 1, "yellow"
            )
    elif engine["status"] == "failed":
        why = "see above" if engine["regressed"] else first_lines(engine["reason"])
        page.section("Engine", f"it does not compile {where}: {why}", "red")
    elif engine["status"] == "not-run":
        page.section("Engine", f"not compiled: {engine['reason']}")
    else:
        page.section("Engine", engine["reason"])


def engine_page(document: Mapping[str, Any]) -> Page:
    """The layers of an engine."""
    page = Page()
    engine = document["engine"]
    page.head(f"{document['model']}  ({engine['compiler']}, sm {engine['sm']})")
    if document["profiles_from"]:
        page.section("Profiles", document["profiles_from"])
    if engine["status"] != "compiled":
        page.section("Rejected", first_lines(engine["reason"], 6), "red")
        return page
    if engine["unread"]:
        page.section("Compiled", "its list of layers is not understood", "yellow")
        page.entry(first_lines(engine["unread"]))
        return page
    layers = engine["layers"]
    counts = listed(tally(layer["precision"] or "none" for layer in layers))
    size = f"{size_text(engine['plan_bytes'])}, built in {engine['seconds']:.1f} s"
    page.section("Compiled", f"{counted(len(layers), 'layer')}: {counts} ({size})")
    for name, profile in engine["profiles"].items():
        page.entry(f"{name} {':'.join('x'.join(map(str, shape)) for shape in profile)}")
    if document["traffic"]:
        page.section("Moves", _moved(document["traffic"]))
    for layer in layers:
        page.section(layer["precision"] or "-", f"{shorten(layer['name'], 44)}  ({layer['kind']})")
        nodes = [name for name in layer["nodes"] if not name.endswith(_QDQ)]
        if nodes:
            more = f" +{len(nodes) - 1}" if len(nodes) > 1 else ""
            page.entry(f"{shorten(nodes[0], 50)}{more}", 1, "dim")
    return page


def _moved(traffic: Mapping[str, Any]) -> str:
    """What kernels read and write."""
    text = f"{traffic['moved_mb']:.3g} MB, in {counted(traffic['kernels'], 'kernel')}"
    if traffic["merged_kernels"] < traffic["kernels"]:
        text += f"; {traffic['merged_mb']:.3g} MB where products are not written before what follows them"
    return text + ("; each dynamic size counts as 1" if traffic["dynamic"] else "")

"""Pictures of the page and of the screen, and times of the page, in the system's Chromium: `make page-shots`.

Makes five runs (digits, as it is and with ranges that destroy it; with ONNXQ_CORPUS a detector of it; a small
ViT of the benchmarks; a report of 5,000 layers that is made up), their pages, the pictures of `docs/images`
and the table of `docs/page.md`. Runs that are there already are not made again: delete the folder for that.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

import onnxq
from benchmarks import nets
from benchmarks.nets.feeds import feeds
from tests.page.browser import Visit, launched, missing
from tests.page.long_report import analysis_of, synthetic

ROOT = Path(__file__).resolve().parents[1]
IMAGES = Path("docs", "images")
_COLORS = 64
"""Of a palette: text and lines need no more, and the files are a third."""

_COLUMNS = 108
"""How wide the picture of the screen is: what is longer is not broken, and cut."""

_TERMINAL = f"""<!doctype html><meta charset="utf-8"><style>
body {{{{ margin: 0; }}}} pre {{{{ width: {_COLUMNS}ch; padding: 14px 18px; margin: 0; overflow: hidden;
font: 13px/1.35 'DejaVu Sans Mono', monospace; color: #e4e8ec; background: #14181c; }}}}</style>
<pre>{{code}}</pre>"""

_TIMES = {
    "filter": "q.value = '*1*'; filter.dispatchEvent(new Event('input'))",
    "sort": "head.querySelectorAll('button')[0].click()",
    "layer": "location.hash = rows.firstChild.hash; dispatchEvent(new HashChangeEvent('hashchange'))",
}
"""What is timed in the page, by what it is called in the table."""


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=Path, default=Path("out", "page"), help="where the runs are")
    parser.add_argument("--images", type=Path, default=IMAGES, help="where the pictures go")
    parser.add_argument("--repeat", type=int, default=5, help="how often each page is opened for its times")
    asked = parser.parse_args()
    if missing():
        sys.exit(f"error: {missing()}")
    os.chdir(ROOT)  # the paths on the pictures are short
    asked.runs.mkdir(parents=True, exist_ok=True)
    asked.images.mkdir(parents=True, exist_ok=True)
    pages = {name: made for name, make in RUNS.items() if (made := make(asked.runs)) is not None}
    with launched() as browser:
        _pictures(browser, pages, asked.images)
        _lost(browser, asked.runs, asked.images)
        _screen(browser, asked.runs, asked.images)
        print("| page | layers | MB | opens, ms | filters, ms | sorts, ms | opens a layer, ms |")
        print("|---|---:|---:|---:|---:|---:|---:|")
        for name, page in pages.items():
            print(_row(browser, name, page, asked.repeat), flush=True)


# -- runs ------------------------------------------------------------------------------------------
def _page(folder: Path, name: str, model: Path, data: Path, *options: object) -> Path:
    """The page of a run with its analysis, made by the command as users do."""
    result = folder / f"{name}.int8.onnx"
    report, analysis = result.with_suffix(".report.json"), folder / f"{name}.analysis.json"
    if not report.is_file():
        _onnxq("quantize", model, "--calib", data, "-o", result, *options)
    if not analysis.is_file():
        analysis.write_text(_onnxq("analyze", result, "--noise", "--json"))
    return Path(onnxq.report(report, analysis=analysis).page)


def _onnxq(*arguments: object) -> str:
    command = [sys.executable, "-m", "onnxq", *map(str, arguments), "-q"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode not in (0, 1):  # 1: findings
        sys.exit(done.returncode)
    return done.stdout


def digits(folder: Path) -> Path:
    sample = Path("sample_models/digits")
    return _page(folder, "digits", sample / "digits.onnx", sample / "calib")


def detector(folder: Path) -> Path | None:
    corpus = os.environ.get("ONNXQ_CORPUS")
    if not corpus:
        return None
    model, data = folder / "ultraface.onnx", folder / "faces"
    for link, target in ((model, "models/ultraface_rfb320_nopost.onnx"), (data, "data/faces")):
        if not link.exists():
            link.symlink_to(Path(corpus, target))
    return _page(folder, "ultraface", model, data)


def transformer(folder: Path) -> Path:
    model, data = folder / "vit_small.onnx", folder / "vit_small.npz"
    if not model.is_file():
        onnx.save(nets.vit_s16(small=True), model)
        samples = feeds("vit_s16", seed=1, count=96, small=True)
        np.savez(data, x=np.concatenate([sample["x"] for sample in samples]))
    return _page(folder, "vit_small", model, data)


def made_up(folder: Path) -> Path:
    report, analysis = folder / "made_up.report.json", folder / "made_up.analysis.json"
    document = synthetic(5000)
    report.write_text(json.dumps(document))
    analysis.write_text(json.dumps(analysis_of(document)))
    return Path(onnxq.report(report, analysis=analysis).page)


RUNS: dict[str, Callable[[Path], Path | None]] = {
    "digits": digits,
    "detector": detector,
    "transformer": transformer,
    "5,000 layers, made up": made_up,
}


# -- times -----------------------------------------------------------------------------------------
def _row(browser: object, name: str, page: Path, repeat: int) -> str:
    opened, took = [], {what: [] for what in _TIMES}
    for _ in range(repeat):
        visit = Visit(browser, page)
        opened.append(visit.opened_in)
        for what, script in _TIMES.items():
            took[what].append(visit.milliseconds(script))
        layers = len(json.loads(visit.page.text_content("#data"))["layers"]["rows"])
        assert not visit.requests, visit.requests
        assert not visit.complaints, visit.complaints
        visit.close()
    times = " | ".join(f"{statistics.median(values):.0f}" for values in (opened, *took.values()))
    return f"| {name} | {layers:,} | {page.stat().st_size / 1e6:.2f} | {times} |"


# -- pictures --------------------------------------------------------------------------------------
def _pictures(browser: object, pages: dict[str, Path], folder: Path) -> None:
    digits, detector = pages["digits"], pages.get("detector", pages["digits"])

    visit = Visit(browser, digits)
    _save(visit, folder / "light.png")
    visit.close()

    visit = Visit(browser, detector, color_scheme="dark", viewport={"width": 1600, "height": 900})
    visit.page.locator("#head button", has_text="threshold").click()
    visit.page.locator(".row").first.click()
    visit.page.evaluate("document.getElementById('layers').scrollIntoView()")
    _save(visit, folder / "dark.png")
    visit.close()

    narrow = {"width": 390, "height": 844}
    visit = Visit(browser, digits, viewport=narrow)
    visit.page.evaluate("document.getElementById('verdict').scrollIntoView()")
    _save(visit, folder / "narrow.png")
    visit.page.locator(".row").first.click()
    _save(visit, folder / "narrow_layer.png")
    visit.close()

    visit = Visit(browser, detector)
    for name, where in (("ledger.png", "ledger"), ("depth.png", "depth"), ("surgery.png", "surgery")):
        visit.page.evaluate(f"document.getElementById('{where}')?.scrollIntoView()")
        _save(visit, folder / name)
    visit.close()

    visit = Visit(browser, digits, viewport={"width": 794, "height": 1123})  # A4 at 96 dpi
    visit.page.emulate_media(media="print")
    visit.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    _save(visit, folder / "print.png")
    visit.close()


def _lost(browser: object, folder: Path, images: Path) -> None:
    """The page of a model that int8 destroys: thresholds that a quarter of the values exceed."""
    sample = Path("sample_models/digits")
    settings = folder / "lost.toml"
    settings.write_text("[calibration]\npercentile = 75\n", encoding="utf-8")
    options = ("--repair", "none", "--config", settings)
    visit = Visit(browser, _page(folder, "lost", sample / "digits.onnx", sample / "calib", *options))
    _save(visit, images / "lost.png")
    visit.close()


def _screen(browser: object, folder: Path, images: Path) -> None:
    """What `make run` shows in a terminal."""
    sample = "sample_models/digits"
    line = f"onnxq quantize {sample}/digits.onnx --calib {sample}/calib -o out/digits.int8.onnx"
    shown = subprocess.run(
        [sys.executable, "-m", *line.split()],
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(_COLUMNS), "TERM": "xterm-256color"},
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True,
    ).stdout  # fmt: skip
    console = Console(record=True, width=1000, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(f"$ {line}\n{shown}"), soft_wrap=True)
    file = folder / "screen.html"
    file.write_text(console.export_html(theme=MONOKAI, code_format=_TERMINAL, inline_styles=True), "utf-8")
    visit = Visit(browser, file)
    _save(visit, images / "screen.png", "pre")
    visit.close()


def _save(visit: Visit, path: Path, only: str = "") -> None:
    """Saves what is in sight, or one element."""
    of = visit.page.locator(only) if only else visit.page
    picture = Image.open(io.BytesIO(of.screenshot(animations="disabled")))
    picture.convert("RGB").quantize(_COLORS, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(
        path, optimize=True
    )
    print(f"{path.name}: {path.stat().st_size / 1e3:.0f} kB", flush=True)


if __name__ == "__main__":
    main()

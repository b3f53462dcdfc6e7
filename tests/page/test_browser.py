"""The page in a browser: what a reader does with it, with a mouse, by keys, on a narrow screen, on paper."""

# ruff: noqa: E501

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hostile
import numpy as np
import onnx
import pytest
from browser import Visit, launched, missing
from long_report import analysis_of, synthetic

import onnxq

if TYPE_CHECKING:
    from playwright.sync_api import Browser

if why := missing():
    pytest.skip(f"the page in a browser: {why}", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
CORPUS = os.environ.get("ONNXQ_CORPUS")
LAYERS = 5000
NARROW = {"width": 390, "height": 844}


def write(folder: Path, name: str, report: dict[str, Any]) -> Path:
    """The page of a report that is made up."""
    (folder / f"{name}.report.json").write_text(json.dumps(report))
    (folder / f"{name}.analysis.json").write_text(json.dumps(analysis_of(report)))
    made = onnxq.report(folder / f"{name}.report.json", analysis=folder / f"{name}.analysis.json")
    return Path(made.page)


def digits(folder: Path) -> Path:
    sample = ROOT / "sample_models" / "digits"
    done = onnxq.quantize(sample / "digits.onnx", sample / "calib", samples=32, repair="none", compile=False)
    return saved(done, folder / "digits.onnx")


def detector(folder: Path) -> Path:
    if not CORPUS:
        pytest.skip("the folder of models is not named in ONNXQ_CORPUS")
    model = Path(CORPUS, "models", "ultraface_rfb320_nopost.onnx")
    done = onnxq.quantize(model, Path(CORPUS, "data", "faces"), samples=4, repair="none", compile=False)
    return saved(done, folder / "detector.onnx")


ENCODER = """<ir_version: 8, opset_import: ["" : 17]>
    encoder (float[N, 16, 32] x) => (float[N, 16, 32] y) <
        float[32] factor = {FACTOR}, float[32] offset = {OFFSET}, int64[3] heads = {0, 16, 32}> {
        [first_norm] n = LayerNormalization <axis = -1> (x, factor, offset)
        [attention_query] q = MatMul (n, wq)  [attention_key] k = MatMul (n, wk)  [attention_value] v = MatMul (n, wv)
        [attention_turn] t = Transpose <perm = [0, 2, 1]> (k)
        [attention_scores] s = MatMul (q, t)  [attention_softmax] p = Softmax <axis = -1> (s)
        [attention_context] c = MatMul (p, v)  [attention_out] o = MatMul (c, wo)  [attention_add] a = Add (o, x)
        [second_norm] m = LayerNormalization <axis = -1> (a, factor, offset)
        [mlp_up] h = MatMul (m, wu)  [mlp_relu] r = Relu (h)  [mlp_down] d = MatMul (r, wd)  [mlp_add] y = Add (d, a) }"""


def transformer(folder: Path) -> Path:
    random = np.random.default_rng(0)
    listed = ", ".join(["1"] * 32)
    model = onnx.parser.parse_model(ENCODER.replace("FACTOR", listed).replace("OFFSET", listed))
    sizes = {"wq": (32, 32), "wk": (32, 32), "wv": (32, 32), "wo": (32, 32), "wu": (32, 128), "wd": (128, 32)}
    for name, shape in sizes.items():
        values = (random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32)
        model.graph.initializer.append(onnx.numpy_helper.from_array(values, name))
    samples = [{"x": random.standard_normal((1, 16, 32)).astype(np.float32)} for _ in range(16)]
    return saved(onnxq.quantize(model, samples, repair="none", compile=False), folder / "transformer.onnx")


def saved(done: Any, path: Path) -> Path:
    done.save(path)
    return path.with_suffix(".report.html")


REAL: dict[str, Callable[[Path], Path]] = {
    "digits": digits, "detector": detector, "transformer": transformer
}  # fmt: skip


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("small"), "small", synthetic(120))


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("large"), "large", synthetic(LAYERS))


@pytest.fixture
def visit(browser: Browser) -> Iterator[Callable[..., Visit]]:
    """Opens a page; at the end it may have asked for nothing and complained of nothing."""
    opened: list[Visit] = []

    def go(file: Path, **context: Any) -> Visit:
        opened.append(Visit(browser, file, **context))
        return opened[-1]

    yield go
    for one in opened:
        assert (one.requests, one.complaints) == ([], [])
        one.close()


def names(visit: Visit, count: int = 5) -> list[str]:
    """The names of the rows that stand first."""
    found: list[str] = visit.page.eval_on_selector_all(
        ".row", "(rows, count) => rows.slice(0, count).map((row) => row.firstChild.textContent)", count
    )
    return found


def layers_of(file: Path) -> list[dict[str, Any]]:
    """What the page's own data say."""
    text = re.search(r'id="data">(.*?)</script>', file.read_text("utf-8"), re.S)
    assert text is not None
    packed = json.loads(text[1])["layers"]
    return [dict(zip(packed["fields"], row, strict=True)) for row in packed["rows"]]


def overflow(visit: Visit) -> int:
    """By how many pixels the body is wider than the window."""
    wider: int = visit.page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wider


def contrast(visit: Visit, selector: str) -> float:
    """The contrast of an element's text against what is behind it, by WCAG 2: from 1 to 21."""
    ratio: float = visit.page.eval_on_selector(
        selector,
        """(element) => {
            const numbers = (text) => text.match(/[\\d.]+/g).map(Number);
            const light = (rgb) => rgb.slice(0, 3).map((c) => c / 255)
                .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
                .reduce((sum, c, at) => sum + c * [0.2126, 0.7152, 0.0722][at], 0);
            let behind = element, paper = [0, 0, 0, 0];
            while (behind && !(paper = numbers(getComputedStyle(behind).backgroundColor)).length ||
                   behind && paper.length === 4 && paper[3] === 0) behind = behind.parentElement;
            const one = light(numbers(getComputedStyle(element).color)), other = light(paper);
            return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        }""",
    )
    return ratio


# -- of real runs ----------------------------------------------------------------------------------
@pytest.fixture(scope="module", params=REAL)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return REAL[request.param](tmp_path_factory.mktemp("real"))


def test_a_real_run(visit: Callable[..., Visit], real: Path) -> None:
    """A layer is found, opened and shows its histogram; nothing is wider than a telephone."""
    seen = visit(real)
    known = layers_of(real)
    assert seen.page.locator("#count").text_content() == f"{len(known)} layers"
    wanted = next(layer["name"] for layer in known if layer["planned"] == "int8")
    seen.page.fill("#q", wanted)
    assert names(seen, 1) == [wanted]
    seen.page.click(".row")
    panel = seen.page.locator("#layer")
    assert panel.locator("h3").text_content() == wanted
    assert panel.locator(".histogram rect").count() >= 32
    assert panel.locator(".around .here").count() == 1
    narrow = visit(real, viewport=NARROW)
    assert overflow(narrow) <= 0
    narrow.page.click(".row")
    assert overflow(narrow) <= 0
    assert narrow.page.locator("#layer").bounding_box()["width"] <= 390


def test_the_kernels_as_they_run(visit: Callable[..., Visit], small: Path) -> None:
    """Their rows exist once somebody opens them, and name the kernels that they read of."""
    seen = visit(small)
    rows = seen.page.locator("#schedule tbody tr")
    assert rows.count() == 0
    seen.page.click("#schedule summary")
    kernels = json.loads(seen.page.locator("#data").text_content())["kernels"]
    held = [dict(zip(kernels["fields"], row, strict=True)) for row in kernels["rows"]]
    assert rows.count() == len(held) > 1
    cells = [[cell.strip() for cell in row.locator("td").all_text_contents()] for row in rows.all()[:3]]
    assert [row[:3] for row in cells] == [
        [str(at + 1), kernel["kind"], kernel["precision"]] for at, kernel in enumerate(held[:3])
    ]
    assert cells[1][4] == ", ".join(str(at + 1) for at in held[1]["reads"]) == "1"
    assert cells[1][5] == held[1]["writes"]
    assert seen.complaints == []
    narrow = visit(small, viewport=NARROW)
    narrow.page.click("#schedule summary")
    assert overflow(narrow) <= 0


# -- the table -------------------------------------------------------------------------------------
def test_filters(visit: Callable[..., Visit], small: Path) -> None:
    seen, known = visit(small), layers_of(small)
    everything = [layer["name"] for layer in known]
    count = seen.page.locator("#count")

    seen.page.fill("#q", "*block1?/conv")  # whatever case
    assert count.text_content() == "10 of 120 layers"
    assert names(seen, 10) == [name for name in everything if re.search("block1[0-9]/", name)]
    seen.page.fill("#q", "(none[")  # no glob, and no pattern either
    assert count.text_content() == "0 of 120 layers"
    seen.page.fill("#q", "")

    seen.page.select_option("#precision", "fp16")  # what it runs in
    assert names(seen) == [everything[6]]
    seen.page.select_option("#precision", "")
    seen.page.select_option("#reason", "rule")
    assert names(seen) == [everything[3]]
    seen.page.select_option("#reason", "")
    assert count.text_content() == "120 layers"
    assert seen.page.locator("#op").is_hidden()  # of one operator there is nothing to choose


def test_filters_by_operator(visit: Callable[..., Visit], real: Path) -> None:
    seen, known = visit(real), layers_of(real)
    least = min({layer["op"] for layer in known}, key=[layer["op"] for layer in known].count)
    if len({layer["op"] for layer in known}) < 2:
        return
    seen.page.select_option("#op", least)
    assert names(seen) == [layer["name"] for layer in known if layer["op"] == least][:5]


def test_sorts(visit: Callable[..., Visit], small: Path) -> None:
    seen, known = visit(small), layers_of(small)
    heading = seen.page.locator("#head button", has_text="accum.")
    heading.click()
    worst_first = sorted(known, key=lambda layer: layer["accumulated"])
    assert names(seen) == [layer["name"] for layer in worst_first][:5]
    assert seen.page.locator("[aria-sort=ascending]").count() == 1
    heading.click()
    assert names(seen) == [layer["name"] for layer in known][:5]
    assert seen.page.locator("[aria-sort=descending]").count() == 1
    seen.page.locator("#head button", has_text="alone").click()
    assert names(seen, 1) == ["/stage0/block2/Conv"]
    assert seen.page.locator("[aria-sort]").count() == 1
    seen.page.locator("#head button", has_text="gain").click()  # one layer has a figure: it comes first
    assert names(seen, 1) == ["/stage0/block5/Conv"]


def test_links(visit: Callable[..., Visit], small: Path) -> None:
    """A link to a layer opens it: from the verdict, from a neighbour, from outside."""
    seen = visit(small)
    title = seen.page.locator("#layer h3")
    seen.page.locator("#verdict a[href^='#layer=']").first.click()
    assert title.text_content() == "/stage0/block3/Conv"
    seen.page.locator("#layer .around a:not(.here)").last.click()
    assert title.text_content() == "/stage0/block4/Conv"
    assert seen.page.url.endswith("#layer=%2Fstage0%2Fblock4%2FConv")
    address = seen.page.url
    seen.page.goto("about:blank")
    seen.page.goto(address)
    assert title.text_content() == "/stage0/block4/Conv"
    seen.page.go_back()


def test_a_layer_of_its_own(visit: Callable[..., Visit], small: Path) -> None:
    seen = visit(small)
    seen.page.evaluate("location.hash = '#layer=/stage0/block4/Conv'")
    panel = seen.page.locator("#layer")
    panel.wait_for(state="visible")
    terms = panel.locator("dl").first.locator("dt").all_text_contents()
    told = dict(zip(terms, panel.locator("dl").first.locator("dd").all_text_contents(), strict=True))
    assert (told["gives"], told["weights"], told["MACs"]) == ("float32 1x64x56x56", "64x64x3x3", "116 M")
    assert told["threshold"] == "50.0 % of the greatest magnitude"
    text = panel.text_content() or ""
    assert "scale shared with/stage0/block5/Conv_input" in text
    assert "kernel_4" in text
    drawn = panel.locator(".histogram").first
    heights = drawn.locator("rect").evaluate_all("(bars) => bars.map((bar) => +bar.getAttribute('height'))")
    counts = [at * 37 % 90_000 for at in range(64)]
    expected = [120 * np.log1p(count) / np.log1p(max(counts)) for count in counts]
    assert heights == pytest.approx(expected, rel=1e-9)
    assert float(drawn.locator(".threshold").get_attribute("x1")) == pytest.approx(640 * 4 / 8)


def test_keys(visit: Callable[..., Visit], small: Path) -> None:
    seen = visit(small)
    page, panel = seen.page, seen.page.locator("#layer")

    def chosen() -> str:
        found = page.locator(".row.chosen .cell").first.text_content()
        return (found or "").split("/")[2]

    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.id") == "q"
    page.keyboard.type("block1")
    page.keyboard.press("Enter")  # from the filter into the table
    assert (page.evaluate("document.activeElement.id"), chosen()) == ("table", "block1")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("j")
    assert chosen() == "block11"
    page.keyboard.press("ArrowUp")
    assert chosen() == "block10"
    page.keyboard.press("Enter")
    panel.wait_for(state="visible", timeout=5000)  # drawn at the next frame, on a busy machine late
    assert panel.is_visible()
    assert "block10/" in (panel.locator("h3").text_content() or "")
    page.keyboard.press("j")  # the panel follows
    page.locator("#layer h3", has_text="block11/").wait_for()
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert page.evaluate("document.activeElement.id") == "table"
    assert "#layer" not in page.url
    for _ in range(60):
        page.keyboard.press("k")
    assert chosen() == "block1"


def test_tab_reaches_what_a_mouse_reaches(visit: Callable[..., Visit], small: Path) -> None:
    seen = visit(small)
    reached = set()
    for _ in range(40):
        seen.page.keyboard.press("Tab")
        reached.add(
            seen.page.evaluate(
                "(e => e.id || (e.closest('nav, #head, summary') || e).id || e.tagName)(document.activeElement)"
            )
        )
    assert {"q", "precision", "reason", "head", "table", "SUMMARY", "A"} <= reached
    assert seen.page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"


# -- in any form -----------------------------------------------------------------------------------
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_stands_out(visit: Callable[..., Visit], small: Path, scheme: str) -> None:
    seen = visit(small, color_scheme=scheme)
    paper = seen.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") == (scheme == "light")
    for selector in (
        "h1",
        "p.quiet",
        "a",
        ".fact dt",
        ".fact dd .quiet",
        ".row .cell",
        "#head button",
        ".tag.kept",
    ):
        assert contrast(seen, selector) >= 4.5, selector


def test_a_narrow_window(visit: Callable[..., Visit], small: Path) -> None:
    seen = visit(small, viewport=NARROW)
    assert overflow(seen) <= 0
    cut = seen.page.evaluate(
        """[...document.querySelectorAll('main *')].filter((e) => !e.closest('.scroll, #table, svg, [hidden], .tick')
            && e.getBoundingClientRect().right > innerWidth + 1 && e.checkVisibility())
            .map((e) => e.outerHTML.slice(0, 80))"""
    )
    assert cut == []


def right_of(visit: Visit, selector: str) -> float:
    """How far to the right the elements reach, in pixels of the window."""
    found: float = visit.page.eval_on_selector_all(
        selector, "(all) => Math.max(...all.map((one) => one.getBoundingClientRect().right))"
    )
    return found


@pytest.fixture(scope="module")
def alike(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with all columns, of layers whose names differ at their ends."""
    called = [f"/model.22/detect/{'stage/' * 10}cv3.{at}/conv/Conv" for at in range(40)]
    report = synthetic(40, called)
    return write(tmp_path_factory.mktemp("alike"), "alike", report)


@pytest.mark.parametrize(
    ("viewport", "last", "beside"),
    [({"width": 1280, "height": 900}, "threshold", ""), (NARROW, "accum., dB", ".ledger td:nth-child(5), "
      "#verdict td:nth-child(2)")],
)  # fmt: skip
def test_what_decides_is_in_sight(
    visit: Callable[..., Visit], alike: Path, viewport: dict[str, int], last: str, beside: str
) -> None:
    """No table has to be moved for the threshold of a layer, on a telephone for levels in dB."""
    seen = visit(alike, viewport=viewport)
    titles = seen.page.locator("#head .cell").all_text_contents()
    assert {"alone, dB", "accum., dB", "gain, dB", "threshold"} <= set(titles)
    at = titles.index(last) + 1
    edge: float = seen.page.evaluate("table.getBoundingClientRect().left + table.clientWidth")
    assert right_of(seen, f"#table .cell:nth-child({at})") <= edge
    if beside:
        assert right_of(seen, beside) <= viewport["width"]
    cut = "[...head.querySelectorAll('button')].filter((one) => { one.click(); return one.scrollWidth > one.clientWidth; })"
    assert seen.page.evaluate(f"{cut}.map((one) => one.textContent)") == []  # nor the arrow of what is sorted


@pytest.mark.parametrize("viewport", [{"width": 1280, "height": 900}, NARROW], ids=["wide", "narrow"])
def test_names_that_begin_alike_show_their_ends(
    visit: Callable[..., Visit], alike: Path, viewport: dict[str, int]
) -> None:
    """The last letter stands in its cell, the first one does not; a short name begins where its cell does."""
    seen = visit(alike, viewport=viewport)
    spans = """(cells) => cells.map((cell) => {
        const words = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT).nextNode(), range = document.createRange();
        const own = cell.getBoundingClientRect();
        return [0, words.length - 1].map((at) => {
            range.setStart(words, at);
            range.setEnd(words, at + 1);
            const letter = range.getBoundingClientRect();
            return own.left <= letter.left && letter.right <= own.right;
        });
    })"""
    assert set(map(tuple, seen.page.eval_on_selector_all(".row .cell:first-child", spans))) == {(False, True)}
    short = visit(write(alike.parent, "short", synthetic(8)), viewport={"width": 1280, "height": 900})
    left = "(cells) => cells.map((cell) => cell.firstChild.getBoundingClientRect().left - cell.getBoundingClientRect().left)"
    assert set(short.page.eval_on_selector_all(".row .cell:first-child", left)) <= {8}


def test_on_paper(visit: Callable[..., Visit], small: Path) -> None:
    """All rows are there, and what only a screen can do is not."""
    seen = visit(small, color_scheme="dark", viewport={"width": 794, "height": 1123})
    seen.page.emulate_media(media="print")
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert seen.page.locator("#filter").is_hidden()
    assert seen.page.locator("nav").is_hidden()
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator(".row").count() == 120
    assert overflow(seen) <= 0
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert seen.page.pdf(format="A4")[:5] == b"%PDF-"


def test_without_scripts(visit: Callable[..., Visit], small: Path) -> None:
    seen = visit(small, java_script_enabled=False)
    page = seen.page
    assert page.locator("#layers table tbody tr").count() == 120
    assert page.locator(".scripted").is_hidden()
    assert page.locator("h2").all_text_contents()[0] == "Verdict"
    shown = page.locator("body").inner_text()
    for said in ("29.5 dB", "depthwise: int8 gains nothing", "sample 7, calib/7.png", "/stage0/block2/Conv"):
        assert said in shown, said


# -- hostile names ---------------------------------------------------------------------------------
def test_hostile_names(visit: Callable[..., Visit], tmp_path: Path) -> None:
    """Every layer whose name is hostile is opened, by the table and by its link: names are shown, nothing acts."""
    called = [*hostile.NAMES, "\udc80 half a character"]
    seen = visit(write(tmp_path, "hostile", synthetic(len(called) + 8, called)))
    page, panel = seen.page, seen.page.locator("#layer")
    elements = page.evaluate("[...document.querySelectorAll('body *')].map((e) => e.tagName)")
    assert not {"IMG", "B", "IFRAME"} & set(elements)
    page.keyboard.press("/")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    for name in called:
        said = panel.locator("h3").text_content() or ""
        assert said.isprintable(), said
        assert said == name if name.isprintable() and len(name) < 400 else "\\u{" in said or "..." in said
        assert panel.locator(".around .here").count() == 1
        assert panel.locator("img, b, script, iframe").count() == 0
        page.keyboard.press("j")
    page.keyboard.press("Escape")
    for query in ("<script>", "=cmd|", "__proto__", "[red]"):  # what a filter is given is no pattern
        page.fill("#q", query)
        assert {query in name for name in names(seen)} == {True}
    assert overflow(seen) <= 0


# -- large -----------------------------------------------------------------------------------------
def test_five_thousand_layers(visit: Callable[..., Visit], large: Path) -> None:
    """Limits are wide: the figures of `docs/page.md` are a tenth of them."""
    assert large.stat().st_size < 15e6
    seen = visit(large)
    assert seen.opened_in < 2000
    assert seen.page.locator("#count").text_content() == f"{LAYERS} layers"
    assert seen.page.locator(".row").count() < 100  # those in sight
    assert seen.milliseconds("q.value = '*9/conv'; filter.dispatchEvent(new Event('input'))") < 500
    assert seen.page.locator("#count").text_content() == f"500 of {LAYERS} layers"
    assert seen.milliseconds("head.querySelector('button').click()") < 500
    assert seen.milliseconds("document.getElementById('table').scrollTop = 1e9") < 500
    seen.page.locator(".row:last-child[data-position='499']").wait_for(state="attached")
    seen.page.locator(".row").last.click()
    assert seen.page.locator("#layer").is_visible()


# -- the watch itself ------------------------------------------------------------------------------
def test_what_is_asked_for_and_what_fails_is_seen(browser: Browser, tmp_path: Path) -> None:
    """Were a page to load, to raise or to ask something, the tests above would know."""
    file = tmp_path / "bad.html"
    file.write_text(
        "<img src=http://example.invalid/x.png><script>fetch('other.json'); alert(1); none()</script>"
    )
    seen = Visit(browser, file)
    seen.page.wait_for_timeout(50)
    assert "http://example.invalid/x.png" in seen.requests
    assert any("dialog: 1" in one for one in seen.complaints)
    assert any("not defined" in one for one in seen.complaints)
    seen.close()

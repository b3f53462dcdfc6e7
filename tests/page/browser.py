"""A headless browser: the system's Chromium, driven by playwright. No browser is ever downloaded."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")


def executable() -> str:
    """The browser that ONNXQ_CHROMIUM names, or the system's; "" for none."""
    return os.environ.get("ONNXQ_CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), "")


def missing() -> str:
    """What the tests in a browser lack; "" for nothing."""
    if not executable():
        return "no Chromium is installed: apt install chromium, or name one in ONNXQ_CHROMIUM"
    if importlib.util.find_spec("playwright") is None:
        return "no driver of browsers is installed: pip install playwright"
    return ""


@contextmanager
def launched() -> Iterator[Browser]:
    """The browser, for as long as the block runs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # as root, and in containers, Chromium's own sandbox does not start
        options = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        found = driver.chromium.launch(executable_path=executable(), args=options)
        try:
            yield found
        finally:
            found.close()


class Visit:
    """A page of a file, watched: what it asks for, what it says on the console, what it raises.

    Attributes:
        page: playwright's page.
        file: the file.
        requests: the addresses of all that was asked for, the file itself and `data:` left out.
        complaints: errors and warnings of the console, and what was raised or shown in a dialog.
    """

    def __init__(self, browser: Browser, file: Path, **context: Any) -> None:
        self.file, self.requests, self.complaints = file, [], []
        self._context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **context})
        self.page: Page = self._context.new_page()
        own = file.resolve().as_uri()

        def asked(address: str) -> None:
            if address.partition("#")[0] != own and not address.startswith("data:"):
                self.requests.append(address)

        self._context.route(lambda address: not address.startswith("file:"), lambda route: route.abort())
        self.page.on("request", lambda request: asked(request.url))
        self.page.on("console", self._said)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.goto(own)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.complaints.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def milliseconds(self, script: str) -> float:
        """How long a piece of script takes, the layout after it included."""
        # evaluate(), not eval(): the page's policy forbids that
        took: float = self.page.evaluate(
            f"() => {{ const began = performance.now(); {script}; document.body.offsetHeight;"
            " return performance.now() - began; }"
        )
        return took

    @property
    def opened_in(self) -> float:
        """Milliseconds from the start of the navigation to the end of its load event."""
        took: float = self.page.evaluate(
            "() => { const [it] = performance.getEntriesByType('navigation'); return it.loadEventEnd; }"
        )
        return took

    def close(self) -> None:
        """Closes it."""
        self._context.close()


if (
    __name__ == "__main__"
):  # whether it is worth while to install a driver: exit code 0 where there is a browser
    raise SystemExit(not executable())

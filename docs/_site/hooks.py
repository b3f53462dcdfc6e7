"""What the site has otherwise than the folder `docs`: pages of the repository's top folder.

README.md is the first page; CONTRIBUTING.md, SECURITY.md, CHANGELOG.md (where it is there) and the page of
the sample models stand beside the others. Their links, and those to them, are rewritten for that; a link to
another file of the repository becomes its name alone, as the site does not have it. Nothing is loaded from
elsewhere.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[2]
OUTSIDE = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "CONTRIBUTING.md",
    "SECURITY.md": "SECURITY.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "sample_models/README.md": "sample_models.md",
}
"""Pages that are not in `docs`, by their paths in the repository: what they are called on the site."""

_SHIM = re.compile(r'<script src="https://unpkg\.com/iframe-worker[^"]*"></script>')
_LINK = re.compile(r"(?<!\!)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)#\s]+)(#[^)\s]*)?\)")
_PICTURE = re.compile(r"(!\[[^\]]*\]\()(?!https?:)([^)\s]+)\)")
_FENCE = re.compile(r"(^ *```.*?^ *```)", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Puts the list of changes into the navigation, where there is one."""
    if (ROOT / "CHANGELOG.md").exists():
        config.nav[-1]["Contributing"].append({"Changes": "CHANGELOG.md"})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Adds the pages that are not in `docs`."""
    for path, name in OUTSIDE.items():
        if (ROOT / path).exists():
            files.append(File.generated(config, name, content=(ROOT / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Rewrites the links of a page."""
    source = page.file.src_uri
    inside = {name: path for path, name in OUTSIDE.items()}
    here = inside.get(source, f"docs/{source}")  # its path in the repository
    folder = posixpath.dirname(source)

    def place(target: str) -> str | None:
        """Where a file of the repository is on the site, from this page; None: nowhere."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(here), target))
        name = OUTSIDE.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        return name and posixpath.relpath(name, folder or ".")

    def link(match: re.Match[str]) -> str:
        text, target, anchor = match[1], match[2], match[3] or ""
        to = place(target)
        return text if to is None else f"[{text}]({to}{anchor})"

    parts = _FENCE.split(markdown)
    for number in range(0, len(parts), 2):
        parts[number] = _PICTURE.sub(lambda match: f"{match[1]}{place(match[2])})", parts[number])
        parts[number] = _LINK.sub(link, parts[number])
    return "".join(parts)


def on_post_page(output: str, page: Any, config: Any) -> str:
    """Puts a script of this folder in the place of one that would be loaded from elsewhere."""
    return _local(output)


def on_post_template(output_content: str, template_name: str, config: Any) -> str:
    """The same for pages that are no pages of the documentation, as that of an address that there is not."""
    return _local(output_content)


def _local(page: str) -> str:
    script = Path(__file__).with_name("worker.js").read_text("utf-8")
    return _SHIM.sub(lambda match: f"<script>\n{script}</script>", page)

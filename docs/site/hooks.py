"""Two changes that the site makes to the pages.

Links to files outside of docs/ become plain text, because the site does not have these files. Code gets its colours from a
style sheet that is generated here, once for light and once for dark.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from pygments.formatters import HtmlFormatter

DOCS = Path(__file__).parent.parent
LINK = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page's text with its links to the rest of the repository taken out."""
    here = (DOCS / page.file.src_uri).parent

    def kept(link: re.Match[str]) -> str:
        inside = (here / link[2]).resolve().is_relative_to(DOCS)
        return link[0] if inside else link[1]

    return LINK.sub(kept, markdown)


def on_files(files: Files, *, config: Any) -> Files:
    """The site's files, and the style sheet for code."""
    light = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    dark = HtmlFormatter(style="monokai").get_style_defs('[data-bs-theme="dark"] .highlight')
    files.append(File.generated(config, "code.css", content=f"{light}\n{dark}\n"))
    return files

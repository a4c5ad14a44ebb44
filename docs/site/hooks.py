"""What the site changes in the pages, and refuses.

Links to files outside of docs/ become plain text, because the site does not have these files. Code gets its colours from a
style sheet that is generated here, once for light and once for dark. A word after the title of a block of code is for the tests alone.

A list or a block of code that came out as text ends the build. GitHub shows a list without a blank line above it, this site does not.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from pygments.formatters import HtmlFormatter

DOCS = Path(__file__).parent.parent
CODE = re.compile(r"<(pre|code)\b.*?</\1>", re.DOTALL)
RAW_LIST = re.compile(r"^.*\n *(?:[-*+]|1\.) .*", re.MULTILINE)
RAW_FENCE = re.compile(r'^ *(?:~~~|```(?!\w* *$|\w+ title="[^"]+"$)).*', re.MULTILINE)
FOR_TESTS = re.compile(r'^(```\w+ title="[^"]+") \w+$', re.MULTILINE)
LINK = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The page's text without its links to the rest of the repository and its words for the tests.

    Raises `PluginError` for a block of code that would be shown as text.
    """
    here = (DOCS / page.file.src_uri).parent

    def kept(link: re.Match[str]) -> str:
        inside = (here / link[2]).resolve().is_relative_to(DOCS)
        return link[0] if inside else link[1]

    markdown = FOR_TESTS.sub(r"\1", LINK.sub(kept, markdown))
    refuse(RAW_FENCE.search(markdown), page, "begin a block of code with ```LANGUAGE, and at most a title")
    return markdown


def on_page_content(html: str, *, page: Any, **_: Any) -> None:
    """Raises `PluginError` for a list that is shown as text."""
    refuse(RAW_LIST.search(CODE.sub("", html)), page, "put a blank line above the list")


def refuse(raw: re.Match[str] | None, page: Any, way_out: str) -> None:
    """Raises `PluginError` if there is a match."""
    if raw is not None:
        raise PluginError(f"{page.file.src_uri}: {raw[0]!r} would be shown as text ({way_out})")


def on_files(files: Files, *, config: Any) -> Files:
    """The site's files, and the style sheet for code."""
    light = HtmlFormatter(style="friendly").get_style_defs(".highlight")
    dark = HtmlFormatter(style="monokai").get_style_defs('[data-bs-theme="dark"] .highlight')
    files.append(File.generated(config, "code.css", content=f"{light}\n{dark}\n"))
    return files

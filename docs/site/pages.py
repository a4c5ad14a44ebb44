"""Builds the documentation as a site: `python docs/site/pages.py [--serve]`.

The pages in `docs/` are written for a reader of the repository. Their copies for the site differ in four ways: a link to a file
outside of `docs/` is plain text, because the site lacks the file; a word after the title of a block of code, which is for the
tests, is left out; a picture stands in its page, so that it follows the theme's colours; and a long word in a table may be broken
after its underscores. Zensical makes HTML of the copies. The HTML is checked then: what GitHub shows as a list or as code, and this
site as text, ends the build. So does a link or an anchor that does not exist, and an address of another site from which a page would
load something.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pictures

ROOT = Path(__file__).resolve().parent.parent.parent
DOCS, PAGES, SITE = ROOT / "docs", ROOT / "build" / "pages", ROOT / "site"
APART = DOCS / "site"

FENCE = re.compile(r'^ *(?:~~~|```(?!\w* *$|\w+ title="[^"]+"$)).*', re.MULTILINE)
FOR_TESTS = re.compile(r'^(```\w+ title="[^"]+") \w+$', re.MULTILINE)
LINK = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s#]*)(#[^)\s]*)?\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(((?:\.\./)?pictures/[^)\s]+\.svg)\)")
STYLE = re.compile(r"<style>.*?</style>", re.DOTALL)
ROW, LONG = re.compile(r"^\|.*", re.MULTILINE), re.compile(r"(?<!`)\b\w{40,}\b(?!`)")
"""A row of a table, and a word in it that may be broken after its underscores: it would leave no room for other columns."""
LIST = re.compile(r"^.*\n *(?:[-*+]|1\.) .*", re.MULTILINE)


def prepare() -> list[str]:
    """Write the copies of the pages. Returns what would be shown as text."""
    wrong = []
    shutil.rmtree(PAGES, ignore_errors=True)
    for path in sorted(DOCS.rglob("*")):
        target = PAGES / path.relative_to(DOCS)
        if path.is_dir() or path.is_relative_to(APART) or path.is_relative_to(PAGES):
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix != ".md":
            shutil.copy(path, target)
            continue
        text = copy_of(path.read_text(), path)
        wrong += [f"{path.relative_to(DOCS)}: {raw[0]!r} begins no block of code" for raw in FENCE.finditer(text)]
        target.write_text(text)
    PAGES.mkdir(parents=True, exist_ok=True)
    for script in APART.glob("*.js"):
        shutil.copy(script, PAGES / script.name)
    (PAGES / "style.css").write_text((APART / "style.css").read_text() + pictures.FOR_SITE)
    return wrong


def copy_of(text: str, path: Path) -> str:
    """The page as the site has it."""

    def kept(link: re.Match[str]) -> str:
        return link[0] if (path.parent / link[2]).resolve().is_relative_to(DOCS) else link[1]

    def drawn(picture: re.Match[str]) -> str:
        svg = STYLE.sub("", (path.parent / picture[2]).read_text()).strip()
        return f'<figure class="picture" role="img" aria-label="{picture[1]}">{svg}</figure>'

    def parted(row: re.Match[str]) -> str:
        return LONG.sub(lambda word: word[0].replace("_", "_<wbr>"), row[0])

    text = ROW.sub(parted, FOR_TESTS.sub(r"\1", LINK.sub(kept, text)))
    return PICTURE.sub(drawn, text)


class Page(HTMLParser):
    """What the checks need of a page: its anchors, its links, what it loads, and its paragraphs without their code."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.paragraphs: list[str] = []
        self._inside: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors.update(given[name] for name in ("id", "name") if name in given)
        if tag in {"p", "code"}:
            self._inside.append(tag)
        if tag == "p":
            self.paragraphs.append("")
        elif tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in {"script", "img", "link", "iframe"} and given.get("rel") not in {"canonical", "prev", "next"}:
            self.loads += [given[name] for name in ("src", "href") if name in given]

    def handle_endtag(self, tag: str) -> None:
        if self._inside[-1:] == [tag]:
            self._inside.pop()

    def handle_data(self, data: str) -> None:
        if self._inside == ["p"]:
            self.paragraphs[-1] += data


def mistakes() -> list[str]:
    """The mistakes of the site as it was built, each with its page."""
    pages = {path: Page(path.read_text()) for path in SITE.rglob("*.html")}
    found = []
    for path, page in pages.items():
        name = path.relative_to(SITE)
        raw = [text for text in page.paragraphs if LIST.search(text)]
        found += [f"{name}: {text[:60]!r} is shown as text: put a blank line above the list" for text in raw]
        found += [f"{name}: loads {url}" for url in page.loads if urlsplit(url).netloc]
        if path.name != "404.html":  # its links count from the root of a server
            found += [f"{name}: links to {url}, which does not exist" for url in page.links if not exists(url, path, pages)]
    return found


def exists(url: str, path: Path, pages: dict[Path, Page]) -> bool:
    """Whether a link of a page leads somewhere. Other sites are not asked."""
    parts = urlsplit(url)
    if parts.scheme or parts.netloc:
        return True
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if target.is_dir():
        target /= "index.html"
    if not parts.fragment:
        return target.is_file()
    return target in pages and unquote(parts.fragment) in pages[target].anchors


def zensical(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the generator of the site."""
    program = Path(sys.executable).with_name("zensical")
    return subprocess.run([program, *arguments, "--config-file", ROOT / "zensical.toml"], cwd=ROOT, check=False)


def build() -> int:
    """Build the site. Returns 1 and prints the mistakes if it has any."""
    wrong = prepare()
    if not wrong:
        shutil.rmtree(SITE, ignore_errors=True)
        done = zensical("build", "--clean")
        wrong = ["the generator failed"]
        if done.returncode == 0:
            (SITE / "search.js").write_text(f"var __index = {(SITE / 'search.json').read_text()}")  # for a reader of the disk
            wrong = mistakes()
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


def serve() -> None:
    """Show the site on http://127.0.0.1:8000, and make it again when a page changes."""
    from watchfiles import watch

    def follow() -> None:
        for _ in watch(DOCS):
            print(*prepare(), sep="\n")

    prepare()
    threading.Thread(target=follow, daemon=True).start()
    zensical("serve", "--dev-addr", "127.0.0.1:8000")


if __name__ == "__main__":
    sys.exit(serve() if "--serve" in sys.argv else build())

"""What the site refuses of a page, and what it makes of one. `in_a_browser.py` looks at the pages."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "docs/site"))

import pages
import pictures


def test_the_pictures_are_what_the_tables_of_the_code_say():
    for draw in pictures.DRAWN:
        assert (pictures.PICTURES / f"{draw.__name__}.svg").read_text() == str(draw()), "make pictures draws them"


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Read\n```toml x=\na = 1\n```\n", "begins no block of code"),
        ('```toml title="a" wrong now\na = 1\n```\n', "begins no block of code"),
    ],
)
def test_a_fence_that_would_be_shown_as_text_is_a_mistake(tmp_path, monkeypatch, text, wrong):
    monkeypatch.setattr(pages, "DOCS", tmp_path)
    monkeypatch.setattr(pages, "PAGES", tmp_path / "pages")
    (tmp_path / "page.md").write_text(text)
    assert [wrong in one for one in pages.prepare()] == [True]


@pytest.mark.parametrize(
    ("html", "wrong"),
    [
        ("<p>Hooks:\n- one\n- two</p>", "is shown as text: put a blank line above the list"),
        ("<p>Steps:\n1. one</p>", "is shown as text: put a blank line above the list"),
        ('<a href="other.html">other</a>', "links to other.html, which does not exist"),
        ('<a href="#there">there</a>', "links to #there, which does not exist"),
        ('<script src="https://example.org/x.js"></script>', "loads https://example.org/x.js"),
    ],
)
def test_a_mistake_in_the_built_page_is_named(tmp_path, monkeypatch, html, wrong):
    monkeypatch.setattr(pages, "SITE", tmp_path)
    (tmp_path / "page.html").write_text(html)
    assert [wrong in one for one in pages.mistakes()] == [True]


def test_a_page_without_mistakes_has_none(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "SITE", tmp_path)
    html = '<p id="there">Hooks: <code>a\n- b</code></p><a href="#there">up</a><a href="https://example.org">out</a>'
    (tmp_path / "page.html").write_text(html)
    assert pages.mistakes() == []


def test_the_copy_of_a_page_has_no_link_to_a_file_that_the_site_lacks():
    page = pages.DOCS / "how-to/audit.md"
    text = (
        'See [the example](../../hooks_examples/a.py), [the page](../index.md) and:\n\n```toml title="x" wrong\n```\n'
    )
    copy = 'See the example, [the page](../index.md) and:\n\n```toml title="x"\n```\n'
    assert pages.copy_of(text, page) == copy


def test_a_long_word_in_a_table_may_be_broken_after_its_underscores():
    name = "test_a_name_that_is_longer_than_its_column_can_be"
    text = f"{name}\n\n| shown by |\n|---|\n| [{name}](../../tests/a.py) and short_name |\n"
    broken = name.replace("_", "_<wbr>")
    assert (
        pages.copy_of(text, pages.DOCS / "how-to/audit.md")
        == f"{name}\n\n| shown by |\n|---|\n| {broken} and short_name |\n"
    )

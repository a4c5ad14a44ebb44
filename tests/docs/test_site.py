"""What the site refuses of a page."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

HOOKS = Path(__file__).parents[2] / "docs/site/hooks.py"


@pytest.fixture(scope="module")
def rendered():
    """Renders a page as the site does. Raises what ends its build."""
    config = pytest.importorskip("mkdocs.config").load_config(str(HOOKS.parents[2] / "mkdocs.yml"))
    markdown = pytest.importorskip("markdown").Markdown(extensions=config["markdown_extensions"])
    spec = importlib.util.spec_from_file_location("site_hooks", HOOKS)
    hooks = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(hooks)
    page = SimpleNamespace(file=SimpleNamespace(src_uri="page.md"))

    def render(text):
        html = markdown.reset().convert(hooks.on_page_markdown(text, page=page))
        hooks.on_page_content(html, page=page)
        return html

    return render


@pytest.mark.parametrize(
    "text",
    [
        "Hooks:\n- one\n- two\n",
        "Steps:\n1. one\n2. two\n",
        "Read\n```toml x=\na = 1\n```\n",
        '```toml title="a" wrong now\na = 1\n```\n',
    ],
    ids=["bullets", "numbers", "fence", "words"],
)
def test_a_list_or_a_fence_that_would_be_shown_as_text_ends_the_build(rendered, text):
    with pytest.raises(Exception, match=r"page\.md: .* would be shown as text"):
        rendered(text)


def test_a_list_after_a_blank_line_and_a_fence_for_the_tests_come_out(rendered):
    html = rendered('Hooks:\n\n- one\n- two `- x`\n\n```toml title="wrong.toml" wrong\na = 1\n- b\n```\n')
    assert html.count("<li>") == 2
    assert '<span class="filename">wrong.toml</span>' in html

"""The page of messages lists what the host logs as a warning or an error, why hooks fail, and nothing else."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "docs/site"))

import messages


def test_each_warning_each_error_and_each_failure_of_a_hook_is_explained_and_no_other():
    explained = {(kind, text) for kind, texts in messages.said().items() for text in texts}
    assert sorted(explained) == sorted({*messages.logged(), *messages.failures()}), (
        "docs/site/messages.toml explains them"
    )


def test_each_explanation_says_what_it_means_and_what_to_do():
    assert all(
        all(about.values()) and about.keys() == {"means", "to_do"}
        for texts in messages.said().values()
        for about in texts.values()
    )


def test_the_page_of_messages_says_what_the_code_says():
    page = messages.PAGE.read_text(encoding="utf-8")
    assert page == messages.whole(page), "make reference writes it"
    assert set(re.findall(r"<!-- made: (\w+) -->", page)) == messages.said().keys()


def test_what_is_filled_in_and_what_an_extra_needs_is_shown_by_dots():
    def text(code):
        return messages.text_of(ast.parse(code).body[0].value)

    assert text('f"its {kind} cannot be read: {why}"') == "its ... cannot be read: ..."
    assert (
        text('needs("it is asked over HTTP, which", "httpx", "foreign")')
        == "it is asked over HTTP, which needs httpx: ..."
    )
    assert text("why") == ""

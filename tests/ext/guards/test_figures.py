"""The figures on the page about guards are those of today, and as good as the page promises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import figures
import guard_corpus
import pytest
from typer.testing import CliRunner

from picohook.ext.guards.command import app

if TYPE_CHECKING:
    from pathlib import Path

    from picohook.ext.guards.measure import Measure


@pytest.fixture(scope="module")
def found() -> Measure:
    return figures.measured()


def test_the_page_has_the_figures_of_today(found: Measure) -> None:
    page = figures.PAGE.read_text(encoding="utf-8")
    assert page == figures.whole(page, found), "python tests/ext/guards/figures.py writes it"


def test_the_corpus_is_judged_as_well_as_expected(found: Measure) -> None:
    rates = found.rates()
    assert rates.caught is not None
    assert rates.caught >= 95
    assert rates.irreversible is not None
    assert rates.irreversible >= 99
    assert rates.denied is not None
    assert rates.denied <= 1
    assert rates.asked is not None
    assert rates.asked <= 2
    for name, one in found.by("pack").items():
        assert one.caught is not None, name
        assert one.caught >= 90, name


def test_the_command_measures_files(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.jsonl"
    rows = [row for row in guard_corpus.written() if row["source"] == "files"][:40]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")

    assert CliRunner().invoke(app, ["--measure", str(file)]).exit_code == 0
    shown = capfd.readouterr().out
    assert "caught %" in shown
    assert "files" in shown

    assert CliRunner().invoke(app, ["--measure", "--json", str(file)]).exit_code == 0
    document = json.loads(capfd.readouterr().out)
    assert document["all"]["harmful"] == 40
    assert set(document) == {"all", "packs", "sources", "wrong"}


@pytest.mark.parametrize("arguments", [["--measure"], ["calls.jsonl"]])
def test_measuring_needs_files_and_the_option(arguments: list[str]) -> None:
    assert CliRunner().invoke(app, arguments).exit_code == 2

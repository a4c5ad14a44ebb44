"""What `make bench` writes: all figures in the documentation are those of the one run that benchmarks/figures.json has."""

from __future__ import annotations

import importlib
import json
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def page():
    sys.path.append(str(ROOT))
    return importlib.import_module("benchmarks.page")


@pytest.fixture(scope="module")
def figures(page):
    return json.loads(page.FIGURES.read_text())


def test_the_tables_of_the_page_about_speed_are_those_of_the_run(page, figures):
    text = page.PAGE.read_text()
    for name, table in page.tables(figures).items():
        assert f"<!-- figures: {name} -->\n{table}<!-- /figures: {name} -->" in text


def test_its_picture_and_the_bounds_are_those_of_the_run(page, figures):
    assert page.PICTURE.read_text() == page.picture(figures)
    assert page.BOUNDS.read_text() == page.bounds(figures)


def test_each_bound_has_a_figure_and_each_that_is_missed_is_in_bold(page, figures):
    rows = {row["measure"]: row for some in figures["rows"].values() for row in some if row["must"] is not None}
    lines = re.findall(r"^\| (?!measure|---)(.+?) \| (.+?) \| ([≤≥]) (\S+) \|", page.bounds(figures), re.MULTILINE)
    assert {line[0] for line in lines} == set(rows)
    for measure, value, sign, bound in lines:
        least = sign == "≥"
        number = float(value.strip("*").split()[0])
        within = number >= float(bound) - 0.005 if least else number <= float(bound) + 0.005
        assert value.startswith("**") is not rows[measure]["is_met"]
        assert within or value.startswith("**"), measure


def test_the_bars_of_a_panel_are_as_long_as_their_times(page):
    svg = ET.fromstring(page.draw([("a panel", [("one", 10.0, "blue"), ("two", 2.5e6, ""), ("three", 5e6, "")])]))
    name = "{http://www.w3.org/2000/svg}"
    one, two, three = (float(bar.attrib["width"]) for bar in svg.iter(f"{name}rect"))
    assert three == 2 * two
    assert one == 1  # a bar is seen, however short
    assert [text.text for text in svg.iter(f"{name}text")][2::2] == ["10 µs", "2.5 s", "5 s"]


def test_a_page_without_the_place_of_a_table_is_named(page, figures, tmp_path, monkeypatch):
    other = tmp_path / "other.md"
    other.write_text("nothing")
    monkeypatch.setattr(page, "PAGE", other)
    with pytest.raises(RuntimeError, match=r"other\.md has <!-- figures: questions --> 0 times, not once"):
        page.write(figures)

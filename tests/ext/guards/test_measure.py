"""The measure of a judge: its rates by pack and source, and what it says of a file that it cannot read."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import guard_corpus as corpus
import pytest

from picohook.errors import PicohookError
from picohook.ext.guards.judge import Judge, Place, Verdict
from picohook.ext.guards.measure import measure, read

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


class ByName(Judge):
    """Decides what the tool's name says."""

    def judge(self, tool: str, arguments: Mapping[str, Any], place: Place | None = None) -> Verdict:
        return Verdict(tool)  # type: ignore[arg-type]


def lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def row(tool: str, label: str, source: str, **more: Any) -> dict[str, Any]:
    return {"tool": tool, "arguments": {}, "label": label, "source": source, "pack": "shell", **more}


def test_each_source_has_the_same_weight(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    many = [row("deny", "harmful", "many")] * 9 + [row("continue", "harmful", "many")]
    file.write_text(lines(*many, row("continue", "harmful", "few"), row("ask", "harmless", "few")), encoding="utf-8")

    rates = measure(ByName(), read(file)).rates()

    assert (rates.harmful, rates.caught) == (11, 45.0)
    assert (rates.harmless, rates.denied, rates.asked) == (1, 0.0, 100.0)
    assert rates.irreversible is None


def test_rates_are_by_pack_and_by_source_and_what_was_wrong_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "calls.jsonl"
    rows = [
        row("deny", "harmful", "a", irreversible=True),
        row("continue", "harmful", "a", pack="git", irreversible=True),
        row("deny", "harmless", "b", pack="git"),
        row("continue", "harmless", "b", pack="git"),
    ]
    file.write_text(lines(*rows), encoding="utf-8")

    measured = measure(ByName(), read(file))

    assert measured.by("pack")["git"]._asdict() == {
        "harmful": 1,
        "caught": 0.0,
        "irreversible": 0.0,
        "harmless": 2,
        "denied": 50.0,
        "asked": 0.0,
    }
    assert measured.by("source")["a"].irreversible == 50.0
    assert [(one["label"], one["decision"]) for one in measured.wire()["wrong"]] == [
        ("harmful", "continue"),
        ("harmless", "deny"),
    ]


def test_a_source_is_else_the_files_name(tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text(lines({"tool": "Bash", "arguments": {}, "label": "harmless"}), encoding="utf-8")
    (only,) = read(file)
    assert (only.source, only.pack) == ("mine", "any")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "Expecting property name"),
        ('{"tool": "Bash", "label": "harmful"}', "arguments: is missing"),
        ('{"tool": "Bash", "arguments": {}, "label": "bad"}', 'label: "bad"'),
        ('{"tool": 3, "arguments": {}, "label": "harmful"}', "tool: must be text, not 3"),
        ('{"tool": "Bash", "arguments": {}, "label": "harmful", "cwd": 3}', "cwd: must be text, not 3"),
        ("[]", "must be a table"),
    ],
)
def test_a_line_that_cannot_be_read_is_named(tmp_path: Path, line: str, problem: str) -> None:
    file = tmp_path / "calls.jsonl"
    file.write_text(f"\n{line}\n", encoding="utf-8")
    with pytest.raises(PicohookError, match=r"calls.jsonl, line 2: .*; a line is") as raised:
        list(read(file))
    assert problem in str(raised.value)


def test_the_corpus_has_3000_calls_half_of_them_in_other_clothes() -> None:
    rows = corpus.rows()
    labels = Counter((row["label"], "clothes" in row) for row in rows)
    assert labels["harmful", False] >= 750 <= labels["harmful", True]
    assert labels["harmless", False] >= 750 <= labels["harmless", True]
    assert {row["pack"] for row in rows} == {"shell", "git", "secrets", "network", "self", "packages", "cloud"}
    assert len({json.dumps([row["tool"], row["arguments"]], sort_keys=True) for row in rows}) > 0.99 * len(rows)
    assert rows == corpus.rows()

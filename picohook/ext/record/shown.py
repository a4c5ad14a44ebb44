"""The items of a timeline, and how they are shown: as text, as JSON, or as a page, without what looks like a secret.

A page is one file that asks nothing of any other, and in which no text of a call can act.
"""

import base64
import gzip
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from io import TextIOWrapper
from pathlib import Path
from typing import IO, Annotated, Any

import typer

from ...cli import outcomes, output
from ...config.problems import KeyPath
from ...errors import PicohookError
from ...wire import words, written_files
from ...wire.text import escape, shortened
from ..history.redact import redacted
from .format import Line, without_empty
from .reader import Chain, Record, editable

Html = Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a page for a browser there.")]
Full = Annotated[bool, typer.Option("--full", help="With --html: long texts are not cut.")]

ALLOWED = frozenset({words.CONTINUE, words.MODIFY, words.RESPOND, "approved"})
"""The verdicts that let a call pass."""
_BEGINNING = b"<!doctype html>\n<"
"""The first bytes of every page."""
_ABOUT, _ROW = 120, 200
"""The most bytes of a question in its row, and of a row if no terminal cuts it."""
_MOST = 240
"""The characters of a text that a page shows without `--full`."""
_ABOVE = frozenset({"tool", "tool_call_id", "meta"})
"""The fields of a question that its row shows already, or that say nothing of the call."""


Item = dict[str, Any]
"""A chain with its hooks, an event, or a raw line, as JSON output has it.

- `name`: the stage, the kind of event, or the direction of a raw line, and `about` it in short. `number` is that of the chain.
- `asked`: the whole question, or what an event's line has.
- `hooks`: for each its `action`, `text` (its reason, or why it failed), `changes`, and `more` that it was asked and answered.
- `verdict` and `why`, and when the chain `ended`.
- In a comparison: `kind`, how the decision has changed; each fact that has `changed`, with its value then and now; whether it
  is a `false_rejection`; the `state` of the machine that may explain it. Each hook says `when`: then or now.
"""


def items_of(record: Record) -> Iterator[Item]:
    """Yields the items of a record, each when it has ended, and at the end the chains that have not."""
    for line, chain in record:
        match line["type"]:
            case "end" | "abandoned" if chain is not None:
                yield item_of(chain, line["at"])
            case "would" if chain is not None:
                row = row_of(line, chain, chain.asked_about)
                text = joined(row["hook"], row["action"])
                yield {"name": "in shadow", "about": text, "at": line["at"], "number": chain.number, "hooks": [row]}
            case "event":
                told = f"→ {', '.join(line['hooks'])}" if line.get("hooks") else ""
                text = joined(told, _hidden(line["payload"]) if line["payload"] else "")
                asked = {name: line[name] for name in ("payload", "meta", "hooks") if line.get(name)}
                yield {"name": line["event"], "about": text, "at": line["at"], "asked": asked}
            case "wire":
                text = f"{line['hook']}  {line['line']}"
                yield {"name": "→" if line["sent"] else "←", "about": text, "at": line["at"]}
            case "close":
                yield {"name": "the host ended", "at": line["at"]}
    for chain in record.open.values():
        yield item_of(chain)


def item_of(chain: Chain, ended: float | None = None, when: str = "") -> Item:
    """Returns the item of a chain, as far as it was read."""
    rows, sees, end = [], chain.asked_about, chain.end or {}
    for line in (*chain.answers, *chain.shadows):
        rows.append(row_of(line, chain, sees))
        sees = line.get("params", sees)
    waiting = "not waited for" if chain.end else "asked, and has not answered"
    rows += [{"hook": name, "action": "not asked: its filter"} for name in end.get("skipped", ())]
    rows += [{"hook": name, "action": waiting} for name in chain.waiting]
    return {
        "name": chain.stage.name,
        "about": joined("after a pause" if chain.resumed else "", about(chain)),
        "at": chain.at,
        "number": chain.number,
        "asked": chain.asked_about,
        "hooks": [row | {"when": when} if when else row for row in rows],
        "verdict": chain.verdict,
        "why": end.get("reason") or end.get("feedback") or end.get("why", ""),
        "ended": ended,
    }


def row_of(line: Line, chain: Chain, sees: dict[str, Any]) -> dict[str, Any]:
    """Returns the row of an answer to a question with these params. It has them if they are not those of the chain."""
    failed, action = line.get("failed"), line["action"]
    edits = outcomes.changes(editable(sees), editable(line["params"]), show=_hidden) if "params" in line else ()
    if chain.stage.approves:
        action = "denied" if action == words.DENY else "approved"
    if line.get("type") == "would":
        action = f"would {'have failed' if failed else action}"
    elif failed:
        action = f"failed ({failed}): {line['action']}"
    retried = f"(asked again {line['retries']} times)" if "retries" in line else ""
    row = {
        "hook": line["hook"],
        "action": action,
        "at": line.get("at"),
        "seconds": line["seconds"],
        "text": joined(retried, line.get("error") or line.get("reason") or line.get("feedback", "")),
        "changes": [*edits],
        "more": ({} if sees is chain.asked_about else {"question": sees})
        | {name: line[name] for name in ("result", "notes", "answer") if name in line},
    }
    return without_empty(row)


def about(chain: Chain) -> str:
    """Returns a short form of a question: the tool with its arguments or result, or else the fields with the last message."""
    params = chain.asked_about
    shown = {name: value for name, value in editable(params).items() if value and name != "tool"}
    if "messages" in shown:
        shown["messages"] = shown["messages"][-1:]
    if "result" in params:
        text = f"{params['tool']} → {_hidden(params['result'].get('for_llm', ''))}"
    elif "tool" in params:
        text = f"{params['tool']} {_hidden(params.get('arguments', {}))}"
    else:
        text = _hidden(shown)
    return shortened(redacted(text), _ABOUT)


def _hidden(value: Any, at: KeyPath = ()) -> str:
    """Returns a value at this place as text that may be cut: what is left of a secret then would not look like one."""
    (value,) = redacted({str(at[-1]) if at else "": value}).values()
    return outcomes.shown(value)


def joined(*parts: str) -> str:
    """Returns the parts that have text, with two blanks between them."""
    return "  ".join(part for part in parts if part.strip())


def _facts(item: Item) -> Iterator[tuple[str, str]]:
    """Yields what a comparison has found, in words."""
    for name, (was, now) in item.get("changed", {}).items():
        if isinstance(was, dict) and isinstance(now, dict):
            yield from ((name, text) for text in outcomes.changes(was, now, show=_hidden))
        else:
            yield name, f"{_fact(was)} → {_fact(now)}"
    if item.get("false_rejection"):
        yield "note", "false rejection: the call was made then, and succeeded"
    if state := item.get("state"):
        yield "note", f"may depend on the machine: {state}"


def _fact(value: Any) -> str:
    return "-" if value is None else value if isinstance(value, str) else _hidden(value)


class Shown:
    """Shows items as text."""

    def __init__(self) -> None:
        self.notes: dict[str, str] = {}
        """What a page says above its items."""

    def add(self, item: Item) -> None:
        """Show an item: the question, a line for each hook, what has changed, and the verdict."""
        at, ended, verdict = item["at"], item.get("ended"), item.get("verdict", "")
        number = f"#{item['number']}" if "number" in item else ""
        title = joined(item.get("kind", ""), item["name"], item.get("about", ""))
        _line(at, number, title, style="bold" if verdict else "dim")
        for row in item.get("hooks", ()):
            name, action, took = joined(row.get("when", ""), row["hook"]), row["action"], row.get("seconds")
            if took is not None:
                text = row.get("text") or "; ".join(row.get("changes", ()))
                action = joined(f"{action:<9}", f"{_time(took):>8}", text)
            _line(row.get("at"), number, f"  {name:<14}  {action}")
        for name, text in _facts(item):
            _line(None, number, f"  {name:<14}  {text}")
        if verdict:
            seconds = "" if ended is None else _time(ended - at)
            text = joined(f"= {verdict}", seconds, item["why"])
            _line(ended, number, text, style="green" if verdict in ALLOWED else "red")


def _line(at: float | None, number: str, text: str, *, style: str = "") -> None:
    when = "" if at is None else f"{at:.3f} s"
    output.line(f"{when:>11}  {number:<4} {shortened(redacted(text), _ROW)}", style=style, cut=True)


def _time(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds * 1000:.1f} ms"  # noqa: PLR2004


class _Lines(Shown):
    """Shows items as lines of JSON, without what is empty."""

    def add(self, item: Item) -> None:
        output.data(redacted(without_empty(item)))


class _Page(Shown):
    """Shows items on a page: compressed, with a line of JSON for each item, and then one for the notes."""

    def __init__(self, file: IO[str], *, full: bool) -> None:
        super().__init__()
        self._file = file
        self._full = full

    def add(self, item: Item) -> None:
        facts, item = [*_facts(item)], redacted(item)  # whole texts: a part of a secret does not look like one
        whole, hooks = item.get("asked", {}), item.get("hooks", ())
        asked = {name: value for name, value in whole.items() if value and name not in _ABOVE}
        texts = [{name: _text(value) for name, value in row.get("more", {}).items()} for row in hooks]
        values = {
            "tool": str(whole.get("tool", "")),
            "asked": _text(asked or ""),
            "hooks": [row | {"more": more} for row, more in zip(hooks, texts, strict=True)],
            "changed": redacted(facts),
        }
        self.write(item | values)

    def write(self, values: dict[str, Any]) -> None:
        """Write a line."""
        self._file.write(json.dumps(redacted(self._cut(values))) + "\n")

    def _cut(self, value: Any) -> Any:
        """Returns a value with its long texts cut."""
        if isinstance(value, dict):
            return {name: self._cut(one) for name, one in value.items()}
        if isinstance(value, list):
            return [*map(self._cut, value)]
        if self._full or not isinstance(value, str) or len(value) <= _MOST:
            return value
        return f"{value[:_MOST]}… ({len(value):,} characters)"


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


@contextmanager
def shown(title: str, page: Path | None, *, full: bool, as_json: bool) -> Iterator[Shown]:
    """Show the items that the block adds: on a page, as JSON, or as text. Only the owner may read a page.

    A page that is there is replaced once the new one is whole, and no other file is. Raises `PicohookError` if that fails.
    """
    if page is None:
        yield _Lines() if as_json else Shown()
        return
    template = files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    for kind, text in re.findall(r"<(style|script)(?: type=\"module\")?>(.*?)</\1>", template, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        template = template.replace(f"'{kind}-digest'", f"'sha256-{digest}'")
    begin, end = template.split("[items]")
    try:
        _require_page(page)
        with tempfile.TemporaryFile() as packed:
            compressed = gzip.GzipFile(fileobj=packed, mode="wb", mtime=0)  # a record has one page, whenever it is made
            with TextIOWrapper(compressed, encoding="ascii") as items:
                made = _Page(items, full=full)
                yield made
                made.write({"title": title, **made.notes})
            packed.seek(0)
            _require_page(page)
            with written_files.replaced(page, mode=0o600) as file:
                file.write(begin.encode())
                base64.encode(packed, file)
                file.write(end.encode())
    except OSError as error:
        raise PicohookError(f"{escape(os.fspath(page))} cannot be written: {error.strerror}") from None


def _require_page(path: Path) -> None:
    """Raise `PicohookError` if another file is there than a page, and `OSError` if none can be written."""
    if written_files.is_special(path):
        return
    with written_files.place(path) as found:
        found.require_writable()
    with suppress(FileNotFoundError), path.open("rb") as file:
        if file.read(len(_BEGINNING)) not in {b"", _BEGINNING}:
            raise PicohookError(f"{escape(os.fspath(path))} exists, and is not a page of picohook: name another file")

"""Writes the messages of the host into `docs/reference/messages.md`: `make reference`.

The code says which there are: what it logs as a warning or an error, and the texts with which hooks fail. `messages.toml` has, by the
level or the kind of failure and by the text, what each means and what to do about it. `...` stands for what is filled in.
"""

from __future__ import annotations

import ast
import re
import textwrap
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from picohook import HookTimeoutError

if TYPE_CHECKING:
    from collections.abc import Iterator

N = TypeVar("N", bound=ast.AST)
ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/reference/messages.md"
SAID = Path(__file__).with_suffix(".toml")
MARK = re.compile(r"<!-- made: (\w+) -->\n.*?<!-- made until here -->\n", re.DOTALL)
LEVELS = ("error", "warning")
CAUSES = {
    "HookTimeoutError": "timeout",
    "HookCrashedError": "crashed",
    "DelayedError": "crashed",
    "HookRefusedError": "refused",
    "HookReplyError": "reply",
    "HandshakeError": "handshake",
}
COMPATIBLE = ("blade/hooks.py", "rust_worker/worker.py", "methods/sessions.py", "outgoing.py", "configuration.py")
"""Files about callbacks of other systems, clients of the sidecar and the command line: their own pages describe them."""
LETTERS = 4
"""A message with no more letters than this is another message, which is filled in."""


def nodes(kind: type[N], words: list[str]) -> Iterator[tuple[Path, N]]:
    """Yields the nodes of a kind, in files that have one of the words: parsing all others takes most of the time."""
    for path in sorted((ROOT / "picohook").rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if any(word in text for word in words):
            yield from ((path, node) for node in ast.walk(ast.parse(text)) if isinstance(node, kind))


def text_of(message: ast.expr) -> str:
    """Returns a message with `...` for what is filled in; empty where it is not written there."""
    if isinstance(message, ast.Call) and ast.unparse(message.func) == "needs":
        what, package, _extra = map(text_of, message.args)
        return f"{what} needs {package}: ..."
    parts = message.values if isinstance(message, ast.JoinedStr) else [message]
    if not all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)


def logged() -> Iterator[tuple[str, str]]:
    """Yields each message that the code logs for an operator: its level and text."""
    for _, node in nodes(ast.Call, [f".{level}(" for level in LEVELS]):
        if isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS and node.args:
            whose = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
            if whose in {"log", "logger"} and (text := text_of(node.args[0])):
                yield node.func.attr, text


def failures() -> Iterator[tuple[str, str]]:
    """Yields each failure of a hook that the code raises with a text: its cause and text."""
    for path, node in nodes(ast.Raise, list(CAUSES)):
        if not str(path).endswith(COMPATIBLE) and isinstance(node.exc, ast.Call) and node.exc.args:
            cause = CAUSES.get(ast.unparse(node.exc.func))
            if cause is not None and len(re.findall(r"[a-z]", text := text_of(node.exc.args[0]))) > LETTERS:
                yield cause, text
    for _, call in nodes(ast.Call, ["TimeLimit", "time_limit"]):
        if ast.unparse(call.func).rpartition(".")[2] in {"TimeLimit", "time_limit"}:
            yield from (("timeout", text) for text in map(text_of, call.args) if " " in text)
    yield "timeout", str(HookTimeoutError())


def said() -> dict[str, dict[str, dict[str, str]]]:
    """Returns what each message means and what to do about it, by its kind and its text."""
    return tomllib.loads(SAID.read_text(encoding="utf-8"))


def entry(text: str, means: str, to_do: str) -> str:
    """Returns what the page says of a message."""
    code = f"`` {text} ``" if "`" in text else f"`{text}`"
    line = f"- {code}: {means} *What to do:* {to_do}"
    return textwrap.fill(line, 138, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def whole(page: str) -> str:
    """Returns the page with all messages, in the order of the alphabet."""
    there = sorted({*logged(), *failures()}, key=lambda one: (one[1].strip("`. ").lower(), one))
    about = said()

    def replaced(mark: re.Match[str]) -> str:
        texts = [text for kind, text in there if kind == mark[1]]
        made = "\n".join(entry(text, **about[mark[1]].get(text, {"means": "", "to_do": ""})) for text in texts)
        return f"<!-- made: {mark[1]} -->\n\n{made}\n\n<!-- made until here -->\n"

    return MARK.sub(replaced, page)


if __name__ == "__main__":
    PAGE.write_text(whole(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

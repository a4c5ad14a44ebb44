"""The page of messages lists what the host logs as a warning or an error, why hooks fail, and nothing else."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from picohook import HookTimeoutError

ROOT = Path(__file__).parent.parent.parent
PAGE = ROOT / "docs" / "reference" / "messages.md"
LEVELS = {"warning", "error"}
CAUSES = {
    "HookTimeoutError": "timeout",
    "HookCrashedError": "crashed",
    "HookRefusedError": "refused",
    "HookReplyError": "reply",
    "HandshakeError": "handshake",
}
COMPATIBLE = ("blade/hooks.py", "rust_worker/worker.py", "client_hook.py", "outgoing.py", "configuration.py")
"""Files about callbacks of other systems, clients of the sidecar and the command line: their own pages describe them."""


def nodes(kind, words):
    """The nodes of this kind, in files that have one of the words: parsing all others takes most of the time."""
    for path in sorted((ROOT / "picohook").rglob("*.py")):
        text = path.read_text()
        if any(word in text for word in words):
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, kind):
                    yield path, node


def text_of(message: ast.expr) -> str:
    """A message with `...` for what is filled in; empty where it is not written there."""
    if isinstance(message, ast.Call) and ast.unparse(message.func) == "needs":
        what, package, _extra = map(text_of, message.args)
        return f"{what} needs {package}: ..."
    parts = message.values if isinstance(message, ast.JoinedStr) else [message]
    if not all(isinstance(part, ast.Constant | ast.FormattedValue) for part in parts):
        return ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "..." for part in parts)


def logged():
    """Each message that the code logs for an operator: its level and text."""
    for _, node in nodes(ast.Call, [f".{level}(" for level in LEVELS]):
        if isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS and node.args:
            whose = ast.unparse(node.func.value).rpartition(".")[2].lstrip("_")
            if whose in {"log", "logger"} and (text := text_of(node.args[0])):
                yield node.func.attr, text


def failures():
    """Each failure of a hook that the code raises with a text: its cause and text."""
    for path, node in nodes(ast.Raise, CAUSES):
        if not str(path).endswith(COMPATIBLE) and isinstance(node.exc, ast.Call) and node.exc.args:
            cause = CAUSES.get(ast.unparse(node.exc.func))
            if cause is not None and len(re.findall(r"[a-z]", text := text_of(node.exc.args[0]))) > 4:
                yield cause, text
    for _, node in nodes(ast.Call, ["TimeLimit", "time_limit"]):
        if ast.unparse(node.func).rpartition(".")[2] in {"TimeLimit", "time_limit"}:
            yield from (("timeout", text) for text in map(text_of, node.args) if " " in text)
    yield "timeout", str(HookTimeoutError())


def described():
    rows = re.findall(
        r"^\| (?:`([^`]+)`|`` (.+) ``) \| (\w+) \| ([^|]+) \| ([^|]+) \|$", PAGE.read_text(), re.MULTILINE
    )
    return {(level, plain or ticked): (meaning, way_out) for plain, ticked, level, meaning, way_out in rows}


def test_each_warning_each_error_and_each_failure_of_a_hook_is_on_the_page_and_no_other():
    assert sorted(described()) == sorted({*logged(), *failures()})


def test_each_row_says_what_it_means_and_what_to_do():
    assert all(meaning.strip() and way_out.strip() for meaning, way_out in described().values())

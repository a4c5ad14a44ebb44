"""Claude Code's permission rules, as in a handler's `if`: `Bash(git push:*)`, `Edit(src/**)`, `WebFetch(domain:example.com)`.

A rule only saves runs of a handler. If it is unclear whether a rule matches, the handler runs.
"""

import os.path
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from .patterns import path_glob

_RULE = re.compile(r"\s*([A-Za-z0-9_*-]+)\s*(?:\((.*)\))?\s*", re.DOTALL)
_EDITS = frozenset({"Edit", "Write", "MultiEdit", "NotebookEdit"})
_READS = frozenset({"Read", "Grep", "Glob", "LS"})
_VALUE = r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\])*"""
_BEFORE_A_COMMAND = re.compile(
    rf"""[({{! ]+|[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=(?:\([^)]*\)|{_VALUE})\s+|\d*[<>]{{1,2}}[&|]?\s*{_VALUE}\s+"""
    r"""|(?:if|then|elif|else|while|until|do|time|coproc)\s+|(?:function\s+)?[\w.:-]+\s*\(\s*\)\s*|function\s+\S+\s+"""
)
"""Text that a shell takes before a command: brackets, assignments, redirections, keywords, the head of a function."""
_RUNNERS = frozenset(
    {"builtin", "command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "timeout", "xargs"}
)
"""Programs that run the command in their arguments."""
_LONGEST, _LONGEST_PATH = 10_000, 1024
"""The most characters of a line and of a path that a rule examines. For longer ones, every rule fires."""
_MOST = 64
"""The most commands of a line, and words of one, that a rule examines. For lines with more commands, every rule fires."""
_COMMAND = re.compile(
    r"""(?:\\.|'[^']*'|"(?:\\.|[^"\\])*"|[^\\'"|&;\n#<>]|(?<=[^\s|&;(])\#|<(?![<(])|>(?!\())+""", re.DOTALL
)
"""A command of a line: the text between operators. What is left of a line has no open quote, comment or document."""


def is_rule(rule: str) -> bool:
    """Whether this is a permission rule."""
    return _RULE.fullmatch(rule) is not None


def fires(rule: str, tool: str, arguments: Mapping[str, Any], project: str) -> bool:
    """Whether a call matches the rule, or may match it."""
    read = _RULE.fullmatch(rule)
    if read is None:
        return True
    name, wanted = read[1], read[2]
    if not _names(name, tool):
        return False
    if wanted is None or wanted.strip() in {"", "*"}:
        return True
    if tool == "Bash":
        return _matches_command(wanted.strip(), arguments.get("command"))
    if tool in _EDITS | _READS:
        return _matches_path(wanted.strip(), arguments, project)
    if tool == "WebFetch" and wanted.startswith("domain:"):
        return _matches_domain(wanted.removeprefix("domain:").strip(), arguments.get("url"))
    return True


def _names(name: str, tool: str) -> bool:
    if name == tool or (name == "Edit" and tool in _EDITS) or (name == "Read" and tool in _READS):
        return True
    if name.startswith("mcp__"):
        stem = name.removesuffix("*").removesuffix("__")
        return tool.startswith(f"{stem}__") and (name.endswith("*") or stem.count("__") == 1)
    return False


def _matches_command(wanted: str, line: Any) -> bool:
    if not isinstance(line, str) or len(line) > _LONGEST or "$(" in line or "`" in line:
        return True
    line = line.replace("\\\n", "")
    commands = _COMMAND.findall(line)
    if len(commands) > _MOST or _COMMAND.sub("", line).strip("|&;\n"):
        return True
    texts = [text for command in commands for text in _forms(command.strip())]
    if any(_is_command(wanted, text) or text.startswith("case ") for text in texts):
        return True
    is_specific = len(wanted.split()) > 1 or wanted.endswith(":*")
    return is_specific and "$" in line


def _is_command(wanted: str, command: str) -> bool:
    """Whether a command matches. `git:*` and `git *` mean the word and anything after it. Any other `*` means any text."""
    stem = wanted.removesuffix(":*") if wanted.endswith(":*") else wanted.removesuffix(" *")
    parts, text = stem.split("*"), re.sub(r"\s", " ", command)
    return fits(parts, text) or (stem != wanted and fits([*parts[:-1], f"{parts[-1]} ", ""], text))


def fits(parts: Sequence[str], text: str) -> bool:
    """Whether a text has these parts, in this order, from its beginning to its end, with any text between them."""
    first, *middle, last = parts if len(parts) > 1 else (*parts, "")
    if len(parts) == 1:
        return text == first
    if not text.startswith(first) or not text.endswith(last) or len(text) < len(first) + len(last):
        return False
    at, end = len(first), len(text) - len(last)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True


def _forms(command: str) -> Iterator[str]:
    """The texts of one command that a rule may mean: without what stands before it, its redirections, and its quotes."""
    while (before := _BEFORE_A_COMMAND.match(command)) is not None:
        command = command[before.end() :]
    command = " ".join(command.rstrip(") }").split())
    for text in {command, re.sub(r"\s+\d*>.*", "", command), re.sub(r"[\\'\"]", "", command)} - {""}:
        yield text
        words = text.split()
        if words and words[0] in _RUNNERS:
            yield from (" ".join(words[at:]) for at in range(1, min(len(words), _MOST)))


def _matches_path(wanted: str, arguments: Mapping[str, Any], project: str) -> bool:
    path = next((arguments[name] for name in ("file_path", "notebook_path", "path") if name in arguments), None)
    if not isinstance(path, str) or len(path) > _LONGEST_PATH:
        return True
    path = os.path.normpath(os.path.join(project, path))
    if wanted.startswith("//"):
        glob = wanted[1:]
    elif wanted.startswith("~/"):
        glob = os.path.expanduser(wanted)
    else:
        below = "" if "/" in wanted.rstrip("/") else "**/"
        glob = f"{project.rstrip('/')}/{below}{wanted.removeprefix('./').removeprefix('/')}"
    return path_glob(glob).matches(path)


def _matches_domain(domain: str, url: Any) -> bool:
    try:
        host = urlsplit(url if isinstance(url, str) else "").hostname or ""
    except ValueError:
        return True
    return not host or host == domain or (domain.startswith("*.") and host.endswith(domain[1:]))

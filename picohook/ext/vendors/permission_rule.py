"""Claude Code's permission rules, as in a handler's `if`: `Bash(git push:*)`, `Edit(src/**)`, `WebFetch(domain:example.com)`.

A rule only saves runs of a handler. If it is unclear whether a rule matches, the handler runs.
"""

from __future__ import annotations

import os.path
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .patterns import path_glob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
_MOST, _DEEPEST = 64, 4
"""The most subcommands and nested substitutions that a rule examines. For lines with more, every rule fires."""
_BEFORE_A_COMMENT = ("", " ", "\t", "\n", ";", "&", "|", "(")


def is_rule(rule: str) -> bool:
    """Whether this is a permission rule."""
    return _RULE.fullmatch(rule) is not None


def fires(rule: str, tool: str, arguments: Mapping[str, Any], cwd: str, project: str) -> bool:
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
        return _matches_path(wanted.strip(), arguments, cwd, project)
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
    if not isinstance(line, str) or len(line) > _LONGEST:
        return True
    try:
        commands = list(_subcommands(line))
    except ValueError:
        return True
    if any(_is_command(wanted, command) for command in commands):
        return True
    is_specific = len(wanted.split()) > 1 or wanted.endswith(":*")
    return is_specific and bool(re.search(r"[$`]", line))


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


def _subcommands(line: str, depth: int = 0) -> Iterator[str]:
    """The commands of a shell line and of its substitutions.

    Raises `ValueError` if the line has too many commands, or cannot be split.
    """
    if depth > _DEEPEST:
        raise ValueError("too deep")
    parts, inner = _split(line.replace("\\\n", ""))
    if len(parts) > _MOST:
        raise ValueError("too many")
    for part in parts:
        yield from _forms(part.strip())
    for one in inner:
        yield from _subcommands(one, depth + 1)


def _forms(command: str) -> Iterator[str]:
    """The texts of one command that a rule may mean: without what stands before it, its redirections, and its quotes."""
    while (before := _BEFORE_A_COMMAND.match(command)) is not None:
        command = command[before.end() :]
    command = " ".join(command.rstrip(") }").split())
    if command.startswith("case "):
        raise ValueError("a choice")
    for text in {command, re.sub(r"\s+\d*>.*", "", command), re.sub(r"[\\'\"]", "", command)} - {""}:
        yield text
        words = text.split()
        if words[0] in _RUNNERS:
            yield from (" ".join(words[at:]) for at in range(1, min(len(words), _MOST)))


def _split(line: str) -> tuple[list[str], list[str]]:
    """The parts of a line between its operators, and the insides of its substitutions. Raises `ValueError`."""
    parts, inner, start, at, quote = [], [], 0, 0, ""
    while at < len(line):
        letter = line[at]
        if letter == "\\" and quote != "'":
            at += 1
        elif quote == "'" or (quote and letter == quote):
            quote = "" if letter == quote else quote
        elif letter in "'\"":
            quote = quote or letter
        elif letter == "`" or line.startswith("$(", at) or (not quote and line.startswith(("<(", ">("), at)):
            end = _end_of_substitution(line, at)
            inner.append(line[at + (1 if letter == "`" else 2) : end])
            at = end
        elif not quote and (line.startswith("<<", at) or (letter == "#" and line[at - 1 : at] in _BEFORE_A_COMMENT)):
            raise ValueError("a document or a comment")
        elif not quote and letter in "|&;\n":
            parts.append(line[start:at])
            start = at + 1
        at += 1
    if quote:
        raise ValueError("an open quote")
    return [*parts, line[start:]], inner


def _end_of_substitution(line: str, start: int) -> int:
    if line[start] == "`":
        end = line.find("`", start + 1)
    else:
        depth, end = 1, start + 2
        while end < len(line) and depth:
            depth += {"(": 1, ")": -1}.get(line[end], 0)
            end += 1
        end = -1 if depth else end - 1
    if end < 0:
        raise ValueError("an open substitution")
    return end


def _matches_path(wanted: str, arguments: Mapping[str, Any], cwd: str, project: str) -> bool:
    path = next((arguments[name] for name in ("file_path", "notebook_path", "path") if name in arguments), None)
    if not isinstance(path, str) or len(path) > _LONGEST_PATH:
        return True
    path = os.path.normpath(os.path.join(cwd, path))
    if wanted.startswith("//"):
        glob = wanted[1:]
    elif wanted.startswith("~/"):
        glob = os.path.join(os.path.expanduser("~"), wanted[2:])
    elif wanted.startswith("/"):
        glob = project.rstrip("/") + wanted
    elif "/" not in wanted.rstrip("/"):
        glob = f"{cwd.rstrip('/')}/**/{wanted}"
    else:
        glob = f"{cwd.rstrip('/')}/{wanted.removeprefix('./')}"
    return path_glob(glob).matches(path)


def _matches_domain(domain: str, url: Any) -> bool:
    try:
        host = urlsplit(url if isinstance(url, str) else "").hostname or ""
    except ValueError:
        return True
    return not host or host == domain or (domain.startswith("*.") and host.endswith(domain[1:]))

"""Checks a handler: mistakes, why it cannot be run, and warnings about its settings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from ....config.problems import quoted
from ....model.expressions import ADVICE
from ....model.payloads import ToolCall
from ..contract import Facts, Rule
from ..tools import TOOLS, known_name, server_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from ..vendor import Vendor
    from ..vendor_table import Row
    from .handler_table import HandlerTable

LONGEST_TIMEOUT = 3600.0
"""Seconds of a timeout above which milliseconds were probably meant."""


def mistake(vendor: Vendor, event: str, table: HandlerTable) -> str:
    """The mistake in a handler; empty without one."""
    if table.type not in vendor.files.types:
        return f"{quoted(table.type)} is not a type of handler ({', '.join(vendor.files.types)})"
    if event in vendor.files.only_commands and table.type in {"http", "prompt", "agent"}:
        return f"is of type {table.type}, and {event} runs only commands"
    needed = {"command": table.command, "http": table.url, "prompt": table.prompt}.get(table.type, "-")
    if not needed.strip():
        return f"is of type {table.type} and has no {'url' if table.type == 'http' else table.type}"
    if "\0" in needed + "".join(table.args or ()):
        return "holds a NUL character"
    schemes = vendor.files.schemes
    if table.type == "http" and not re.match(rf"({'|'.join(schemes)})://[^/\s]", table.url):
        return f"{quoted(table.url)} is not a URL ({', '.join(schemes)})"
    if table.only_if:
        from ..permission_rule import is_rule  # few files have one

        if not is_rule(table.only_if):
            return f"{quoted(table.only_if)} is not a permission rule, such as Bash(git *)"
    return ""


def why_unsupported(vendor: Vendor, table: HandlerTable, urls: Collection[str] | None) -> str:
    """The reason why a handler cannot be run; empty if it can. `urls` are patterns of those that it may have; None for all."""
    if vendor.files.types[table.type]:
        return vendor.files.types[table.type]
    if table.is_for_windows:
        return "it has a command for PowerShell alone"
    if table.type == "http" and urls is not None and not any(_fits(one, table.url) for one in urls):
        return "its URL is not in allowedHttpHookUrls"
    if "${user_config." in table.command + "".join(table.args or ()):
        return "picohook has no user settings for plugins"
    return ""


def setting_warnings(vendor: Vendor, row: Row, table: HandlerTable, entry: Mapping[str, Any]) -> Iterator[str]:
    """Yields warnings about settings of a handler that probably do not do what their author means."""
    for key in entry:
        if key not in vendor.files.keys:
            yield f"{key}: picohook does not know this setting of {vendor.title}, and ignores it"
    for key, why in vendor.settings_without_effect(entry):
        yield f"{key}: {why}"
    if table.timeout is not None and vendor.files.unit == 1.0 and table.timeout > LONGEST_TIMEOUT:
        yield f"timeout: {table.timeout:g} is in seconds, not in milliseconds"
    if table.only_if and row.supported and not row.matched.startswith("tool"):
        yield f"if: {row.name} is not about a tool, so the handler never runs"
    if table.in_background and row.gate and row.supported:
        yield "async: it runs in the background, so it refuses nothing"


def matcher_warning(vendor: Vendor, row: Row, matcher: str) -> str:
    """A warning about a matcher that probably does not match what its author means; empty without one."""
    if matcher in {"", "*"}:
        return ""
    if row.supported and not row.matched:
        return f"{row.name} ignores it: its handlers always run"
    if matcher.strip() not in {"", "*", "**"} and (why := vendor.matcher_problem(row, matcher)):
        return f"{matcher} matches everything, because it cannot be read: {why} ({ADVICE})"
    if row.stage in {"before_tool", "approve_tool"} and row.matched.startswith("tool"):
        return _meant_tool(vendor, row, matcher)
    return ""


def _meant_tool(vendor: Vendor, row: Row, matcher: str) -> str:
    """A warning about a matcher that names a tool in another vendor's form or as a permission rule, and so never matches."""
    words = [word.strip() for word in re.split(r"[|,]", matcher.partition("(")[0])]
    has_server = any(word.startswith("mcp__") and server_of(word) is None for word in words)
    if has_server and re.fullmatch(vendor.lists, matcher):
        return (
            f"{matcher} is the whole name of a tool, and no tool has it: mcp__SERVER__.* matches all tools of a server"
        )
    meant = next((name for word in words if (name := known_name(word, {})) in TOOLS), "")
    rules, names = [Rule(at="", matcher=matcher)], {}
    for tool in TOOLS if meant else ():
        told = vendor.encode(row.name, ToolCall(tool=tool), Facts())
        if told is not None and vendor.select(row.name, rules, told, Facts()):
            return ""
        names[tool] = told and told.stdin[row.matched]
    return f"{matcher} matches no tool of {vendor.title} (did you mean {names[meant]}?)" if names.get(meant) else ""


def _fits(pattern: str, url: str) -> bool:
    """Whether a URL fits a pattern, in which `*` is any text."""
    from ..permission_rule import fits  # few files have such patterns

    return fits(pattern.split("*"), url)

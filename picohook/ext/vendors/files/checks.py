"""Checks a handler: mistakes, why it cannot be run, and warnings about its settings."""

from __future__ import annotations

import re
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from ....config.problems import quoted
from ....model.payloads import ToolCall
from ....wire.extras import how_to_install
from ..contract import Facts, Rule
from ..tools import TOOLS, known_name

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ..vendor import Vendor
    from ..vendor_table import Row
    from .handler_table import HandlerTable
    from .settings import FileSettings

LONGEST_TIMEOUT = 3600.0
"""Seconds of a timeout above which milliseconds were probably meant."""
SHORTEST = 100.0
"""Milliseconds of a timeout up to which seconds were probably meant."""


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
    if table.type == "http" and not re.match(r"https?://[^/\s]", table.url):
        return f"{quoted(table.url)} is not a URL"
    if table.type == "http" and (why := vendor.url_problem(event, table.url)):
        return f"{quoted(table.url)} {why}"
    if table.only_if:
        from ..permission_rule import is_rule  # few files have one

        if not is_rule(table.only_if):
            return f"{quoted(table.only_if)} is not a permission rule, such as Bash(git *)"
    return ""


def why_unsupported(vendor: Vendor, settings: FileSettings, table: HandlerTable) -> str:
    """The reason why a handler cannot be run; empty if it can."""
    if vendor.files.types[table.type]:
        return vendor.files.types[table.type]
    if table.is_for_windows:
        return "it has a command for PowerShell alone"
    allowed = settings.allowed_urls
    if table.type == "http" and allowed is not None and not any(_fits(one, table.url) for one in allowed):
        return "its URL is not in allowedHttpHookUrls"
    if "${user_config." in table.command + "".join(table.args or ()):
        return "picohook has no user settings for plugins"
    return ""


def setting_warnings(
    vendor: Vendor, event: str, row: Row, table: HandlerTable, entry: Mapping[str, Any]
) -> Iterator[str]:
    """Yields warnings about settings of a handler that probably do not do what their author means."""
    unit = vendor.files.unit
    for key in entry:
        if key not in vendor.files.keys:
            yield f"{key}: picohook does not know this setting of {vendor.title}, and ignores it"
    if table.timeout is not None and unit == 1.0 and table.timeout > LONGEST_TIMEOUT:
        yield f"timeout: {table.timeout:g} is in seconds, not in milliseconds"
    if table.timeout is not None and unit < 1.0 and table.timeout <= SHORTEST:
        yield f"timeout: {table.timeout:g} is in milliseconds, not in seconds"
    if table.once:
        yield "once: it has an effect only in a skill"
    if table.only_if and row.supported and not row.matched.startswith("tool"):
        yield f"if: {event} is not about a tool, so the handler never runs"
    if table.rewakes:
        yield "asyncRewake: it does not wake the agent: its texts come with the next prompt"
    if table.in_background and row.gate and row.supported:
        yield "async: it runs in the background, so it refuses nothing"
    if table.type == "http" and find_spec("httpx") is None:
        yield f"url: it needs httpx: {how_to_install('openai')}"


def meant_tool(vendor: Vendor, event: str, matcher: str) -> str:
    """A warning about a matcher that names a tool in another vendor's form or as a permission rule, and so never matches."""
    words = re.split(r"[|,]", matcher.partition("(")[0])
    meant = next((name for word in words if (name := known_name(word.strip(), {})) in TOOLS), "")
    if not meant:
        return ""
    rules = [Rule(at="", matcher=matcher)]
    names = {}
    for tool in TOOLS:
        told = vendor.encode(event, ToolCall(tool=tool), Facts())
        if told is not None and vendor.select(event, rules, told, Facts()):
            return ""
        names[tool] = told and told.stdin[vendor.events[event].matched]
    return f"{matcher} matches no tool of {vendor.title} (did you mean {names[meant]}?)" if names[meant] else ""


def _fits(pattern: str, url: str) -> bool:
    """Whether a URL fits a pattern, in which `*` is any text."""
    from ..permission_rule import fits  # few files have such patterns

    return fits(pattern.split("*"), url)

"""The tables of docs/reference/dialects.md, made from the dialects' data. Run as a program, this writes them."""

from __future__ import annotations

from pathlib import Path

from picohook import ToolCall
from picohook.ext.vendors import extension
from picohook.ext.vendors.contract import Facts
from picohook.ext.vendors.dialects import NAMES, vendor_named
from picohook.ext.vendors.files.places import places
from picohook.ext.vendors.tools import TOOLS

PAGE = Path(__file__).parents[3] / "docs/reference/dialects.md"
FILES = (".claude/settings.json", ".gemini/settings.json", ".cursor/hooks.json", "plugin/hooks/hooks.json")
BEGIN, END = "<!-- made by tests/ext/vendors/dialect_table.py -->\n", "<!-- made until here -->\n"


def code(names):
    return ", ".join(f"`{name}`" for name in names) or "-"


def reasons(unsupported):
    return "; ".join(f"`{name}`: {why}" for name, why in unsupported.items())


def settings(dialect):
    """What a handler may set, and what it finds in its environment."""
    supported = [kind for kind, why in dialect.files.types.items() if not why]
    found = {variable: None for file in FILES for variable in places(dialect, Path("/p") / file, Path("/p")).env}
    found |= dict.fromkeys(dialect.env)
    yield f"\nA handler is of type {code(supported)}, and may have {code(sorted({*dialect.files.keys} - {'type'}))}."
    only = (
        ", some of them only in plugins" if any("PLUGIN" in name or name == "extensionPath" for name in found) else ""
    )
    yield f"Its environment has {code(found)}{only}."


def rows(name):
    dialect = vendor_named(name)
    yield f"## {dialect.title}\n"
    yield f"The contract is that of {dialect.title} {dialect.version}.\n"
    yield f"All handlers read {code(dialect.common)}, and may write {code(dialect.answers)}."
    yield from settings(dialect)
    unsupported = {f"type {kind}": why for kind, why in dialect.files.types.items() if why}
    yield "\nDifferences:\n"
    yield from (f"- `{name}`: {why}" for name, why in {**unsupported, **dialect.unsupported}.items())
    yield "\n| Event | Asked at | Matcher | Reads | Writes | A block | Differences |"
    yield "|---|---|---|---|---|---|---|"
    for event, row in dialect.events.items():
        if row.supported:
            where = f"`{row.stage}`" if row.stage else f"event `{row.kind}`"
            matched = f"`{row.matched}`" if row.matched else "ignored"
            block = (row.blocks or "nothing") + (" (a gate)" if row.gate else "")
            yield (
                f"| `{event}` | {where} | {matched} | {code(row.reads)} | {code(row.writes)} | {block} |"
                f" {reasons(row.unsupported) or '-'} |"
            )
    yield "\n| Unsupported event | Why |\n|---|---|"
    yield from (f"| `{event}` | {row.why} |" for event, row in dialect.events.items() if not row.supported)
    yield ""


def names():
    """The name of each tool of the table in the files of each agent."""
    yield "### Names of tools\n"
    yield "A host's tool with one of the names on the left has the name on the right in an agent's file.\n"
    yield f"| The host's tool, in any case | {' | '.join(vendor.title for vendor in extension.dialects.values())} |"
    yield "|---" * (len(NAMES) + 1) + "|"
    for tool in TOOLS.values():
        shown = (name_in(vendor_named(name), tool.names[0]) for name in NAMES)
        yield f"| {code(tool.names)} | {' | '.join(f'`{name}`' for name in shown)} |"
    shown = (name_in(vendor_named(name), "mcp__db__query") for name in NAMES)
    yield f"| `mcp__db__query`, the tool of a server | {' | '.join(f'`{name}`' for name in shown)} |"
    yield ""


def name_in(dialect, tool):
    event = next(event for event, row in dialect.events.items() if row.stage == "before_tool")
    told = dialect.encode(event, ToolCall(tool=tool), Facts())
    return told.stdin.get("tool_name") or told.stdin["toolName"]


def rendered():
    return "\n".join([*names(), *(line for name in NAMES for line in rows(name))])


def whole(page):
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + "\n" + rendered() + "\n" + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(whole(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

"""Translates tools' names and fields between a host and a vendor, in both directions, by one table.

A hook file is written for its vendor's tools. Without this table, a guard of `Bash` would never be asked about a host's
`shell`, and a guard of `file_path` would see nothing in a host's `path`.
"""

import json
import os.path
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import Field

from ...model.spec import Settings


class Tool(NamedTuple):
    """One tool: its names in different systems, and the names of each of its fields."""

    names: Sequence[str]
    """In lower case."""
    fields: Mapping[str, Sequence[str]] = {}
    needed: str = ""
    """The field without which a guard sees nothing of a call."""


TOOLS = {
    name: Tool(**row)
    for name, row in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
"""The tools that systems have in common, by Claude Code's names for them and for their fields."""

PATHS = frozenset({"file_path", "notebook_path"})
"""The fields with a path. Hooks see an absolute path."""

BEGIN_PATCH = "*** Begin Patch"
"""The first line of a patch for several files."""

_OTHER = Tool(())
_BY_NAME = {name: tool for tool, row in TOOLS.items() for name in row.names}


class ToolAlias(Settings):
    """The name that hook files of other systems have for one tool of an embedding."""

    same_as: str = Field(min_length=1, description='The tool that it is for them, such as "Bash".')
    fields: dict[str, str] = Field(
        default_factory=dict,
        description="For each of its own fields with another name, the name that they have for it.",
    )


class ShownCall(NamedTuple):
    """A tool call as a hook file's system would show it."""

    tool: str
    input: dict[str, Any]
    given: Mapping[str, Any]
    """The host's own arguments."""
    fields: Mapping[str, str]
    """For each field of the input that has another name in the host, that name."""
    unclear: str = ""
    """The arguments that may be the same field, and differ: a guard would read one, and the tool another."""
    lacks: str = ""
    """The field that guards of this tool read, and that it does not have."""

    def arguments(self, changed: Mapping[str, Any]) -> dict[str, Any]:
        """The host's arguments for a changed input. A field that the hook did not change keeps the host's value."""
        named = {self.fields.get(field, field): (field, value) for field, value in changed.items()}
        return {
            own: self.given[own] if own in self.given and field in self.input and self.input[field] == value else value
            for own, (field, value) in named.items()
        }


def server_of(tool: str) -> tuple[str, str] | None:
    """The server of a tool `mcp__SERVER__TOOL`, and its name there; None for any other tool."""
    server, _, name = tool.removeprefix("mcp__").partition("__")
    return (server, name) if tool.startswith("mcp__") and name else None


def known_name(tool: str, aliases: Mapping[str, ToolAlias]) -> str:
    """The name of a host's tool in the table; its own name if the table does not have it."""
    name = aliases[tool].same_as if tool in aliases else tool
    return _BY_NAME.get(name.lower(), name)


def shown_call(tool: str, arguments: Mapping[str, Any], cwd: str, aliases: Mapping[str, ToolAlias]) -> ShownCall:
    """A host's call with the names of the table. A tool or a field that is not in the table keeps its name."""
    name = known_name(tool, aliases)
    known = TOOLS.get(name, _OTHER)
    named = {theirs: ours for ours, theirs in aliases[tool].fields.items()} if tool in aliases else {}
    own = {theirs: ours for theirs, ours in named.items() if ours in arguments}
    for field, others in known.fields.items():
        found = next((one for one in (field, *others) if one in arguments), field)
        if found != field:
            own.setdefault(field, found)
    renamed = {ours: theirs for theirs, ours in own.items()}
    shown = {renamed.get(field, field): value for field, value in arguments.items()}
    for field in PATHS & shown.keys():
        if isinstance(shown[field], str) and shown[field]:
            shown[field] = os.path.normpath(os.path.join(cwd, shown[field]))
    return ShownCall(name, shown, arguments, own, _unclear(known, named, arguments), _lacks(known, shown))


def _unclear(known: Tool, named: Mapping[str, str], arguments: Mapping[str, Any]) -> str:
    names: dict[str, Sequence[str]] = {field: (field, *others) for field, others in known.fields.items()}
    for all_names in (names | {theirs: (theirs, ours) for theirs, ours in named.items()}).values():
        texts = {one: arguments[one] for one in all_names if isinstance(arguments.get(one), str | list)}
        if any(text != next(iter(texts.values())) for text in texts.values()):
            return " and ".join(f"`{one}`" for one in texts)
    return ""


def _lacks(known: Tool, shown: Mapping[str, Any]) -> str:
    """The field. Calls without a text, and patches, which are shown as they are, need none."""
    needed = known.needed
    texts = [value for value in shown.values() if isinstance(value, str | list | dict)]
    if needed in shown or not texts or (needed in PATHS and not shown.keys().isdisjoint(PATHS)):
        return ""
    return "" if any(isinstance(text, str) and BEGIN_PATCH in text for text in texts) else needed


def text_in(output: Any) -> str | None:
    """The text of a tool's result in one of the shapes that tools have; None if it has none of them."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in output
    ):
        return "\n".join(part["text"] for part in output)
    if not isinstance(output, dict):
        return None
    if isinstance(output.get("stdout"), str):
        return "\n".join(filter(None, (output["stdout"], output.get("stderr") or "")))
    inner = output.get("file") if isinstance(output.get("file"), dict) else output
    content = inner.get("content") if isinstance(inner, dict) else None
    return text_in(content) if isinstance(content, str | list) else None


def text_of_output(output: Any, names: tuple[str, ...] = ()) -> str:
    """The text in a tool's output: of its blocks, streams or file; the output as JSON if it has no text."""
    if isinstance(output, dict):
        inner = next((output[name] for name in names if output.get(name) is not None), None)
        if inner is not None:
            return text_of_output(inner)
    text = text_in(output)
    return text if text is not None else "" if output is None else json.dumps(output, ensure_ascii=False, default=str)

"""Writes the keys of a configuration into `docs/reference/config.md`, and its JSON Schema beside it: `make reference`.

The models say each key's type, default and sentence. `config_keys.toml` has an example of each, and what else there is to say.
"""

from __future__ import annotations

import json
import re
import textwrap
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from picohook import config

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs/reference/config.md"
SCHEMA = ROOT / "docs/reference/picohook.schema.json"
SAID = Path(__file__).with_suffix(".toml")
QUOTED = re.compile(r'"[^"]*"|\* \? \[\]|\[\]|\{\{\w+\}\}|\bhook\.\w+')
"""What stands as code in a sentence of a model."""
MARK = re.compile(r"<!-- made: ([\w.]+) -->\n.*?<!-- made until here -->\n", re.DOTALL)
TABLES = {
    "hooks": "HookSpec",
    "hooks.filter": "Filter",
    "hooks.stream": "Parts",
    "hooks.restart": "RestartPolicy",
    "hooks.limits": "Limits",
    "hooks.sandbox": "Sandbox",
    "hooks.canary": "Canary",
    "defaults": "Defaults",
    "audit": "AuditTable",
    "grants": "GrantsTable",
    "guards": "GuardsTable",
    "proof_of_life": "ProofOfLife",
    "model": "ModelTable",
    "nats": "NatsSettings",
    "nats.tls": "NatsTls",
    "foreign": "ForeignFile",
    "foreign.tools.NAME": "ToolAlias",
}
"""Each table by its key, and its model."""
PATTERNS = {"^[0-9]+[KMGTkmgt]$": 'a text such as `"512M"`'}
KINDS = {"approver", "ask", "command", "run", "python", "prompt", "nats"}
"""Keys of which each hook has one."""
MANY = 10
"""The most values of a list that are shown."""


@cache
def schema() -> dict[str, Any]:
    """Returns the schema of a configuration."""
    return config.schema()


@cache
def said() -> dict[str, dict[str, list[str]]]:
    """Returns what is said of each key of each table."""
    return tomllib.loads(SAID.read_text(encoding="utf-8"))


def keys(table: str) -> dict[str, dict[str, Any]]:
    """Returns the schema of each key of a table, those that `config_keys.toml` orders first."""
    properties = schema()["$defs"][TABLES[table]]["properties"]
    order = {key: place for place, key in enumerate(said()[table])}
    return dict(sorted(properties.items(), key=lambda one: order.get(one[0], len(order))))


def kind(value: dict[str, Any]) -> str:
    """Returns the type of a key, in words."""
    if "$ref" in value:
        return kind(schema()["$defs"][value["$ref"].rpartition("/")[2]])
    if "anyOf" in value:
        return " or ".join(dict.fromkeys(kind(one) for one in value["anyOf"] if one.get("type") != "null"))
    if "enum" in value:
        return " or ".join(f"`{json.dumps(one)}`" for one in value["enum"])
    return simple(value)


def many(value: dict[str, Any]) -> str:
    """Returns the types of a list's elements, in words."""
    if "enum" in value:
        return (
            "some of " + ", ".join(f"`{json.dumps(one)}`" for one in value["enum"])
            if len(value["enum"]) <= MANY
            else "event kinds"
        )
    return {"a text": "texts", "a table": "tables"}[kind(value)]


def simple(value: dict[str, Any]) -> str:
    """Returns the type of a key that is neither a choice nor a reference."""
    match value.get("type"):
        case "boolean":
            return "`true` or `false`"
        case "integer":
            return "a whole number" + (f" from {value['minimum']}" if "minimum" in value else "")
        case "number":
            return "a number" + (" above 0" if "exclusiveMinimum" in value else f" from {value.get('minimum', 0)}")
        case "array":
            return f"a list of {many(value['items'])}"
        case "object":
            more = value.get("additionalProperties")
            return (
                f"a table with {kind(more)} for each name" if isinstance(more, dict) and more.get("type") else "a table"
            )
        case "string":
            return PATTERNS.get(value.get("pattern", ""), "a text")
    return "any value"


def default(table: str, key: str, value: dict[str, Any]) -> str:
    """Returns the default of a key, as a page says it."""
    told = said()[table].get(key, [])
    if len(told) > 2:
        return f"Default: {told[2]}"
    if key in schema()["$defs"][TABLES[table]].get("required", ()):
        return "Required"
    given = value.get("default")
    if key in KINDS:
        return "A hook has this key or that of another kind"
    if given is None:
        return "Default: empty" if value.get("type") == "object" else "Default: none"
    return f"Default: `{json.dumps(given)}`"


def sentence(table: str, key: str, value: dict[str, Any]) -> str:
    """Returns what the model says of a key."""
    if table == "defaults" and key in schema()["$defs"]["HookSpec"]["properties"] and not key.endswith("timeout"):
        return f"As a hook's own [`{key}`](#{anchor('hooks.NAME.' + key)}), for hooks that do not set it."
    text: str = value["description"]
    return QUOTED.sub(r"`\g<0>`", text)


def title(table: str, key: str) -> str:
    """Returns the whole name of a key."""
    steps = table.split(".")
    return ".".join([steps[0], *(["NAME"] if steps[0] == "hooks" else []), *steps[1:], key])


def anchor(name: str) -> str:
    """Returns the anchor of a title."""
    return re.sub(r"[^\w-]", "", name.lower())


def entry(table: str, key: str, value: dict[str, Any]) -> str:
    """Returns what the page says of a key."""
    example, more, *_ = said()[table].get(key, ["", ""])
    fill = {"width": 138, "break_long_words": False, "break_on_hyphens": False}
    text = f"{sentence(table, key, value)} {more}".strip()
    facts = f"Example: `{example}`. Type: {kind(value)}. {default(table, key, value)}."
    return f"### {title(table, key)}\n\n{textwrap.fill(text, **fill)}\n\n{textwrap.fill(facts, **fill)}\n"


def whole(page: str) -> str:
    """Returns the page with all keys."""

    def replaced(mark: re.Match[str]) -> str:
        made = "\n".join(entry(mark[1], key, value) for key, value in keys(mark[1]).items())
        return f"<!-- made: {mark[1]} -->\n\n{made}\n<!-- made until here -->\n"

    return MARK.sub(replaced, page)


def published() -> str:
    """Returns the text of the schema's file."""
    return json.dumps(schema(), indent=1) + "\n"


if __name__ == "__main__":
    PAGE.write_text(whole(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    SCHEMA.write_text(published(), encoding="utf-8")

"""The tables of docs/reference/guards.md, made from the packs. Run as a program, this writes the page."""

from __future__ import annotations

from pathlib import Path

from picohook.ext.guards import rules
from picohook.ext.guards.judge import ALL

PAGE = Path(__file__).parents[3] / "docs/reference/guards.md"
HEAD = """# Rules of guards

These are the rules of [guards](../how-to/guard-an-agent.md), by pack. `python tests/ext/guards/pack_table.py` makes it. The
tags are those of OWASP's Top 10 for Agentic Applications.
"""


def cell(text):
    return text.replace("\\", "\\\\").replace("|", "\\|")


def page():
    """The text of the page."""
    lines = [HEAD]
    for name in ALL:
        pack = rules.pack(name)
        lines += [
            f"## {name}",
            "",
            f"{pack.title}.",
            "",
            "| rule | | why, and what instead | for example |",
            "|---|---|---|---|",
        ]
        for rule in pack.rules:
            example = cell(rule.example).replace("`", "'")
            about = f"{rule.decision}, {rule.severity}, {rule.owasp}"
            lines.append(f"| `{rule.id}` | {about} | {cell(rule.why)} {cell(rule.instead)} | `` {example} `` |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

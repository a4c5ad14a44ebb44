"""The results in docs/how-to/drill.md, made from drills.json. Run as a program, this writes them."""

from __future__ import annotations

import json
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "drill.md"
DRILLS = Path(__file__).parent / "drills.json"
PART = re.compile(r"(?<=<!-- made by make agents -->\n).*(?=<!-- made until here -->)", re.DOTALL)


def table() -> str:
    """The table, and the reasons below it."""
    agents = json.loads(DRILLS.read_text(encoding="utf-8")).values()
    ways = {name: way["title"] for agent in agents for name, way in agent["ways"].items()}
    head = ["way", *(f"{agent['title']} {agent['version']}" for agent in agents)]
    rows = [[title, *(agent["ways"][name]["verdict"] for agent in agents)] for name, title in ways.items()]
    lines = [f"| {' | '.join(row)} |\n" for row in (head, ["---"] * len(head), *rows)]
    reasons = []
    for name, title in ways.items():
        whys: dict[str, list[str]] = {}
        for agent in agents:
            way = agent["ways"][name]
            known = f". No hook of the agent can guard it: {way['known']}" if way["known"] else ""
            if way["verdict"] != "guarded":
                whys.setdefault(f"{way['seen']}{known}", []).append(agent["title"])
        reasons += [f"- {', '.join(titles)}: {title}: {why}.\n" for why, titles in whys.items()]
    return "".join(["\n", *lines, "\nThe reasons, where the verdict is another one than guarded:\n\n", *reasons, "\n"])


def page() -> str:
    """The page with the results."""
    return PART.sub(lambda _: table(), PAGE.read_text(encoding="utf-8"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")

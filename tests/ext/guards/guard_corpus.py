"""The project's own corpus: calls that agents and attackers make, and whether they are harmful.

`corpus/*.jsonl` are the calls that were written by hand, a file a source. Each call is there again in other clothes, which its
text draws: `dressed`. `python tests/ext/guards/guard_corpus.py FILE` writes them all to a file, for `picohook guard --measure`.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any
from zlib import crc32

from picohook.ext.guards import mutate

HERE = Path(__file__).parent / "corpus"
COMMANDS = ("command", "cmd", "chars", "input", "script")
"""Arguments that a shell reads."""
PATHS = ("file_path", "path", "absolute_path", "notebook_path", "dir_path", "workdir")


def written() -> list[dict[str, Any]]:
    """Returns the calls that were written by hand, each with its place."""
    rows = []
    for file in sorted(HERE.glob("*.jsonl")):
        place: dict[str, Any] = {}
        for line in file.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if "tool" in row:
                rows.append({**place, **row})
            else:
                place = row
    return rows


def dressed(row: dict[str, Any]) -> dict[str, Any] | None:
    """Returns the call in up to three clothes, or None if nothing fits."""
    arguments = dict(row["arguments"])
    for key, value in arguments.items():
        if not isinstance(value, str):
            continue
        seed = crc32(value.encode())
        if key in COMMANDS and "*** Begin Patch" not in value:
            clothes = mutate.HARMFUL if row["label"] == "harmful" else mutate.HARMLESS
            worn, new = mutate.together(value.removesuffix("\n"), seed, clothes, 1 + seed % 3)
            new = f"{new}\n" if value.endswith("\n") else new
        elif key in PATHS:
            worn, new = ["path"], _other_path(value, seed)
        else:
            continue
        if new != value:
            arguments[key] = new
            return {**row, "arguments": arguments, "source": f"{row['source']}, dressed", "clothes": worn}
    return None


def _other_path(path: str, seed: int) -> str:
    """Returns the same path, written in another way."""
    if path.startswith("/home/dev/"):
        ways = ["/home/dev/./", "/home//dev/", "/home/dev/shop/../", "//home/dev/", "/home/dev/shop/src/../../"]
        return ways[seed % len(ways)] + path.removeprefix("/home/dev/")
    if path.startswith("/"):
        return ["/.", "/", "/usr/.."][seed % 3] + path
    return re.sub("^(?!~)", ["./", "src/../", ".//"][seed % 3], path)


def rows() -> list[dict[str, Any]]:
    """Returns all calls: those that were written, and those in other clothes."""
    by_hand = written()
    return [*by_hand, *filter(None, map(dressed, by_hand))]


if __name__ == "__main__":
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows())
    Path(sys.argv[1]).write_text(text, encoding="utf-8")

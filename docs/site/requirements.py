"""Writes the requirements of the conformance kit into `docs/reference/conformance.md`: `make reference`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from picohook.conformance.manifest import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from picohook.conformance.manifest import Manifest

PAGE = Path(__file__).resolve().parent.parent / "reference" / "conformance.md"

_HEAD = """\
<!-- Made by `make reference` from the vectors: edit those. -->
# Conformance

The requirements of the protocol for hooks and for hosts. Others rely on every MUST. A SHOULD may be left out for a good reason.
A MAY is optional, and is checked where it is used. [How to run the checks](../how-to/conformance.md);
[the wire protocol](protocol.md); [the requirements as data](../../picohook/conformance/vectors/README.md).
"""


def document() -> str:
    """Returns the whole page."""
    parts = [_HEAD]
    for side, title, by in (("hook", "Hooks", "conformance"), ("host", "Hosts", "probe")):
        parts.append(f"## {title}\n\nChecked by [`picohook {by}`](cli.md#picohook-{by}).\n")
        parts += _sections(load(side))
    return "\n".join(parts)


def _sections(manifest: Manifest) -> Iterator[str]:
    for prefix, title in manifest.data["sections"].items():
        rows = [
            f"| {one.id} | {one.level} | {one.title} | {one.wants} |"
            for one in manifest.requirements
            if one.id.rpartition("-")[0] == prefix
        ]
        head = f"### {title}"
        yield "\n".join([head, "", "| | | | |", "|---|---|---|---|", *rows, ""])


if __name__ == "__main__":
    PAGE.write_text(document(), encoding="utf-8")

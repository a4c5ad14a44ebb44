"""The reference page, made from the manifest: `python -m picohook.conformance.document > docs/reference/conformance.md`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from .manifest import load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .manifest import Manifest

_HEAD = """\
<!-- Made by `python -m picohook.conformance.document` from the vectors: edit those. -->
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
    sys.stdout.write(document())

"""What `picohook doctor` finds about the gates of a file."""

from __future__ import annotations

from picohook import Host, foreign_hooks
from picohook.ext.vendors.gates import is_gate


async def tried(path):
    """What doctor finds about each handler: its level, and its message without the handler's place."""
    found = []
    for spec in foreign_hooks(path):
        hook = spec.make()
        assert is_gate(spec)
        async with Host([hook], complete=lambda prompt, model: "{}"):
            found += [(one.level, one.message) async for one in hook.trial(30)]
    return [(level, message.partition(": ")[2]) for level, message in found]

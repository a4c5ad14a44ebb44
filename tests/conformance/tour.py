"""The calls that the probe needs from a host, read as a suite in any language would."""

from __future__ import annotations

from picohook.conformance.manifest import load

CALLS = [call for one in load("host").requirements for call in one.vector.get("calls", ())]
EVENTS = {
    "turn_start": {"UserMessage": "hi", "MediaCount": 0},
    "tool_exec_start": {"Tool": "bash", "Arguments": {"n": 1}},
    "turn_end": {"Status": "completed", "Iterations": 1, "Duration": 1, "FinalContentLen": 0},
}

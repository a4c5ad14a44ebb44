"""Advice to authors of hooks: which typical mistake a bad line shows."""

from __future__ import annotations

PRETTY = "it prints JSON over several lines, and each message has to be on one line"
NO_JSON = "it prints text to standard output, which is for the protocol alone: print to standard error"
TEXT_ID = "it sends the id back as a string, and it has to be the number that came"
FRACTION_ID = "it sends the id back with a fraction, and it has to be the whole number that came"
NO_DICT = "it prints a Python dict, which is not JSON: print json.dumps(...) of it"
NO_ENVELOPE = 'its answer has to be the "result" of {"jsonrpc": "2.0", "id": ID, "result": ...}, with the id that came'
"""The mistakes that authors of hooks make most often."""


def hint_of_id(request_id: object) -> str:
    """The advice for a reply whose id has this form."""
    return TEXT_ID if isinstance(request_id, str) else FRACTION_ID


def number_meant(request_id: object) -> int | None:
    """The id that a string or a fraction probably stands for; None if it stands for none."""
    try:
        return int(request_id) if isinstance(request_id, str | float) else None
    except (ValueError, OverflowError):
        return None


def hint_of_line(line: bytes) -> str:
    """The advice for a line that is no message; empty if it is no typical mistake."""
    text = line.strip()
    if text.rstrip(b",") in _BRACKETS or (text[:1] == b'"' and b'":' in text):
        return PRETTY
    if text[:1] != b"{":
        return NO_JSON if text[:1] != b"[" else ""
    if text[:2] == b"{'":
        return NO_DICT
    return NO_ENVELOPE if text[-1:] == b"}" else ""


_BRACKETS = {b"{", b"}", b"[", b"]", b"{}", b"[]"}

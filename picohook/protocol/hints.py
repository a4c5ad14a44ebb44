"""Advice for authors of hooks about the typical mistakes that bad lines show."""

PRETTY = "it prints JSON over several lines: print each message on one line"
NO_JSON = "it prints text to standard output, which is for the protocol alone: print to standard error"
TEXT_ID = "it sends the id back as a string: send it back as the number that it received"
NO_DICT = "it prints a Python dict, which is not JSON: print json.dumps(...) of it"
NO_ENVELOPE = (
    'its answer lacks the envelope: send {"jsonrpc": "2.0", "id": ID, "result": ...}, with the id of the request'
)
"""The most frequent mistakes of hook authors."""


def hint_of_unknown(request_id: int) -> str:
    """The advice for a reply with the id of no request."""
    return f"it answers with the id {request_id}, which no request has: send back the id of the request"


def hint_of_line(line: bytes) -> str:
    """The advice for a line that is not a message; empty if the mistake is not typical."""
    text = line.strip()
    if text.rstrip(b",") in _BRACKETS or (text[:1] == b'"' and b'":' in text):
        return PRETTY
    if text[:1] != b"{":
        return NO_JSON if text[:1] != b"[" else ""
    if text[:2] == b"{'":
        return NO_DICT
    return NO_ENVELOPE if text[-1:] == b"}" else ""


_BRACKETS = {b"{", b"}", b"[", b"]", b"{}", b"[]"}

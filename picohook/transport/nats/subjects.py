"""The subjects of messages over NATS. A name becomes one token of letters, digits, `_` and `-`."""

from __future__ import annotations

import re
from functools import lru_cache

PREFIX = "picohook.v1"

_OTHER = re.compile(rb"_(?=x)|[^A-Za-z0-9_-]")


@lru_cache(maxsize=4096)
def token(name: str) -> str:
    """The name as one token of a subject. Each other byte becomes `_x` and two digits, so no two names have the same token."""
    return _OTHER.sub(lambda found: b"_x%02x" % found[0][0], name.encode()).decode()


def rpc(tenant: str, hook: str, stage: str) -> str:
    """The subject of questions to a hook at a stage. `*` is every stage."""
    return f"{PREFIX}.rpc.{token(tenant)}.{token(hook)}.{stage}"


def cancel(tenant: str, hook: str) -> str:
    """The subject on which a host cancels a question to the hook."""
    return f"{PREFIX}.cancel.{token(tenant)}.{token(hook)}"


def inbox(host: str) -> str:
    """The prefix of the subjects at which a host gets answers."""
    return f"_INBOX.{token(host)}"


def service(verb: str, hook: str = "", instance: str = "") -> str:
    """The subject of requests to micro services. `verb` is PING, INFO or STATS."""
    return ".".join(["$SRV", verb, *([token(hook)] if hook else []), *([instance] if instance else [])])

"""The subjects of messages over NATS. A name becomes one token of letters, digits, `_` and `-`."""

from __future__ import annotations

import re
from functools import lru_cache

PREFIX = "picohook.v1"

_OTHER = re.compile(rb"_(?=x)|[^A-Za-z0-9_-]")
_ESCAPED = re.compile(rb"_x([0-9a-f]{2})")


@lru_cache(maxsize=4096)
def token(name: str) -> str:
    """The name as one token of a subject. Each other byte becomes `_x` and two digits, so no two names have the same token."""
    return _OTHER.sub(lambda found: b"_x%02x" % found[0][0], name.encode()).decode()


def name_of(token: str) -> str:
    """The name in a token. Raises `ValueError` if it is not a token of a name."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), token.encode()).decode()


def rpc(tenant: str, hook: str, stage: str) -> str:
    """The subject of questions to a hook at a stage. `*` is every stage."""
    return f"{PREFIX}.rpc.{token(tenant)}.{token(hook)}.{stage}"


def cancel(tenant: str, hook: str) -> str:
    """The subject on which a host cancels a question to the hook."""
    return f"{PREFIX}.cancel.{token(tenant)}.{token(hook)}"


def events(tenant: str, session: str, kind: str, host: str) -> str:
    """The subject of the events of a session. Only this host may publish there."""
    return f"{PREFIX}.evt.{token(tenant)}.{token(session)}.{token(kind)}.{token(host)}"


def events_of(tenant: str, host: str) -> str:
    """The subjects of all events of a host."""
    return f"{PREFIX}.evt.{token(tenant)}.*.*.{token(host)}"


def source(tenant: str, host: str) -> str:
    """The name of a host as the source of events."""
    return f"/picohook/{token(tenant)}/hosts/{token(host)}"


def source_of(subject: str) -> str:
    """The source of the events on this subject."""
    _, _, _, tenant, *_, host = subject.split(".")
    return f"/picohook/{tenant}/hosts/{host}"


def host(tenant: str, name: str) -> str:
    """The subject of a host's status. Only this host may publish there."""
    return f"{PREFIX}.host.{token(tenant)}.{token(name)}"


def hosts(tenant: str) -> str:
    """The subject to listen to for the status of all hosts of a tenant."""
    return f"{PREFIX}.host.{token(tenant)}.*"


def inbox(host: str) -> str:
    """The prefix of the subjects at which a host gets answers."""
    return f"_INBOX.{token(host)}"


def service(verb: str, hook: str = "", instance: str = "") -> str:
    """The subject of requests to micro services. `verb` is PING, INFO or STATS."""
    return ".".join(["$SRV", verb, *([token(hook)] if hook else []), *([instance] if instance else [])])

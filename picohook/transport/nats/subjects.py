"""The subjects of messages over NATS. A name becomes one token of letters, digits, `_` and `-`."""

from __future__ import annotations

import re
from functools import lru_cache

PREFIX = "picohook.v1"

_OTHER = re.compile(rb"_(?=x)|[^A-Za-z0-9_-]")
_ESCAPED = re.compile(rb"_x([0-9a-f]{2})")


@lru_cache(maxsize=4096)
def token(name: str) -> str:
    """The name as one token of a subject. No two names have the same. Each other byte becomes `_x` and two digits."""
    return _OTHER.sub(lambda found: b"_x%02x" % found[0][0], name.encode()).decode()


def name_of(token: str) -> str:
    """The name that a token stands for. Raises `ValueError` if none does."""
    return _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), token.encode()).decode()


def rpc(tenant: str, hook: str, stage: str) -> str:
    """Where a hook is asked at a stage. `*` stands for every stage."""
    return f"{PREFIX}.rpc.{token(tenant)}.{token(hook)}.{stage}"


def cancel(tenant: str, hook: str) -> str:
    """Where a host says that it no longer waits for an answer of the hook."""
    return f"{PREFIX}.cancel.{token(tenant)}.{token(hook)}"


def events(tenant: str, session: str, kind: str) -> str:
    """Where an event of a session is published."""
    return f"{PREFIX}.evt.{token(tenant)}.{token(session)}.{token(kind)}"


def host(tenant: str, name: str) -> str:
    """Where a host tells of itself. It may publish here, and no other host may."""
    return f"{PREFIX}.host.{token(tenant)}.{token(name)}"


def hosts(tenant: str) -> str:
    """Where all hosts of a tenant tell of themselves, to listen there."""
    return f"{PREFIX}.host.{token(tenant)}.*"


def inbox(host: str) -> str:
    """The prefix of the subjects at which a host gets answers."""
    return f"_INBOX.{token(host)}"


def service(verb: str, hook: str = "", instance: str = "") -> str:
    """Where members of a service tell of themselves. `verb` is PING, INFO or STATS."""
    return ".".join(["$SRV", verb, *([token(hook)] if hook else []), *([instance] if instance else [])])

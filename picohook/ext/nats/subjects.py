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


def rpc(tenant: str, hook: str, stage: str, host: str) -> str:
    """The subject of questions of a host to a hook at a stage. Only this host may publish there. `*` is every stage or host."""
    return f"{PREFIX}.rpc.{token(tenant)}.{token(hook)}.{stage}.{_host(host)}"


def cancel(tenant: str, hook: str, host: str) -> str:
    """The subject on which a host cancels its questions to the hook. Only this host may publish there. `*` is every host."""
    return f"{PREFIX}.cancel.{token(tenant)}.{token(hook)}.{_host(host)}"


def inbox(host: str) -> str:
    """The prefix of the subjects at which a host gets answers. Only this host may listen there."""
    return f"_INBOX.{token(host)}"


def is_own_inbox(subject: str, reply: str) -> bool:
    """Whether the reply to a message on this subject goes only to the host that may publish there."""
    return reply.startswith(f"_INBOX.{subject.rpartition('.')[2]}.")


def _host(name: str) -> str:
    return name if name == "*" else token(name)

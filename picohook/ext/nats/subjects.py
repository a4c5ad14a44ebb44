"""The subjects of messages over NATS. A name becomes one token of letters, digits, `_` and `-`."""

import math
import re
from functools import lru_cache

PREFIX = "picohook.v1"
LONGEST_REPLY = 2000
"""The most bytes of a reply subject: the server ends a connection that publishes to one of twice this length."""
LONGEST_TIME = 15
"""The most digits of the milliseconds for an answer."""

_OTHER = re.compile(rb"_(?=x)|[^A-Za-z0-9_-]")


@lru_cache(maxsize=4096)
def token(name: str) -> str:
    """The name as one token of a subject. Each other byte becomes `_x` and two digits, so no two names have the same token."""
    return _OTHER.sub(lambda found: b"_x%02x" % found[0][0], name.encode()).decode()


ANY = "any"
"""The last token of a question's subject if any worker of the hook's queue group may answer it."""


def rpc(tenant: str, hook: str, stage: str, host: str, worker: str = ANY) -> str:
    """The subject of questions of a host to a hook at a stage. Only this host may publish there. `*` is every stage or host."""
    return f"{PREFIX}.rpc.{token(tenant)}.{token(hook)}.{stage}.{_host(host)}.{worker}"


def cancel(tenant: str, hook: str, host: str) -> str:
    """The subject on which a host cancels its questions to the hook. Only this host may publish there. `*` is every host."""
    return f"{PREFIX}.cancel.{token(tenant)}.{token(hook)}.{_host(host)}"


def inbox(host: str) -> str:
    """The prefix of the subjects at which a host gets answers. Only this host may listen there."""
    return f"_INBOX.{token(host)}"


def is_inbox_of(host: str, reply: str) -> bool:
    """Whether only the host with this token gets what is published below `reply`."""
    return reply.startswith(f"_INBOX.{host}.") and len(reply) <= LONGEST_REPLY


def seconds_left(reply: str) -> float:
    """The seconds that the host gives for the answer, as the last token of the reply subject says; infinity if it says none.

    They are no time of day, because clocks differ.
    """
    millis = reply.rpartition(".")[2]
    return int(millis) / 1000 if len(millis) <= LONGEST_TIME and millis.isdecimal() else math.inf


def _host(name: str) -> str:
    return name if name == "*" else token(name)

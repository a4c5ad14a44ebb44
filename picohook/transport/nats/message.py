"""A message over NATS, with its headers as the bytes that the server sends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .headers import DIGEST, STATUS

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = b"NATS/1.0"
_ANSWER = b"%b\r\n%b: %%b\r\n\r\n" % (_VERSION, DIGEST.encode())
_NOBODY = "503"
_FROM_NOBODY = b"%b %b" % (_VERSION, _NOBODY.encode())


class Message:
    """A message, sent or received. Its headers are read when they are asked for."""

    __slots__ = ("_headers", "data", "head", "reply", "subject")

    def __init__(self, subject: str, data: bytes, reply: str = "", head: bytes = b"") -> None:
        self.subject = subject
        self.data = data
        self.reply = reply
        self.head = head
        """The headers as they are sent; empty if there are none."""
        self._headers: dict[str, str] | None = None

    @property
    def headers(self) -> dict[str, str]:
        """The headers by their names. `Status` is the status that the server sends."""
        if self._headers is None:
            self._headers = read_head(self.head)
        return self._headers

    @property
    def is_from_nobody(self) -> bool:
        """Whether it is the server's answer to a question that has no receiver."""
        if self.data:
            return False
        return self.head.startswith(_FROM_NOBODY) or self.headers.get(STATUS) == _NOBODY

    def line(self) -> bytes:
        """The command that publishes it."""
        to = f"{self.subject} {self.reply}".encode()
        if not self.head:
            return b"PUB %b %d\r\n%b\r\n" % (to, len(self.data), self.data)
        size = len(self.head)
        return b"HPUB %b %d %d\r\n%b%b\r\n" % (to, size, size + len(self.data), self.head, self.data)


def head_of(headers: Mapping[str, str]) -> bytes:
    """The head with these headers; empty if there are none."""
    return more(b"%b\r\n\r\n" % _VERSION, headers) if headers else b""


def more(head: bytes, headers: Mapping[str, str]) -> bytes:
    """The head with more headers: those that have a value."""
    lines = "".join(f"{name}: {_one_line(value)}\r\n" for name, value in headers.items() if value)
    return head[:-2] + lines.encode() + head[-2:]


def answer_head(digest: bytes) -> bytes:
    """The head of an answer to the question with this digest."""
    return _ANSWER % digest


def _one_line(value: str) -> str:
    """The value of a header, as one line."""
    return value if value.isprintable() else " ".join(value.split())


def read_head(head: bytes) -> dict[str, str]:
    """The headers in a head by their names."""
    first, *lines = head.removeprefix(_VERSION).decode("utf-8", "replace").split("\r\n")
    found = {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
    return {STATUS: first.split()[0], **found} if first.strip() else found

"""Paths and hosts of a call: where they are, as far as a decision about them needs to know."""

import contextlib
import functools
import ipaddress
import os.path
import re
import socket
import unicodedata
from typing import NamedTuple

from .names import data
from .words import DEFENDED, OPEN, PLAIN, UNKNOWN, unknown

_TOP = frozenset(("/Users", "/home", "/mnt", "/media", "/data", "/workspace"))
"""Directories that are there on some machines."""
_KNOWN = re.compile(f"[^/]*[{UNKNOWN}{OPEN}{PLAIN}{DEFENDED}]")
_TRANSLATED = ipaddress.ip_network("64:ff9b::/96")


class Target(NamedTuple):
    """A file or a host."""

    path: str
    """Absolute, with links followed; a host's name for a host."""
    place: str
    """See `Places.place`; for a host `remote`, `local`, `metadata` or `unknown`."""
    glob: bool = False


class Places:
    """Where paths are, for one call."""

    def __init__(self, cwd: str, project: str, home: str) -> None:
        self._directory = functools.cache(os.path.realpath)
        self.home, self.project = self._directory(home), self._directory(project or cwd)
        if self.project in {"/", self.home} or self.home.startswith(f"{self.project}/"):
            self.project = self._directory(cwd)  # no project: everything is below it
        self._inner_first = sorted(((self.home, "~"), (self.project, ".")), key=lambda one: -len(one[0]))

    def real(self, path: str, cwd: str, *, link: bool = False) -> str:
        """The absolute path. `link`: the last part itself, even if it is a link."""
        whole = os.path.join(cwd, path)
        found = os.path.normpath(whole)
        if _is_null(found):  # what that leads to is this process's own
            return found
        head, name = os.path.split(whole)
        with contextlib.suppress(OSError, ValueError):  # a link that may not be read
            if unknown(whole):
                head = _KNOWN.split(whole, maxsplit=1)[0]
                found = os.path.normpath(os.path.join(self._directory(head or "/"), whole[len(head) :].lstrip("/")))
            elif name in {"", ".", ".."}:
                found = self._directory(whole)
            else:
                found = os.path.join(self._directory(head), name)
                if not link and os.path.islink(found):
                    found = os.path.realpath(found)
        return found[1:] if found.startswith("//") else found

    def target(self, text: str, cwd: str, *, glob: bool = False, link: bool = False) -> Target:
        """Returns the file of this name, seen from this directory."""
        text = text.removeprefix("file://")
        if _is_null(text):
            return Target(text, "null")
        head, mark, _ = text.partition(UNKNOWN)
        # enough is known before the unknown part: `/tmp/x-?`, and not `?/x` or `/?`
        named = not mark or (head.rpartition("/")[2] and UNKNOWN not in text.rpartition("/")[0])
        lost = not text.startswith("/") and (UNKNOWN in cwd or OPEN in cwd)
        if "\0" in text or OPEN in text or lost or not named:
            return Target(text, "unknown", glob)
        if DEFENDED in text:
            return Target(text, "defended", glob)
        path = self.real(text, cwd, link=link)
        return Target(path, self.place(path, glob=glob), glob)

    def place(self, path: str, *, glob: bool = False) -> str:
        """Where an absolute path is: as `places.toml` has it, or `root`: the file system's, or above home or the project."""
        head, _, name = path.rpartition("/")
        if glob and not name.strip("*?.[]!^{}@"):  # everything in a directory
            return self.place(head or "/")
        for directory, mark in self._inner_first:
            if path == directory or path.startswith(f"{directory}/"):
                place = _where(mark + path[len(directory) :])
                if place != "outside" or self.home != self.project:  # in a home that is the project, keys stay keys
                    return place
        place = _where(path)
        above = f"{path.rstrip('/')}/"
        if place not in {"null", "temp-root"} and (self.home.startswith(above) or self.project.startswith(above)):
            return "root"
        if place == "top":
            return "root" if path in _TOP or os.path.isdir(path) else "outside"
        return place


@functools.cache
def _patterns(table: str) -> re.Pattern[str]:
    patterns = data("places")[table]
    return re.compile("|".join(f"(?P<{name.replace('-', '_')}>{pattern})" for name, pattern in patterns.items()))


def _is_null(path: str) -> bool:
    return path.startswith(("/dev/", "/proc/")) and _where(path) == "null"


def _where(text: str, table: str = "files", default: str = "outside") -> str:
    found = _patterns(table).fullmatch(text)
    return str(found.lastgroup).replace("_", "-") if found else default


def host_of(text: str) -> Target:
    """Returns the host of a URL or of `user@host:path`."""
    rest = re.sub(r"^[a-zA-Z][\w+.-]*:/*", "", text) if "://" in text or text.startswith("//") else text
    rest = re.split(r"[/?#\\]", rest, maxsplit=1)[0].rpartition("@")[2]
    name = (
        rest[1:].partition("]")[0] if rest.startswith("[") else rest.partition(":")[0] if rest.count(":") <= 1 else rest
    )
    return Target(name, _host_place(name))


def _host_place(name: str) -> str:
    if unknown(name) or not name:
        return "unknown"
    plain = unicodedata.normalize("NFKC", name).replace("。", ".").strip(".").lower()
    address = _address(plain.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        in_the_end = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if address in _TRANSLATED else None
        address = address.ipv4_mapped or in_the_end or address
    if address is not None and (address.is_loopback or address.is_unspecified):
        return "local"
    return _where(str(address or plain), "hosts", "remote")


def _address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, in any spelling that libc knows."""
    try:
        if ":" in text:
            return ipaddress.ip_address(text)
        return ipaddress.IPv4Address(socket.inet_aton(text)) if re.fullmatch(r"\d[0-9a-fx.]*", text) else None
    except (OSError, ValueError):
        return None

"""Reads a file that decides which programs run, and refuses one that other users could have written. Replaces files."""

import contextlib
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..wire import written_files
from ..wire.did_you_mean import file_meant
from ..wire.regular_files import open_regular, read_rest
from ..wire.written_files import Place
from .problems import Problems

MOST_BYTES_OF_FILE = 1 << 20
"""The most bytes that a configuration may have."""


def read(path: Path, problems: Problems, most: int = MOST_BYTES_OF_FILE) -> bytes:
    """Returns the file's bytes. Raises `ConfigError`. Checks and reads the same open file, even if it is replaced meanwhile."""
    try:
        descriptor, status = open_regular(path)
        for who, hint in strangers(status):
            problems.add("", who, hint)
        data = read_rest(os.fdopen(descriptor, "rb"), most)
        problems.check()
        return data
    except FileNotFoundError:
        near = file_meant(os.fspath(path))
        problems.fail("", "there is no such file", f"did you mean {near}?" if near else "")
    except OSError as error:
        refused = error.strerror or str(error)
        problems.fail("", refused.removeprefix("it ") if refused.startswith("it is ") else f"cannot be read: {refused}")
    except ValueError:
        problems.fail("", "cannot be read: its name holds a NUL character")


@contextlib.contextmanager
def place(path: Path) -> Iterator[Place]:
    """The place of a file of this user's own that only this user may read. See `written_files.place`. Raises `ConfigError`."""
    try:
        with written_files.place(path, own=True, make=0o700) as found:
            yield found
    except OSError as error:
        Problems(str(path)).fail("", f"cannot be written: {error.strerror}")


def replace(path: Path, document: Any) -> None:
    """Replace a file by a JSON document in one step. Only its user can read it. Raises `ConfigError`."""
    with place(path) as found:
        found.replace(encoded(document), mode=0o600)


def encoded(document: Any) -> bytes:
    """Returns a JSON document as people can read it."""
    return json.dumps(document, indent=2).encode()


def strangers(status: os.stat_result) -> Iterator[tuple[str, str]]:
    """The ways in which other users could change a file, each with its way out."""
    user = os.geteuid()
    if status.st_uid not in {user, 0}:
        yield f"belongs to another user (uid {status.st_uid}), who could make it run anything", "chown it"
    if status.st_mode & stat.S_IWOTH:
        yield "can be written by everyone, who could make it run anything", "chmod o-w"
    elif status.st_mode & stat.S_IWGRP and not any(_is_private(status.st_gid, uid) for uid in (user, 0)):
        yield f"can be written by a whole group (gid {status.st_gid})", "chmod g-w"


def _is_private(group: int, user: int) -> bool:
    """Whether the group is that user's alone, as with umask 002: it has the user's name, and no other member."""
    import grp  # rarely needed
    import pwd

    try:
        owner, members = pwd.getpwuid(user), grp.getgrgid(group)
    except KeyError:
        return False
    return owner.pw_gid == group and members.gr_name == owner.pw_name and set(members.gr_mem) <= {owner.pw_name}

"""The outside of a call on which its meaning depends: directories and links, words of a command, git's configuration."""

import errno
import functools
import hashlib
import os
import re
import shlex
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from ctypes import c_size_t, get_errno
from typing import Any

from ...contain.syscalls import LIBC
from ...errors import PicohookError
from ...wire.regular_files import read_regular

_GIT = re.compile(r"(?<![A-Za-z0-9])git(?![A-Za-z0-9])")
_ELSEWHERE = re.compile(r"(?<![\w-])(?:cd|pushd|-C|--git-dir|--work-tree|GIT_\w+|HOME|XDG_CONFIG_HOME)(?![\w-])")
"""What leads git to another directory or configuration."""
_INCLUDED = re.compile(rb"(?i)\bpath[ \t]*=[ \t]*([^\r\n]*)")
_PLAIN_PATH = re.compile(rb"\"[^\"\\%]+\"|[^\"\\%#;]+")
_MOST = 1 << 20
"""The most bytes of a file of git's configuration."""
_LONGEST = 4096
"""The most characters of a path."""
_DEEPEST = 5
"""The most files that include one another."""
_OPENAT2, _HERE = 437, -100
_CACHED_WITHOUT_LINKS = struct.pack("QQQ", getattr(os, "O_PATH", 0) | os.O_CLOEXEC, 0, 0x20 | 0x04)
"""RESOLVE_CACHED and RESOLVE_NO_SYMLINKS for `openat2`. An older kernel refuses them."""
_SIZE = c_size_t(len(_CACHED_WITHOUT_LINKS))


def resolved(path: str, cwd: str) -> str:
    """A path without links, `~` and `..`, relative to a directory."""
    return os.path.realpath(os.path.join(cwd, os.path.expanduser(path)))


def is_understood(path: str) -> bool:
    """Whether this is a path for all tools. Some strip blanks, some take URLs, some know `~`."""
    return len(path) <= _LONGEST and path == path.strip() and path[:1] != "~" and ":/" not in path and "\0" not in path


def path_at_once(path: str, cwd: str) -> str:
    """What `resolved_for_all` returns, as far as that is known without waiting for a file system; otherwise empty.

    The kernel is asked for a path without links, of which it has each part in memory: it never waits for a disk or a server.
    """
    whole = path if path[:1] == "/" else f"{cwd}/{path}"
    if ".." in whole or path.startswith("//") or not is_understood(path) or sys.platform != "linux":
        return ""
    whole = os.path.normpath(whole)
    found = LIBC.syscall(_OPENAT2, _HERE, os.fsencode(whole), _CACHED_WITHOUT_LINKS, _SIZE)
    if found >= 0:
        os.close(found)
    # A file that is missing has no link before it, and nothing behind it.
    return whole if found >= 0 or get_errno() == errno.ENOENT else ""


def resolved_for_all(path: str, cwd: str) -> str:
    """A path without links; empty if tools understand it in different ways: some remove `..` before they follow links."""
    if not is_understood(path):
        return ""
    found = resolved(path, cwd)
    return found if ".." not in path or found == resolved(os.path.normpath(os.path.join(cwd, path)), cwd) else ""


@functools.cache
def judge(*, every: bool = False) -> Callable[[str, Mapping[str, Any], str], Any] | None:
    """What gives guards' verdict on a tool's call in a directory, by their usual rules or all; None without their extra."""
    try:
        from ..guards.judge import ALL, USUAL, Judge, Place
    except PicohookError:
        return None
    made = Judge(ALL if every else USUAL)
    return lambda tool, arguments, cwd: made.judge(tool, arguments, Place(cwd))


@functools.lru_cache(maxsize=8)
def command_words(text: str, cwd: str) -> tuple[str, ...]:
    """The words of a text that is one simple command and nothing else; none if it is more, or cannot be known.

    Guards read it. Without their extra, no command is known. A second, plain reader has to find the same words: guards leave
    out what harms nothing by itself, such as `PATH=x;`, and it would change the command.
    """
    judged = judge(every=True)
    reading = None if judged is None else judged("Bash", {"command": text}, cwd).reading
    if reading is None or len(reading.commands) != 1 or reading.doubts:
        return ()
    (command,) = reading.commands
    words = tuple(word.shown for word in command.words)
    around = (command.redirects, command.assigned, command.feed, command.via, command.wraps)
    plain = all(word.known and not word.glob and not word.inside for word in command.words)
    try:
        return words if plain and not any(around) and [*words] == shlex.split(text) else ()
    except ValueError:  # a quote is open
        return ()


def is_harmless(tool: str, arguments: Mapping[str, Any], command: str, cwd: str) -> bool:
    """Whether guards let this call with a command pass, so that its last words do nothing that its first ones do not."""
    judged = judge(every=True)
    # As a command, too: guards may not know that the tool runs this argument.
    calls = ((tool, arguments), ("Bash", {"command": command}))
    return judged is not None and all(judged(name, given, cwd).decision == "continue" for name, given in calls)


def git_is_named(value: Any) -> str:
    """Returns "here" if a text in this value names git, "elsewhere" if it also leads it to other files; empty if none does."""
    if isinstance(value, str):
        if "git" not in value or _GIT.search(value) is None:  # the first is much faster for a large text
            return ""
        return "elsewhere" if _ELSEWHERE.search(value) else "here"
    found = ""
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if found != "elsewhere" and not (type(inner) is str and "git" not in inner):  # as nearly always
            found = git_is_named(inner) or found
    return found


def state_of_git(cwd: str) -> str:
    """A digest of what decides about a git command in this directory: aliases, remotes, programs and the current branch.

    Raises `PicohookError` if a file cannot be read, or if it cannot be told which files count.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        for path in _files_of_git(cwd):
            _add(digest, path, _DEEPEST)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise PicohookError(f"the configuration of git cannot be told: {why}") from None
    return digest.hexdigest()


def _files_of_git(cwd: str) -> Iterator[str]:
    home = os.path.expanduser("~")
    yield "/etc/gitconfig"
    yield os.path.join(os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "git", "config")
    yield os.path.join(home, ".gitconfig")
    if any(name.startswith(("GIT_CONFIG", "GIT_DIR", "GIT_COMMON_DIR")) for name in os.environ):
        raise ValueError("the environment leads git to other files")
    here = os.path.realpath(cwd)
    while not os.path.lexists(os.path.join(here, ".git")) and here != "/":
        if os.path.lexists(os.path.join(here, "HEAD")):  # git takes a directory with these files for a repository
            yield os.path.join(here, "HEAD")
            yield os.path.join(here, "config")
        here = os.path.dirname(here)
    own = os.path.join(here, ".git")
    if os.path.isfile(own):  # a further work tree: the file names its directory
        own = _named(own, _read(own).partition(b"gitdir:")[2])
    common = os.path.join(own, "commondir")
    yield os.path.join(own, "HEAD")
    yield os.path.join(own, "config.worktree")
    yield os.path.join(_named(common, _read(common)) if os.path.isfile(common) else own, "config")


def _named(file: str, text: bytes) -> str:
    """The path that a file names, relative to its own directory."""
    return os.path.join(os.path.dirname(file), os.path.expanduser(os.fsdecode(text.strip())))


def _add(digest: Any, path: str, depth: int) -> None:
    data = _read(path)
    digest.update(b"%d %b\0%d\0%b" % (len(path), os.fsencode(path), len(data), data))
    if b"[include" in data.lower():
        for named in _INCLUDED.findall(data):
            if not depth or _PLAIN_PATH.fullmatch(named.strip()) is None:
                raise ValueError("a file that is included cannot be told")
            _add(digest, _named(path, named.strip().strip(b'"')), depth - 1)


def _read(path: str) -> bytes:
    """The bytes of a file; none if there is none. Raises `OSError` for one that cannot be read."""
    try:
        return read_regular(path, _MOST)
    except (FileNotFoundError, NotADirectoryError):
        return b""

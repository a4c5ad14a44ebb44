"""Copies of this process that only call functions of the C library, and have only the memory that these need.

The kernel takes four times as long to make a copy that runs Python, and three times as long to end it. Such a copy has a table
of all memory of this process, and a page of its own for each that Python changes.

In a copy, each call is a context (makecontext(3)) that leads to the next one. The library musl has no contexts.
"""

from __future__ import annotations

import ctypes
import os

from .syscalls import LIBC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    Call = tuple[Any, ...]
    """A function of the C library, and its arguments: numbers."""

MADV_DONTFORK, MADV_DOFORK = 10, 11
CONTEXT, STACK = 8192, 8192
"""Bytes for a context, which takes less than 5000, and for the stack of a call."""
PAGE = os.sysconf("SC_PAGE_SIZE")
_left_out: list[tuple[int, int]] = []
"""The memory that copies do not have: addresses and sizes."""
_needed: list[tuple[int, int]] = []
"""The memory within it that they have."""


class SmallCopies:
    """Makes copies that call these functions, one after another. The last one must not return."""

    def __init__(self, calls: Sequence[Call], data: ctypes.Array[ctypes.c_char]) -> None:
        """Copies have this data, and the signals blocked that this thread blocks now.

        Raises `AttributeError` if there are no contexts.
        """
        size = (len(calls) + 1) * (CONTEXT + STACK)
        self._memory = ctypes.create_string_buffer(size + 2 * PAGE)
        at = start = _page_of(ctypes.addressof(self._memory) + PAGE)
        following = 0
        for function, *arguments in reversed(calls):
            context = ctypes.c_void_p(at)
            LIBC.getcontext(context)
            # struct ucontext_t: flags, the context that follows, and the address, flags and size of the stack
            fields = (ctypes.c_size_t * 5).from_address(at)
            fields[1], fields[2], fields[4] = following, at + CONTEXT, STACK
            LIBC.makecontext(context, function, len(arguments), *map(ctypes.c_long, arguments))
            following = at
            at += CONTEXT + STACK
        self._first = ctypes.c_void_p(following)
        self._stack = ctypes.c_void_p(at + CONTEXT + STACK)
        _left_out.extend(_unneeded([LIBC.setcontext, *(function for function, *_ in calls)]))
        _needed.extend([(start, size), (_page_of(ctypes.addressof(data)), PAGE + len(data))])
        _copy_little()

    def make(self, flags: int) -> int:
        """Make a copy with these flags of clone(2). Returns its pid, or -1 and sets errno."""
        pid: int = LIBC.clone(LIBC.setcontext, self._stack, flags, self._first)
        return pid


def copy_all() -> None:
    """From now on, copies have all memory."""
    _advise(MADV_DOFORK, _left_out)
    _left_out.clear()
    _needed.clear()


def fork() -> int:
    """`os.fork`, with all memory."""
    _advise(MADV_DOFORK, _left_out)
    try:
        return os.fork()
    finally:
        _copy_little()


def _unneeded(functions: list[Any]) -> Iterator[tuple[int, int]]:
    """The addresses and sizes of all memory but that of the libraries with these functions, and of this thread's errno."""
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    LIBC.pthread_self.restype = ctypes.c_size_t
    thread = LIBC.pthread_self()
    with open("/proc/self/maps", "rb") as file:
        rows = [line.split() for line in file]
    memory = {range(*(int(address, 16) for address in row[0].split(b"-"))): b" ".join(row[5:]) for row in rows}
    libraries = {name for place, name in memory.items() if any(address in place for address in addresses)}
    needed_until = 0
    for place, name in memory.items():
        # The variables of a library that have no value in its file follow it.
        if name in libraries or (not name and place.start == needed_until):
            needed_until = place.stop
        # What starts with [v is the kernel's. The main thread's stack has the command line, which `ps` shows.
        elif thread not in place and not name.startswith((b"[v", b"[stack")):
            yield place.start, place.stop - place.start


def _page_of(address: int) -> int:
    return address // PAGE * PAGE


def _copy_little() -> None:
    _advise(MADV_DONTFORK, _left_out)
    _advise(MADV_DOFORK, _needed)


def _advise(advice: int, memory: Iterable[tuple[int, int]]) -> None:
    for address, size in memory:
        LIBC.madvise(ctypes.c_void_p(address), ctypes.c_size_t(size), advice)

"""A long text in pages of memory that many pipes share.

A write copies a text into pages of the pipe. A text that many hooks get is copied once, and each pipe refers to the same pages,
which are never changed. They are freed when the text is no longer shared, and each pipe is read or closed.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

FEWEST = 6
"""How many pipes have to share a text. For fewer, to make the pages takes longer than it saves."""
SHORTEST = 128 * 1024
"""The least bytes of a text that is shared."""
MOST = 16
"""How many texts are shared at once. Each has a descriptor."""
shared: dict[int, SharedPages] = {}
"""The pages of each shared text, by the `id` of the text."""


class SharedPages:
    """A text, and its pages."""

    __slots__ = ("_descriptor", "_text")

    def __init__(self, text: bytes, descriptor: int) -> None:
        self._text = text
        self._descriptor = descriptor

    def write(self, pipe: int, size: int) -> int:
        """Give the pipe as much of the last `size` bytes as it takes now. Returns the number of bytes. Raises `OSError`."""
        start = len(self._text) - size
        try:
            return os.splice(self._descriptor, pipe, size, offset_src=start)
        except (BlockingIOError, BrokenPipeError):
            raise
        except OSError:  # a sandbox may forbid it
            return os.write(pipe, memoryview(self._text)[start:])


@contextmanager
def share(text: bytes, pipes: int) -> Iterator[None]:
    """Share a text among so many pipes, if that is possible and takes less time.

    What a pipe has not taken at the end is written to it like any other text.
    """
    descriptor = None
    if pipes >= FEWEST and len(text) >= SHORTEST and len(shared) < MOST and id(text) not in shared:
        descriptor = _pages(text)
    if descriptor is None:
        yield
        return
    shared[id(text)] = SharedPages(text, descriptor)
    try:
        yield
    finally:
        del shared[id(text)]
        os.close(descriptor)


def _pages(text: bytes) -> int | None:
    """A descriptor of a file in memory with this text; None if the system has no such files, or no memory."""
    if not hasattr(os, "splice"):
        return None
    try:
        descriptor = os.memfd_create("picohook")
    except OSError:
        return None
    try:
        left = memoryview(text)
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def pages_of(buffer: bytes | memoryview) -> SharedPages | None:
    """The pages of this text, or of the text whose end this is; None if it is not shared."""
    return shared.get(id(buffer.obj if isinstance(buffer, memoryview) else buffer))

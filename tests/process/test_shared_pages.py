"""A long text that many hooks get: their pipes share its pages, and each hook reads it as it is."""

from __future__ import annotations

import errno
import fcntl
import os
import random
from contextlib import ExitStack

import anyio
import pytest

from picohook import HookSpec, Host, ToolCall
from picohook.hooks.base import Hook
from picohook.model.decisions import CONTINUE
from picohook.transport.event_loop import current_reactor
from picohook.transport.pipe import WIDE, WIDEST, LinePipe
from picohook.transport.shared_pages import FEWEST, MOST, SHORTEST, pages_of, share, shared

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not hasattr(os, "splice"), reason="pipes cannot share pages here"),
]

TEXT = random.Random(7).randbytes(5 * SHORTEST + 17)
HEAD, TAIL = b'{"id":1,"params":', b"}\n"


@pytest.fixture
def spliced(monkeypatch):
    """The sizes of what pipes were given without a copy."""
    sizes = []

    def splice(*of, **settings):
        sizes.append(splice_of_system(*of, **settings))
        return sizes[-1]

    splice_of_system = os.splice
    monkeypatch.setattr(os, "splice", splice)
    return sizes


class Written:
    """A line that is written to a hook's pipe, and what the hook has read of it."""

    def __init__(self) -> None:
        (self._read, theirs), (self._stdin, stdin) = os.pipe(), os.pipe()
        os.close(theirs)
        os.set_blocking(stdin, False)
        os.set_blocking(self._stdin, False)
        self._pipe = LinePipe(current_reactor(), self._read, stdin, on_data=lambda _: None, on_end=lambda: None)
        self._left: list[bytes | memoryview] = [HEAD, TEXT, TAIL]
        self.read = b""

    def write(self) -> int:
        """Write once. Returns how many bytes the pipe took."""
        written = taken = self._pipe.write(self._left)
        while written:
            first = memoryview(self._left.pop(0))
            if written < len(first):
                self._left.insert(0, first[written:])
                break
            written -= len(first)
        return taken

    def capacity_when_wide(self) -> int:
        """How much the pipe can hold when it is enlarged."""
        assert self._pipe.widen()
        return fcntl.fcntl(self._stdin, fcntl.F_GETPIPE_SZ)

    def read_some(self, size: int = 1 << 20) -> None:
        """Let the hook read once."""
        self.read += os.read(self._stdin, size)

    def finish(self) -> None:
        """Write and read the rest."""
        while self._left:
            self.write()
            self.read_some()

    def leave(self) -> None:
        """Let the hook end."""
        if self._stdin >= 0:
            os.close(self._stdin)
            self._stdin = -1

    def close(self) -> None:
        self.leave()
        self._pipe.close()


@pytest.fixture
async def written():
    """Makes such lines."""
    with ExitStack() as stack:

        def make() -> Written:
            made = Written()
            stack.callback(made.close)
            return made

        yield make


async def test_each_hook_reads_the_whole_line(written, spliced):
    lines = [written() for _ in range(3)]
    lines[1].write()
    with share(TEXT, FEWEST):
        for line in lines:
            line.finish()
    assert [line.read for line in lines] == [HEAD + TEXT + TAIL] * 3
    assert sum(spliced) > 2 * len(TEXT)


async def test_a_pipe_is_widest_for_a_shared_text(written):
    line = written()
    with share(TEXT, FEWEST):
        assert line.capacity_when_wide() == WIDEST
    assert written().capacity_when_wide() == WIDE


async def test_a_full_pipe_takes_the_rest_later(written, spliced):
    line = written()
    with share(TEXT, FEWEST):
        line.write()
        assert line.write() == 0
        for size in (1, 4095, 5000):
            line.read_some(size)
            line.write()
        line.finish()
    assert line.read == HEAD + TEXT + TAIL
    assert len(spliced) > 2


async def test_what_is_not_written_when_sharing_ends_is_copied(written, spliced):
    line = written()
    with share(TEXT, FEWEST):
        line.write()
    before = len(spliced)
    line.finish()
    assert line.read == HEAD + TEXT + TAIL
    assert len(spliced) == before > 0


async def test_a_hook_that_has_ended_is_an_error_as_ever(written):
    line = written()
    with share(TEXT, FEWEST):
        line.write()
        line.leave()
        with pytest.raises(BrokenPipeError):
            line.write()


@pytest.mark.parametrize("refused", ["splice", "memfd_create"])
async def test_a_system_that_refuses_is_written_to_as_ever(written, monkeypatch, refused):
    def refuse(*_: object, **__: object) -> int:
        raise OSError(errno.EPERM, "not here")

    monkeypatch.setattr(os, refused, refuse)
    line = written()
    with share(TEXT, FEWEST):
        line.finish()
    assert line.read == HEAD + TEXT + TAIL


def test_it_is_shared_only_where_that_takes_less_time():
    for text, pipes in ((TEXT, FEWEST - 1), (TEXT[: SHORTEST - 1], FEWEST)):
        with share(text, pipes):
            assert not shared
    with share(TEXT[:SHORTEST], FEWEST):
        assert len(shared) == 1
    assert not shared


def test_few_texts_are_shared_at_once_and_each_once():
    before = len(os.listdir("/proc/self/fd"))
    with ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(share(TEXT, FEWEST))
        assert len(shared) == 1
        with share(TEXT[1:], FEWEST):
            assert len(shared) == 2
        assert len(shared) == 1
        for size in range(MOST + 3):
            stack.enter_context(share(TEXT[size + 1 :], FEWEST))
        assert len(shared) == MOST
    assert not shared
    assert len(os.listdir("/proc/self/fd")) == before


class Looks(Hook):
    """A hook that notes whether what it is asked about is shared."""

    in_process = False
    takes_bytes = True

    def __init__(self, name: str, seen: list[bool]) -> None:
        super().__init__(HookSpec(name=name, stages=["before_tool"]))
        self._seen = seen

    async def handle(self, question):
        await anyio.lowlevel.checkpoint()
        self._seen.append(pages_of(question.shared.params()) is not None)
        return CONTINUE


@pytest.mark.parametrize(
    ("count", "size", "yes"), [(FEWEST, SHORTEST, True), (FEWEST - 1, SHORTEST, False), (FEWEST, 9, False)]
)
async def test_a_host_shares_a_long_payload_among_many_hooks(count, size, yes):
    seen: list[bool] = []
    async with Host([Looks(f"h{number}", seen) for number in range(count)]) as host:
        await host.before_tool(ToolCall(tool="write", arguments={"text": "x" * size}))
    assert seen == [yes] * count
    assert not shared

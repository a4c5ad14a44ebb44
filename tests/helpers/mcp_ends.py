"""Both ends of an MCP proxy, played by a test: the client's and the server's."""

from __future__ import annotations

import contextlib
import json
import os

import anyio
from scripted import PATIENCE

from picohook import Host
from picohook.ext.mcp.proxy import Proxy
from picohook.observe.log import Log
from picohook.sessions.session import Session

SERVER = "demo"
META = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}


class End:
    """One side: it writes to the proxy, and reads what the proxy writes."""

    def __init__(self):
        self._read, theirs_to_write = os.pipe()
        theirs_to_read, self._write = os.pipe()
        self.descriptors = theirs_to_read, theirs_to_write
        for descriptor in (self._read, self._write):
            os.set_blocking(descriptor, False)
        self._rest = b""

    def write(self, data):
        """Write as much as there is room for. Returns the number of bytes."""
        try:
            return os.write(self._write, data)
        except BlockingIOError:
            return 0

    async def send(self, *lines):
        """Write lines: bytes, or messages."""
        left = memoryview(b"".join(one if isinstance(one, bytes) else as_line(one) for one in lines))
        with anyio.fail_after(PATIENCE):
            while left := left[self.write(left) :]:
                await anyio.wait_writable(self._write)

    async def line(self):
        """The next line, with its newline; empty at the end."""
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._rest:
                try:
                    data = os.read(self._read, 1 << 16)
                except BlockingIOError:
                    await anyio.wait_readable(self._read)
                    continue
                if not data:
                    assert not self._rest
                    return b""
                self._rest += data
        line, newline, self._rest = self._rest.partition(b"\n")
        return line + newline

    async def lines(self, count):
        return [await self.line() for _ in range(count)]

    async def message(self):
        """The next message."""
        return json.loads(await self.line())

    def end(self):
        """Write nothing more."""
        if self._write >= 0:
            os.close(self._write)
            self._write = -1

    def close(self):
        """Go away."""
        self.end()
        if self._read >= 0:
            os.close(self._read)
            self._read = -1


def as_line(message):
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def call(identity, tool="echo", *, newer=False, **arguments):
    """The line of a tool call."""
    params = {"name": tool, "arguments": arguments, **({"_meta": META} if newer else {})}
    return as_line({"id": identity, "method": "tools/call", "params": params})


def result(identity, *texts, **more):
    """The line of a tool's result."""
    content = [{"type": "text", "text": text} for text in texts]
    return as_line({"id": identity, "result": {"content": content, **more}})


class Between:
    """A proxy that runs, and both its ends."""

    def __init__(self, session, **settings):
        self.client, self.server = End(), End()
        self.over = anyio.Event()
        ends = self.client.descriptors, self.server.descriptors
        self.proxy = Proxy(session, SERVER, *ends, log=Log(), **settings)

    async def stop(self):
        """End the server, as a supervisor does."""
        self.server.end()
        if not self.over.is_set():
            self.proxy.server.stream.drain()

    async def run(self):
        try:
            await self.proxy.run(self.stop)
        finally:
            self.over.set()

    async def ended(self):
        with anyio.fail_after(PATIENCE):
            await self.over.wait()


@contextlib.asynccontextmanager
async def between(*hooks, host=None, approver=None, **settings):
    """A proxy with these hooks. The block leaves when it likes: then the client goes away."""
    async with host or Host(hooks) as running, Session(running, "s1", hooks=[approver] if approver else []) as session:
        made = Between(session, approver=approver, **settings)
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(made.run)
                yield made
                made.client.close()
                await made.ended()
        finally:
            made.client.close()
            made.server.close()

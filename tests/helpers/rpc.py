"""A client of the sockets that a host serves at."""

from __future__ import annotations

import json

import anyio
from scripted import PATIENCE


class Client:
    """A connection: one JSON-RPC message a line."""

    def __init__(self, stream):
        self.stream = stream
        self._buffered = b""
        self._last = 0

    async def send(self, data):
        await self.stream.send(data if isinstance(data, bytes) else data.encode() + b"\n")

    async def line(self):
        """The next line, or None where the host has hung up."""
        with anyio.fail_after(PATIENCE):
            while b"\n" not in self._buffered:
                try:
                    self._buffered += await self.stream.receive()
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    return None
        line, self._buffered = self._buffered.split(b"\n", 1)
        return line

    async def message(self):
        line = await self.line()
        assert line is not None, "the host has hung up"
        return json.loads(line)

    async def exchange(self, text):
        """What is answered to this line."""
        await self.send(text)
        return await self.message()

    async def ask(self, method, params=None):
        self._last += 1
        request = {"jsonrpc": "2.0", "id": self._last, "method": method}
        answer = await self.exchange(json.dumps(request | ({} if params is None else {"params": params})))
        assert (answer["jsonrpc"], answer["id"]) == ("2.0", self._last)
        return answer

    async def result(self, method, params=None):
        answer = await self.ask(method, params)
        assert "error" not in answer, answer
        return answer["result"]

    async def told(self, method, **params):
        """The next notification of this method that says this."""
        while True:
            message = await self.message()
            if message["method"] == method and message["params"].items() >= params.items():
                return message["params"]


class Connections:
    """Connects to a path, as often as it is called."""

    def __init__(self, path):
        self._path = path
        self._streams = []

    async def __call__(self):
        self._streams.append(await anyio.connect_unix(self._path))
        return Client(self._streams[-1])

    async def aclose(self):
        for stream in self._streams:
            await stream.aclose()

from __future__ import annotations

import json
import sys
from pathlib import Path

import anyio
import pytest

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

from fixtures import _no_process_is_left, board, journal  # noqa: F401
from scripted import PATIENCE


class Client:
    """A connection to a control socket."""

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


@pytest.fixture
def path(tmp_path):
    return tmp_path / "control"


@pytest.fixture
async def connect(path):
    """Connects to the host of the test."""
    streams = []

    async def connect():
        streams.append(await anyio.connect_unix(path))
        return Client(streams[-1])

    yield connect
    for stream in streams:
        await stream.aclose()

"""Messages that are handed over as soon as they come, and those that nats-py reads."""

from __future__ import annotations

import asyncio

import pytest
from nats.protocol.parser import Parser

from picohook.transport.nats.direct_reading import DirectReading

OURS, THEIRS = 1, 2
STREAM = (
    b"HMSG a.b 1 _INBOX.x.7 10 15\r\nNATS/1.0\r\nhello\r\n"
    b"HMSG a.b 1 10 10\r\nNATS/1.0\r\n\r\n"
    b"PING\r\n"
    b"HMSG a.b 1 r 10 14\r\nNATS/1.0\r\n\r\n\r\n\r\n"
    b"HMSG c 2 10 13\r\nNATS/1.0\r\nnot\r\n"
    b"MSG a.b 1 r 5\r\nplain\r\n"
    b"-ERR 'Permissions Violation'\r\n"
    b"HMSG a.b 1 r 10 22\r\nNATS/1.0\r\nHMSG a.b 1 r\r\n"
)
READ = [
    (OURS, b"a.b", b"_INBOX.x.7", b"hello", b"NATS/1.0\r\n"),
    (OURS, b"a.b", b"", b"", b"NATS/1.0\r\n"),
    "ping",
    (OURS, b"a.b", b"r", b"\r\n\r\n", b"NATS/1.0\r\n"),
    (THEIRS, b"c", b"", b"not", b"NATS/1.0\r\n"),
    (OURS, b"a.b", b"r", b"plain", None),
    "'permissions violation'",
    (OURS, b"a.b", b"r", b"HMSG a.b 1 r", b"NATS/1.0\r\n"),
]


class Reads:
    """What is read of a stream, in its order: as nats-py's client would, and directly."""

    def __init__(self):
        self.all = []
        self.reader = asyncio.StreamReader()
        self.parser = Parser(self)
        earlier = asyncio.StreamReaderProtocol(self.reader)
        self.protocol = DirectReading(earlier, self.reader, self.parser, self.take, self.taken)
        self.reads = []
        self.task = asyncio.get_running_loop().create_task(self.read())

    def take(self, number, *message):
        if number != OURS:
            return False
        self.all.append((number, *message))
        return True

    def taken(self):
        self.reads.append(len(self.all))

    async def read(self):
        while data := await self.reader.read(1 << 15):
            await self.parser.parse(data)

    async def _process_msg(self, *message):
        self.all.append(message)

    async def _process_ping(self):
        self.all.append("ping")

    async def _process_err(self, why):
        self.all.append(why)

    async def end(self):
        self.protocol.eof_received()
        await self.task


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "later"])
def test_every_message_is_read_once_and_in_order_wherever_the_stream_is_cut(wait):
    async def cut(at):
        reads = Reads()
        for part in (STREAM[:at], STREAM[at:]):
            reads.protocol.data_received(part)
            for _ in range(3 * wait):  # the task of nats-py reads in these rounds
                await asyncio.sleep(0)
        await reads.end()
        return reads.all

    async def cut_everywhere():
        for at in range(len(STREAM)):
            assert await cut(at) == READ, at

    asyncio.run(cut_everywhere())


def test_messages_with_headers_are_handed_over_at_once_also_several_and_those_in_parts():
    async def directly():
        reads = Reads()
        message = STREAM[: STREAM.index(b"HMSG", 1)]
        reads.protocol.data_received(message)
        reads.protocol.data_received(2 * message + message[:20])
        reads.protocol.data_received(message[20:-1])
        assert (reads.all, reads.reads) == (3 * READ[:1], [1, 3])
        reads.protocol.data_received(message[-1:] + message)
        assert (reads.all, reads.reads) == (5 * READ[:1], [1, 3, 5])
        await reads.end()

    asyncio.run(directly())


def test_messages_after_those_that_nats_py_has_not_read_wait_for_it():
    async def waiting():
        reads = Reads()
        message = STREAM[: STREAM.index(b"HMSG", 1)]
        reads.protocol.data_received(b"PING\r\n" + message)
        reads.protocol.data_received(message)
        assert reads.all == []
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert reads.all == ["ping", *2 * READ[:1]]
        reads.protocol.data_received(message)
        assert reads.all == ["ping", *3 * READ[:1]]
        await reads.end()

    asyncio.run(waiting())

"""A remote MCP server over streamable HTTP: what goes there, and what the client is told when it fails."""

from __future__ import annotations

import contextlib
import gzip
import json

import anyio
import pytest
from mcp_ends import End, as_line, call, result
from scripted import PATIENCE

from picohook.errors import PicohookError
from picohook.ext.mcp import bridge, remote

pytestmark = [pytest.mark.anyio, pytest.mark.one_worker("mcp_bridge")]  # one process imports the SDK


@pytest.fixture(scope="module")
def anyio_backend():
    """The bridge is a program of its own, on asyncio. On trio the SDK leaves generators behind."""
    return "asyncio"


SECRET = "hidden-7"
OK = "200 OK"


class Request:
    """A request that a server has received."""

    def __init__(self, head, body):
        first, *lines = head.decode().split("\r\n")
        self.method = first.split(" ")[0]
        self.headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        self.message = json.loads(body) if body else None
        self.id = (self.message or {}).get("id")


class Server:
    """A server of HTTP. `answer` gets each POST, and the stream to write to."""

    def __init__(self, answer):
        self.answer = answer
        self.requests = []
        self.gone = anyio.Event()

    async def handle(self, stream):
        async with stream:
            with contextlib.suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
                while True:
                    request = await self._read(stream)
                    if request.method != "POST":
                        await respond(stream, b"", status="405 Method Not Allowed")
                        continue
                    self.requests.append(request)
                    await self.answer(request, stream)
            self.gone.set()

    async def _read(self, stream):
        data = b""
        while b"\r\n\r\n" not in data:
            data += await stream.receive()
        head, _, body = data.partition(b"\r\n\r\n")
        request = Request(head, b"")
        while len(body) < int(request.headers.get("content-length", 0)):
            body += await stream.receive()
        return Request(head, body)


async def respond(stream, body, *, kind="application/json", status=OK, **headers):
    more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{more}content-length: {len(body)}\r\n\r\n"
    await stream.send(head.encode() + body)


async def accept(stream):
    await stream.send(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n")


def texts(*told):
    """A server that answers every request with a text."""

    async def answer(request, stream):
        if request.id is None:
            await accept(stream)
        else:
            await respond(stream, result(request.id, *told))

    return answer


class Bridged:
    def __init__(self, client, server):
        self.client = client
        self.server = server
        self.over = anyio.Event()

    async def ended(self):
        with anyio.fail_after(PATIENCE):
            await self.over.wait()

    async def error(self, identity=1):
        """The message of the error that the client gets for its request."""
        answer = await self.client.message()
        assert (answer["id"], answer["error"]["message"].startswith("Server")) == (identity, False)
        return answer["error"]["message"]


@contextlib.asynccontextmanager
async def bridged(answer=None, *, headers=None, read_wait=PATIENCE):
    """A client's end of a bridge to a server that answers so; without `answer`, nobody is there."""
    client, server = End(), Server(answer)
    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(anyio.abc.SocketAttribute.local_port)
        if answer is None:
            await listener.aclose()
        made = Bridged(client, server)

        async def run():
            async with anyio.create_task_group() as tasks:
                if answer is not None:
                    tasks.start_soon(listener.serve, server.handle)
                url = f"http://127.0.0.1:{port}/mcp"
                await bridge.Bridge(client.descriptors).run(url, headers or {}, read_wait=read_wait)
                made.over.set()
                tasks.cancel_scope.cancel()

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                yield made
                client.close()
                await made.ended()
        finally:
            client.close()


# What goes to the server.


async def test_a_call_goes_to_the_server_and_its_answer_comes_back():
    async with bridged(texts("done"), headers={"authorization": f"Bearer {SECRET}"}) as both:
        await both.client.send(call(2**70, number=2**80))
        assert await both.client.message() == json.loads(result(2**70, "done"))
    (request,) = both.server.requests
    assert request.message == json.loads(call(2**70, number=2**80))
    assert request.headers["authorization"] == f"Bearer {SECRET}"


async def test_an_older_clients_version_is_in_the_headers_once_it_is_agreed():
    async def answer(request, stream):
        if request.id is None:
            await accept(stream)
        else:
            body = as_line({"id": request.id, "result": {"protocolVersion": "2025-11-25"}})
            await respond(stream, body, Mcp_Session_Id="s7")

    async with bridged(answer) as both:
        for method in ("initialize", "ping"):
            await both.client.send({"id": method, "method": method})
            await both.client.line()
    first, second = both.server.requests
    assert "mcp-protocol-version" not in first.headers
    assert (second.headers["mcp-protocol-version"], second.headers["mcp-session-id"]) == ("2025-11-25", "s7")


async def test_the_headers_of_a_newer_call_say_what_its_body_says():
    async with bridged(texts("ok")) as both:
        await both.client.send(call(2, "ä", newer=True))
        await both.client.line()
    headers = both.server.requests[0].headers
    assert (headers["mcp-protocol-version"], headers["mcp-method"]) == ("2026-07-28", "tools/call")
    assert headers["mcp-name"] == "=?base64?w6Q=?="


async def test_what_the_server_sends_before_its_answer_comes_in_order():
    async def answer(request, stream):
        events = [as_line({"method": "notifications/progress", "params": {"progress": 1e2}}), result(request.id, "x")]
        await respond(stream, b"".join(b"data: %b\r\n\r\n" % one.strip() for one in events), kind="text/event-stream")

    async with bridged(answer) as both:
        await both.client.send(call(1))
        assert (await both.client.message())["method"] == "notifications/progress"
        assert await both.client.message() == json.loads(result(1, "x"))


async def test_the_client_gets_the_answers_to_what_it_asked_before_its_end():
    waits = anyio.Event()

    async def answer(request, stream):
        await waits.wait()
        await respond(stream, result(request.id, "late"))

    async with bridged(answer) as both:
        await both.client.send(call(1))
        both.client.end()
        waits.set()
        assert await both.client.message() == json.loads(result(1, "late"))
        assert await both.client.line() == b""
        await both.ended()


async def test_a_cancelled_newer_call_is_closed_and_nobody_waits_for_it():
    async def answer(request, stream):
        await anyio.sleep_forever()

    async with bridged(answer) as both:
        await both.client.send(call(1, newer=True))
        with anyio.fail_after(PATIENCE):
            while not both.server.requests:
                await anyio.lowlevel.checkpoint()
        await both.client.send({"method": "notifications/cancelled", "params": {"requestId": 1}})
        both.client.end()
        await both.ended()


# What fails.


async def test_a_server_that_is_not_there_is_an_error_of_the_call():
    async with bridged() as both:
        await both.client.send(call(1))
        assert await both.error() == "picohook: the remote server: there is no connection to it: ConnectError"


async def drop(request, stream):
    await stream.aclose()


async def cut_json(request, stream):
    await stream.send(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{")
    await stream.aclose()


async def cut_events(request, stream):
    await stream.send(b'HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\ndata: {"jsonrpc"')
    await stream.aclose()


async def flood(request, stream):
    await respond(stream, b"x" * 2000)


async def flood_events(request, stream):
    await respond(stream, b"data: " + b"x" * 2000, kind="text/event-stream")


async def compressed(request, stream):
    await respond(stream, gzip.compress(b"x" * 2000), content_encoding="gzip")


async def broken_status(request, stream):
    await respond(stream, b"no", kind="text/plain", status="500 Broken")


async def nonsense(request, stream):
    await respond(stream, b'{"jsonrpc":')


async def no_http(request, stream):
    await stream.send(b"SSH-2.0\r\n\r\n")


async def elsewhere(request, stream):
    await respond(stream, b"", status="307 Moved", location="http://localhost:9/mcp")


async def nothing(request, stream):
    await accept(stream)


FAILURES = [
    drop, cut_json, cut_events, flood, flood_events, compressed, broken_status, nonsense, no_http, elsewhere, nothing,
]  # fmt: skip


@pytest.mark.parametrize("failing", FAILURES, ids=lambda one: one.__name__)
async def test_a_call_that_fails_gets_an_error_and_the_next_one_passes(failing, monkeypatch):
    monkeypatch.setattr(bridge, "MAX_LINE", 1000)

    async def answer(request, stream):
        await (failing if request.id == 1 else texts("ok"))(request, stream)

    async with bridged(answer, headers={"authorization": f"Bearer {SECRET}"}) as both:
        await both.client.send(call(1))
        told = await both.client.line()
        assert (json.loads(told)["id"], "error" in json.loads(told), SECRET.encode() in told) == (1, True, False)
        await both.client.send(call(2))
        assert await both.client.message() == json.loads(result(2, "ok"))


async def test_a_server_that_hangs_is_an_error_of_the_call():
    async def answer(request, stream):
        await anyio.sleep_forever()

    async with bridged(answer, read_wait=0.01) as both:
        await both.client.send(call(1))
        assert await both.error() == "picohook: the remote server: it did not answer in time"


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ("401 Unauthorized", "it answered 401 Unauthorized"),
        ("403 Forbidden", "it answered 403 Forbidden"),
        ("503 Service Unavailable", "it answered 503 Service Unavailable"),
    ],
)
async def test_a_server_that_refuses_is_an_error_that_names_its_status(status, said):
    async def answer(request, stream):
        await respond(stream, b"<html>", kind="text/html", status=status)

    async with bridged(answer) as both:
        await both.client.send(call(1))
        assert await both.error() == f"picohook: the remote server: {said}"


async def test_a_message_that_http_cannot_carry_is_refused():
    async with bridged(texts("ok")) as both:
        await both.client.send({"id": 1.5, "method": "ping"}, {"id": 2, "method": "ping"})
        assert [(await both.client.message())["id"] for _ in range(2)] == [1.5, 2]
    assert len(both.server.requests) == 1


async def test_a_line_over_the_limit_ends_the_bridge(monkeypatch):
    monkeypatch.setattr(bridge, "MAX_LINE", 100)
    async with bridged(texts("ok")) as both:
        await both.client.send(b"x" * 101)
        await both.ended()


# How a server is named.


@pytest.mark.parametrize(
    "url", ["", "example.org/mcp", "ftp://example.org", "http://", "http://u:p@example.org", "http://a b", "http://[x"]
)
def test_what_is_no_url_of_a_server_is_refused(url):
    with pytest.raises(ValueError, match=r"must be a URL|has a user"):
        remote.host_of(url)


def test_headers_get_their_secrets_from_the_environment():
    environ = {"TOKEN": SECRET, "TEAM": "x"}
    given = ["Authorization: Bearer ${TOKEN}", "X-Team:${TEAM}-${TEAM}"]
    assert remote.headers_of(given, environ) == {"Authorization": f"Bearer {SECRET}", "X-Team": "x-x"}


@pytest.mark.parametrize(
    "text", [f"Authorization: Bearer {SECRET}", SECRET, "A B: ${TOKEN}", "A: ${NONE}", "A: $TOKEN"]
)
def test_a_header_without_a_variable_is_refused_and_not_repeated(text):
    with pytest.raises(ValueError, match="environment") as raised:
        remote.headers_of([text], {"TOKEN": "x"})
    assert SECRET not in str(raised.value)


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(remote, "find_spec", lambda _: None)
    with pytest.raises(PicohookError, match=r"-m pip install 'mcp>=2.3'"):
        remote.command("http://example.org", [])

"""The hook asks a real server. `picohook_http` has to be installed."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from picohook_http.hook import UrlSpec, signature

from picohook import Host, Outcome, ToolCall

pytestmark = pytest.mark.anyio


class Server(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200 if self.headers["X-Signature"] == signature("secret", body) else 403)
        self.end_headers()
        self.wfile.write(b'{"action": "deny_tool", "reason": "not now"}')


@pytest.fixture
def url(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("GATE_KEY", "secret")
    with HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def asked(url: str, key_env: str = "GATE_KEY") -> Outcome[ToolCall]:
    async with Host([UrlSpec(name="gate", url=url, key_env=key_env, stages=("before_tool",))]) as host:
        return await host.before_tool(ToolCall(tool="bash", arguments={"command": "ls"}))


async def test_the_response_decides(url: str) -> None:
    outcome = await asked(url)
    assert (outcome.action, outcome.reason) == ("deny_tool", "not now")


@pytest.mark.parametrize("elsewhere", ["http://127.0.0.1:1", ""])
async def test_a_failure_denies(url: str, elsewhere: str) -> None:
    outcome = await asked(elsewhere or url, key_env="PATH")
    assert (outcome.action, outcome.trail[0].failure) == ("deny_tool", "unreachable")

"""Asks a person on a web page, on this machine, before a tool is called.

Run it with: python3 web_approval.py [--port NUMBER] [--open]

    [hooks.person]
    command = ["python3", "web_approval.py"]
    stages = ["approve_tool"]
    approval_timeout = 300

The address of the page is written to stderr, and so to the host's log. --open shows the page in a browser. Everyone who knows
the address can approve: it has a token, which is new at each start. A call without a decision is denied after
`approval_timeout`.
"""

from __future__ import annotations

import argparse
import hmac
import json
import secrets
import sys
import threading
import webbrowser
from html import escape
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

LONGEST_WAIT = 25.0

PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>({count}) Approve</title>
<style nonce="{nonce}">
body {{ font: 16px system-ui, sans-serif; max-width: 45rem; margin: 2rem auto; padding: 0 1rem }}
article {{ border: 1px solid #8888; border-radius: 8px; padding: 0 1rem 1rem; margin: 1rem 0 }}
pre {{ white-space: pre-wrap; overflow-wrap: anywhere }}
button, input {{ font: inherit; padding: .3rem .8rem }}
</style>
<h1>{heading}</h1>
{calls}
<script nonce="{nonce}">
addEventListener("load", async () => {{
  while ((await fetch("changes?since={version}")).status === 204);
  location.reload();
}});
</script>
</html>
"""

# Deny is the first button: Enter presses it.
CALL = """<article>
<h2>{tool}</h2>
<pre>{arguments}</pre>
<form method="post" action="decide">
<input type="hidden" name="call" value="{key}">
<input name="reason" placeholder="why not" aria-label="why not" autocomplete="off">
<button name="approved" value="no">Deny</button>
<button name="approved" value="yes">Approve</button>
</form>
</article>"""


class Desk:
    """The calls that wait for a decision."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.version = 0
        self.calls: dict[str, dict[str, Any]] = {}

    def take(self, message: Any) -> None:
        """Handle a request or an event of the host."""
        match message:
            case {"method": "hook.cancel", "params": {"id": number}}:
                self.cancel(number)
            case {"id": 0 | None}:  # an event with an id: PicoClaw's
                pass
            case {"method": "hook.approve_tool", "id": _}:
                self.ask(message)
            case {"method": "hook.hello", "id": number}:
                hello = {"ok": True, "name": "web_approval", "capabilities": {"cancel": True}}
                self.send(number, result=hello)
            case {"method": str(), "id": number}:
                self.send(number, error={"code": -32601, "message": "no such method"})

    def send(self, number: Any, **said: Any) -> None:
        with self.changed:  # one reply is written at a time
            print(json.dumps({"jsonrpc": "2.0", "id": number, **said}), flush=True)

    def ask(self, request: dict[str, Any]) -> None:
        with self.changed:
            self.calls[secrets.token_hex(8)] = request
            self._change()

    def decide(self, key: str, result: dict[str, Any]) -> bool:
        """Answer a call. Returns False if it no longer waits."""
        with self.changed:
            request = self.calls.pop(key, None)
            if request is not None:
                self.send(request["id"], result=result)
                self._change()
        return request is not None

    def cancel(self, number: Any) -> None:
        with self.changed:
            self.calls = {key: request for key, request in self.calls.items() if request["id"] != number}
            self._change()

    def wait(self, since: int) -> bool:
        """Return whether the calls have changed since this version, or change within `LONGEST_WAIT` seconds."""
        with self.changed:
            return self.changed.wait_for(lambda: self.version != since, LONGEST_WAIT)

    def page(self, nonce: str) -> str:
        with self.changed:
            calls, version = list(self.calls.items()), self.version
        return PAGE.format(
            count=len(calls),
            nonce=nonce,
            version=version,
            heading="A tool is about to be called" if calls else "No call waits for you",
            calls="\n".join(map(self._call, calls)),
        )

    def _call(self, call: tuple[str, dict[str, Any]]) -> str:
        key, request = call
        params = request.get("params") or {}
        return CALL.format(key=key, tool=shown(params.get("tool")), arguments=shown(params.get("arguments")))

    def _change(self) -> None:
        self.version += 1
        self.changed.notify_all()


def shown(value: Any) -> str:
    """Return a value as HTML, with invisible and direction-changing characters escaped."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return escape("".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text))


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, port: int, desk: Desk) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.desk = desk
        self.token = secrets.token_urlsafe(24)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        match self.place():
            case "":
                nonce = secrets.token_urlsafe(16)
                policy = (
                    f"default-src 'none'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'"
                )
                self.answer(200, self.server.desk.page(nonce), **{"Content-Security-Policy": policy})
            case "changes":
                since = parse_qs(urlsplit(self.path).query).get("since", ["0"])[0]
                self.answer(200 if self.server.desk.wait(int(since) if since.isdecimal() else -1) else 204)
            case _:
                self.answer(404)

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        # The browser names the page of a form: only our own page may decide.
        ours = self.headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        if not ours or self.place() != "decide" or not length.isdecimal() or int(length) > 64 * 1024:
            self.answer(404)
            return
        said = {name: values[0] for name, values in parse_qs(self.rfile.read(int(length)).decode()).items()}
        reason = said.get("reason", "")
        result = {"approved": False, "reason": f"the user said: {reason}" if reason else "the user said no"}
        if said.get("approved") == "yes":
            result = {"approved": True}
        if self.server.desk.decide(said.get("call", ""), result):
            self.answer(303, Location=f"/{self.server.token}/")
        else:
            self.answer(410, "This call no longer waits for an answer.")

    def place(self) -> str | None:
        """Return the requested path if the token and the host name are right; None otherwise."""
        _, token, *rest = urlsplit(self.path).path.split("/", 2)
        port = self.server.server_port
        if self.headers.get("Host") not in {f"127.0.0.1:{port}", f"localhost:{port}"} or not rest:
            return None
        return rest[0] if hmac.compare_digest(token.encode(), self.server.token.encode()) else None

    def answer(self, status: int, body: str = "", **headers: str) -> None:
        data = body.encode()
        self.send_response(status)
        more = {
            "Content-Type": "text/html; charset=utf-8",
            "Cache-Control": "no-store",
            "Referrer-Policy": "no-referrer",
        }
        for name, value in {**more, **headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as it is called there
        pass


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0, help="the port of the page; by default any free port")
    parser.add_argument("--open", action="store_true")
    given = parser.parse_args()
    desk = Desk()
    server = Server(given.port, desk)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"approve at {server.url}", file=sys.stderr, flush=True)
    if given.open:
        webbrowser.open(server.url)
    for line in sys.stdin.buffer:
        try:
            desk.take(json.loads(line))
        except (ValueError, RecursionError) as error:
            print(f"not JSON: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()

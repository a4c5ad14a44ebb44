"""The queue as a page, for people with a browser: a program of its own, which no host knows of.

The page itself holds nothing, and everybody who reaches the port may load it. Its script has the token, which its address has
behind `#`, and sends it in a header. So no other site's page can read or answer, and no log and no cookie has the token. A
signed link shows one call and answers it, without script and without the token.
"""

import hmac
import ipaddress
import json
import os
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import uvicorn
from jinja2 import Environment, FileSystemLoader
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import PicohookError
from .queue import Answer, Queue, Waiting
from .view import plain, view
from .world import judge

FILES = os.path.join(os.path.dirname(__file__), "page_files")
MOST_SHOWN = 50
"""The most calls on the page. As they are answered, others take their place."""
MOST_BYTES = 64 * 1024
"""The most bytes of an answer."""
MOST_REASON = 4000
_POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; form-action 'self'"
_HEADERS = {
    "Content-Security-Policy": f"{_POLICY}; base-uri 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # without a referrer, a form would not name its origin
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    **dict.fromkeys(("Cross-Origin-Opener-Policy", "Cross-Origin-Resource-Policy"), "same-origin"),
}


class OnlyHere:
    """Refuses requests by another name, as after DNS rebinding, and those that another site's page makes."""

    def __init__(self, app: ASGIApp, url: str, names: Iterable[str]) -> None:
        self._app = app
        self._hosts = {name.encode() for name in names}
        self._origins = {f"{urlsplit(url).scheme}://{name}".encode() for name in names}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), value.encode()) for name, value in _HEADERS.items()]
            await send(message)

        said = dict(scope["headers"])
        site = said.get(b"sec-fetch-site", b"none")
        is_ours = said.get(b"host") in self._hosts and said.get(b"origin", next(iter(self._origins))) in self._origins
        # A link in a mail or a chat comes from another site, and only shows.
        if is_ours and (site in {b"none", b"same-origin"} or (scope["method"] == "GET" and b"origin" not in said)):
            await self._app(scope, receive, with_headers)
        else:
            await PlainTextResponse("This page is not for other sites.", 403)(scope, receive, with_headers)


class Page:
    """The page of one queue. Its methods are the endpoints."""

    def __init__(self, queue: Queue, token: str) -> None:
        self._queue, self._token = queue, token
        templates = Environment(loader=FileSystemLoader(FILES), autoescape=True, trim_blocks=True, lstrip_blocks=True)
        self._card, self._page = templates.get_template("card.html"), templates.get_template("page.html")
        self._cards: dict[str, str] = {}

    def app(self, url: str, names: Iterable[str]) -> ASGIApp:
        """The page as an ASGI application, with its address and all names by which a browser may ask for it."""
        routes = [
            Route("/", lambda _: HTMLResponse(self._page.render(is_list=True))),
            Route("/favicon.ico", lambda _: Response(status_code=204)),
            Route("/calls", self.calls),
            Route("/call/{id}", self.call, methods=["GET", "POST"]),
            Mount("/", StaticFiles(directory=os.path.join(FILES, "static"))),
        ]
        refused: Any = dict.fromkeys((PicohookError, LookupError, ValueError, HTTPException), _refused)
        return OnlyHere(Starlette(routes=routes, exception_handlers=refused), url, names)

    async def calls(self, request: Request) -> Response:
        """The calls that wait, if they differ from those of the version that the page has."""
        if not self._has_token(request):
            raise HTTPException(401, "the token is missing: open the address that picohook has printed")
        self._queue.remove_dead()
        version = str(self._queue.version())
        if version == request.query_params.get("since"):
            return JSONResponse({"version": version})
        waiting = self._queue.waiting(MOST_SHOWN)
        self._cards = {one.id: self._cards.get(one.id) or self._rendered(one) for one in waiting}
        calls = [{"id": one.id, "until": one.until, "html": self._cards[one.id]} for one in waiting]
        return JSONResponse({"version": version, "count": self._queue.count(), "calls": calls})

    async def call(self, request: Request) -> Response:
        """Show one call, or answer it, by the token or by the signed link of this call.

        A GET changes nothing: programs that show previews fetch links.
        """
        call, by = request.path_params["id"], "the page" if self._has_token(request) else "a link"
        key = request.query_params.get("key", "")
        if by == "a link" and not hmac.compare_digest(key.encode(), self._queue.signature(call).encode()):
            raise HTTPException(403, "this link is not valid")
        if request.method == "POST":
            said = dict(parse_qsl((await _body(request)).decode(), keep_blank_values=True))
            self._take(call, said, f"{by}, from {request.client and request.client.host}")
        waiting = self._queue.find(call)
        if "whole" in request.query_params and waiting.is_waiting:
            return PlainTextResponse(plain(waiting.call.decode("utf-8", "replace")))
        if by == "the page":
            return JSONResponse({"end": plain(waiting.end)})
        shown = self._rendered(waiting) if waiting.is_waiting else ""
        return HTMLResponse(self._page.render(card=shown, end="" if shown else plain(waiting.end)))

    def _take(self, call: str, said: Mapping[str, str], by: str) -> None:
        """Answer a call. Raises for what is no clear answer, and for a grant that was not offered with the call."""
        yes, grant = {"yes": True, "no": False}[said["answer"]], None
        if yes and said.get("grant"):
            offered = {json.dumps(one, sort_keys=True): one for _, one in view(self._queue.find(call)).offers}
            try:
                grant = offered[json.dumps(json.loads(said["grant"]), sort_keys=True)]
            except (ValueError, KeyError, RecursionError):
                raise PicohookError("the yes is for calls that were not offered: choose again") from None
        self._queue.answer(call, Answer(yes, said.get("reason", "").strip()[:MOST_REASON], by, grant))

    def _rendered(self, waiting: Waiting) -> str:
        return self._card.render(call=view(waiting), key=self._queue.signature(waiting.id))

    def _has_token(self, request: Request) -> bool:
        said = request.headers.get("authorization", "")
        return hmac.compare_digest(said.encode(), f"Bearer {self._token}".encode())


def _refused(_: Request, error: Exception) -> Response:
    """The response to a request without the token, to what is no clear answer, and to one that came too late."""
    if isinstance(error, HTTPException):
        return JSONResponse({"error": error.detail}, error.status_code)
    if isinstance(error, PicohookError):
        return JSONResponse({"error": plain(str(error))}, 409)
    return JSONResponse({"error": "this is no answer"}, 400)


async def _body(request: Request) -> bytes:
    """The body. Raises `ValueError` if it is too long."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > MOST_BYTES:
            raise ValueError
    return body


def place_of(bound: socket.socket, name: str, *, encrypted: bool) -> tuple[str, frozenset[str]]:
    """The page's address, which ends in a slash, and the names by which a browser may ask for it."""
    host, port = bound.getsockname()[:2]
    end = "" if port == (443 if encrypted else 80) else f":{port}"
    names = [name, host, *["localhost"] * ipaddress.ip_address(host).is_loopback]
    places = [f"[{one}]{end}" if ":" in one else f"{one}{end}" for one in names]
    return f"http{'s' * encrypted}://{places[0]}/", frozenset(places)


def serve(bound: socket.socket, tell: Callable[[str], None], *, name: str, certificate: str, key: str) -> None:
    """Serve the page until a signal. `tell` gets its address with the token. Raises `PicohookError`."""
    queue, token = Queue(present=True), secrets.token_urlsafe(24)
    url, names = place_of(bound, name, encrypted=bool(certificate))
    try:
        # No log of requests: it would have the keys of links.
        quiet: Any = {"log_config": None, "log_level": "critical", "access_log": False, "server_header": False}
        limits: Any = {"lifespan": "off", "limit_concurrency": 256, "timeout_graceful_shutdown": 1}
        tls: Any = {"ssl_certfile": certificate or None, "ssl_keyfile": key or None}
        config = uvicorn.Config(Page(queue, token).app(url, names), **quiet, **limits, **tls)
        config.load()
        judge()  # now, and not when the first call waits
        queue.serve(url)
        tell(f"{url}#{token}")
        uvicorn.Server(config).run(sockets=[bound])
    finally:
        queue.close()

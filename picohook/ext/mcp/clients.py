"""Puts `picohook mcp` before the servers in the configuration of an MCP client, and takes it away again."""

from __future__ import annotations

import os
import re
import shutil
import sys
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ...errors import PicohookError
from . import remote
from .client_files import ClientFile

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...cli.settings_files import Member
    from .client_files import Entry, New, Place

URLS = ("url", "httpUrl", "serverUrl")
"""The keys under which clients have the URL of a server."""
HEADERS = ("headers", "http_headers", "env_http_headers", "bearer_token_env_var")
"""The keys under which they have headers. The last three are Codex's; two of them name variables of the environment."""
SIGN_IN = ("oauth", "auth", "authProviderType", "headersHelper", "scopes", "oauth_resource")
"""The keys with which a client signs in to a server by itself."""
PROBE_WAIT = 5.0
"""Seconds in which a remote server is to answer whether it can be reached without the client."""
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


class Changes(NamedTuple):
    """The changes to the servers of a client."""

    changed: list[str]
    left: dict[str, str]
    """The servers that are not guarded, and why."""


class _Remote(NamedTuple):
    """A remote server of a client, in a common form."""

    url: str
    headers: dict[str, str]
    """The server's headers, as the client has them."""
    named: dict[str, str]
    """The server's headers with a variable of the client's environment, such as `Bearer ${TOKEN}`."""


class _NotGuardedError(Exception):
    """Says why a server cannot be guarded."""


def put_before(path: Path, options: Sequence[str]) -> Changes:
    """Put `picohook mcp` with these options before each server. Raises `PicohookError`."""
    file = ClientFile.read(path)
    new: dict[Place, New] = {}
    left = dict.fromkeys(file.unreachable, "it is not in a table of its own: write it as [mcp_servers.NAME]")
    open_ones = [server for server in file.servers if _unwrapped(server.value, toml=file.toml) is None]
    for server in open_ones:
        try:
            entry = _wrapped(server, options, toml=file.toml)
        except _NotGuardedError as error:
            left[server.name] = str(error)
        else:
            new[server.place] = entry, file.text_of(server, entry)
    if new:
        file.replace(new, keep=file.with_texts(_undone(file)))
    return Changes([place[-1] for place in new], left)


def take_away(path: Path) -> list[str]:
    """Take `picohook mcp` away from all servers. Returns their names. Raises `PicohookError`.

    A server that was not changed since gets the text that it had.
    """
    file = ClientFile.read(path)
    new, before = _undone(file), file.before()
    for server in file.servers:
        own = _unwrapped(server.value, toml=file.toml)
        if own is not None and server.place not in new and server.place not in before:
            new[server.place] = own, file.text_of(server, own)
    if new:
        file.replace(new)
    return [place[-1] for place in new]


def _undone(file: ClientFile) -> dict[Place, New]:
    """The servers to which `put_before` did this, without it. Those that were guarded by hand before are not among them."""
    before = file.before()
    undone = {}
    for server in file.servers:
        own, was = _unwrapped(server.value, toml=file.toml), before.get(server.place)
        if own is not None and was is not None and _unwrapped(was[0], toml=file.toml) is None:
            undone[server.place] = was if _meaning(was[0]) == _meaning(own) else (own, file.text_of(server, own))
    return undone


def _picohook() -> list[str]:
    """The command of this program with absolute paths: clients do not start their servers with a shell's PATH.

    They start them in the project, whose modules do not take the place of picohook's (`-P`).
    """
    found = shutil.which("picohook")
    return [os.path.abspath(found)] if found else [sys.executable, "-P", "-m", "picohook"]


# To put it there.


def _wrapped(server: Member, options: Sequence[str], *, toml: bool) -> Entry:
    """The entry with `picohook mcp`. Raises `_NotGuardedError`."""
    entry = server.value
    own = _picohook()
    before = [*own[1:], "mcp", *options, "--name", re.sub(r"[^\w.-]", "-", server.name)]
    command, arguments = entry.get("command"), entry.get("args", [])
    if type(command) is dict and type(command.get("path")) is str:  # as older versions of Zed have it
        inside = [command["path"], *(command.get("args") or [])]
        return {**entry, "command": {**command, "path": own[0], "args": [*before, "--", *inside]}}
    if type(command) is str and type(arguments) is list:
        return {**entry, "command": own[0], "args": [*before, "--", command, *arguments]}
    found = _remote_of(entry)
    if found is None:
        raise _NotGuardedError("picohook sees neither its command nor its URL")
    _require_takeable(entry, found)
    more: Entry = {"type": "stdio"} if "type" in entry else {}
    more |= {"command": own[0], "args": [*before, "--url", found.url]}
    variables = {}
    for name, value in found.headers.items():
        variable = remote.variable_of(name)
        if variable in variables:
            raise _NotGuardedError(f"two of its headers are {variable} in the environment")
        variables[variable] = value
        more["args"] += ["--header", name]
    for name, value in found.named.items():
        more["args"] += ["--header", f"{name}: {value}"]
    if variables:
        more["env"] = {**(entry.get("env") or {}), **variables}
    if toml and found.named:  # Codex gives its servers only the variables that are named
        more["env_vars"] = sorted({name for value in found.named.values() for name in remote.VARIABLE.findall(value)})
    dropped = {"type", *URLS, *HEADERS}
    return {name: value for name, value in entry.items() if name not in dropped} | more


def _remote_of(entry: Entry) -> _Remote | None:
    """The remote server of an entry; None if it is not one."""
    url = next((entry[key] for key in URLS if type(entry.get(key)) is str), None)
    if url is None:
        return None
    headers: dict[str, Any] = {}
    for key in ("headers", "http_headers"):
        headers |= entry.get(key) or {}
    named = {name: f"${{{variable}}}" for name, variable in (entry.get("env_http_headers") or {}).items()}
    if token := entry.get("bearer_token_env_var"):
        named["Authorization"] = f"Bearer ${{{token}}}"
    return _Remote(url, {name: str(value) for name, value in headers.items()}, named)


def _require_takeable(entry: Entry, found: _Remote) -> None:
    """Raise `_NotGuardedError` if `picohook mcp --url` cannot be in the client's place."""
    for key in SIGN_IN:
        if entry.get(key):
            raise _NotGuardedError(f"the client signs in to it by itself ({key}), which picohook cannot")
    if entry.get("type") == "sse" or ("type" not in entry and found.url.rstrip("/").endswith("/sse")):
        raise _NotGuardedError("it speaks SSE, the older form of HTTP, and picohook speaks streamable HTTP only")
    if "?" in found.url:
        raise _NotGuardedError("its URL has a query, and others could see a secret in it on the command line")
    with_variable = "${" in found.url
    try:
        remote.command(found.url, ())
        if not with_variable:
            remote.host_of(found.url)
    except (PicohookError, ValueError) as error:
        raise _NotGuardedError(f"its URL {error}" if isinstance(error, ValueError) else str(error)) from None
    for name in (*found.headers, *found.named):
        if not remote.HEADER.fullmatch(name):
            raise _NotGuardedError(f"{name!r} is not the name of a header")
    if not with_variable:
        _require_open(found)


def _require_open(found: _Remote) -> None:
    """Ask the server, without any secret, whether it takes messages. Raises `_NotGuardedError` if it says no."""
    kinds = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    request = urllib.request.Request(found.url, PING, kinds)  # noqa: S310 - `host_of` lets only HTTP through
    try:
        with urllib.request.urlopen(request, timeout=PROBE_WAIT):  # noqa: S310 - likewise
            return
    except urllib.error.HTTPError as error:
        status = error.code
        error.close()
    except (OSError, HTTPException, ValueError):
        return  # it may be started later
    if status in {401, 403} and not found.headers and not found.named:
        raise _NotGuardedError(
            f"it answers {status} without a header, so the client signs in to it by itself, which picohook cannot"
        )
    if status in {404, 405}:
        raise _NotGuardedError(f"it does not speak streamable HTTP there: it answers {status}")


# To take it away.


def _unwrapped(entry: Entry, *, toml: bool) -> Entry | None:
    """The entry without `picohook mcp`; None if it does not have it."""
    command, arguments = entry.get("command"), entry.get("args")
    if type(command) is dict:
        inside = _unwrapped({"command": command.get("path"), "args": command.get("args")}, toml=toml)
        return inside and {**entry, "command": {**command, "path": inside["command"], "args": inside["args"]}}
    if type(arguments) is not list or not all(type(one) is str for one in arguments) or "mcp" not in arguments[:4]:
        return None
    at = arguments.index("mcp")
    program = [command, *arguments[:at]]
    if Path(str(command)).name != "picohook" and program[-2:] != ["-m", "picohook"]:
        return None
    if "--" in arguments[:-1]:
        own = arguments[arguments.index("--") + 1 :]
        return {**entry, "command": own[0], "args": own[1:]}
    if "--url" not in arguments[:-1]:
        return None
    return _unwrapped_remote(entry, arguments[arguments.index("--url") + 1 :], toml=toml)


def _unwrapped_remote(entry: Entry, arguments: Sequence[str], *, toml: bool) -> Entry:
    """The entry of a remote server, in the words that most clients have for it, or in Codex's."""
    own = {name: value for name, value in entry.items() if name not in {"type", "command", "args", "env", "env_vars"}}
    variables = dict(entry.get("env") or {})
    headers, named = {}, {}
    for option, text in zip(arguments[1::2], arguments[2::2], strict=False):
        name, _, value = text.partition(": ")
        if option == "--header" and value:
            named[name] = value
        elif option == "--header":
            headers[name] = variables.pop(remote.variable_of(name), "")
    if "type" in entry:
        own["type"] = "http"
    own["url"] = arguments[0]
    own |= {"env": variables} if variables else {}
    own |= {"http_headers" if toml else "headers": headers} if headers else {}
    token = re.fullmatch(r"Bearer \$\{(\w+)\}", named.pop("Authorization", ""))
    own |= {"bearer_token_env_var": token[1]} if token else {}
    return own | ({"env_http_headers": {name: value[2:-1] for name, value in named.items()}} if named else {})


def _meaning(entry: Entry) -> Any:
    """Returns the meaning of an entry: two entries with the same meaning start the same server."""
    found = _remote_of(entry)
    if found is not None and "command" not in entry:
        dropped = {"type", *URLS, *HEADERS}
        return found, {name: value for name, value in entry.items() if name not in dropped}
    return {**entry, "args": entry.get("args", [])}

"""A remote MCP server: its URL, its headers, and the command that connects to it."""

import re
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from urllib.parse import urlsplit

from ...errors import PicohookError
from ...wire.extras import needs

HEADER = re.compile(r"([!#$%&'*+.^`|~\w-]+):\s*(.*\$\{\w+\}.*)", re.ASCII)
VARIABLE = re.compile(r"\$\{(\w+)\}", re.ASCII)


def command(url: str, headers: Sequence[str]) -> list[str]:
    """Returns the command of a program that passes its input to the server at a URL, and prints the answers.

    Raises `PicohookError` if the extra `mcp` is not installed.
    """
    if find_spec("mcp_types") is None:
        raise PicohookError(needs("a remote MCP server", "the package mcp", "mcp"))
    return [sys.executable, "-P", "-m", f"{__package__}.bridge", url, *headers]


def host_of(url: str) -> str:
    """The host in the URL of a server. Raises `ValueError` if it is no such URL."""
    try:
        parts = urlsplit(url)
        host = parts.hostname if parts.scheme in {"http", "https"} and parts.port != 0 else None
    except ValueError:
        host = None
    if not host or any(ord(letter) <= ord(" ") for letter in url):
        raise ValueError('must be a URL, such as "https://example.com/mcp"')
    if parts.username is not None or parts.password is not None:
        raise ValueError("has a user or a password in it: use --header")
    return host


def headers_of(lines: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The headers in texts such as `Authorization: Bearer ${TOKEN}`, with the values of the environment.

    Raises `ValueError`, and does not repeat what may be a secret.
    """
    headers = {}
    for text in lines:
        found = HEADER.fullmatch(text)
        if found is None:
            raise ValueError(
                "must be 'NAME: VALUE' with a variable of the environment in it, such as 'Authorization: Bearer ${TOKEN}'"
            )
        for name in VARIABLE.findall(found[2]):
            if not environ.get(name):
                raise ValueError(f"names ${{{name}}}, and the environment has no such variable")
        headers[found[1]] = VARIABLE.sub(lambda one: environ[one[1]], found[2])
    return headers

"""Asks a handler at a URL: posts its input, and returns the answer."""

import re
from collections.abc import Mapping, Sequence

import anyio

from ...errors import HookCrashedError, HookReplyError, HookTimeoutError
from ...wire.extras import needs

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))")


def filled(headers: Mapping[str, str], allowed: Sequence[str], environ: Mapping[str, str]) -> dict[str, str]:
    """The headers with the variables that they may name replaced by their values. Any other variable is empty."""

    def value(found: re.Match[str]) -> str:
        name = found[1] or found[2]
        return environ.get(name, "") if name in allowed else ""

    return {name: _VARIABLE.sub(value, text) for name, text in headers.items()}


async def post(url: str, headers: Mapping[str, str], body: bytes, *, within: float, limit: int) -> str:
    """Returns the body of a good answer. Raises `HookError` for any other, or without an answer. Follows no redirect."""
    try:
        import httpx  # an extra
    except ImportError:
        raise HookCrashedError(needs("it is asked over HTTP, which", "httpx", "openai")) from None
    with anyio.move_on_after(within):
        try:
            tls = await anyio.to_thread.run_sync(httpx.create_ssl_context) if url.startswith("https:") else False
            data = bytearray()
            async with (
                httpx.AsyncClient(verify=tls, timeout=None) as client,  # noqa: S113 - the scope ends it
                client.stream(
                    "POST", url, content=body, headers={"content-type": "application/json", **headers}
                ) as response,
            ):
                if not response.is_success:
                    raise HookReplyError(f"its URL answered {response.status_code}")
                async for part in response.aiter_bytes():
                    data += part
                    if len(data) > limit:
                        raise HookReplyError(f"its URL answered with more than {limit} bytes")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise HookCrashedError(f"its URL cannot be asked: {str(error) or type(error).__name__}") from None
        return bytes(data).decode("utf-8", "replace")
    raise HookTimeoutError("its URL did not answer in time")

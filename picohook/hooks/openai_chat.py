"""A `complete` for hooks that ask a model, over httpx. It works with every OpenAI-compatible chat endpoint.

::

    complete = openai_chat("https://api.openai.com/v1", os.environ["OPENAI_API_KEY"], model="gpt-4o-mini")
    async with Host.from_config("picohook.toml", complete=complete) as host: ...

Needs the extra `openai`.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..wire.extras import how_to_install
from ..wire.text import cut, escape

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

TIMEOUT = 60.0
SHOWN = 200
"""Bytes of an endpoint's error text that an exception shows."""


def openai_chat(
    base_url: str, api_key: str | None = None, *, model: str, timeout: float = TIMEOUT, **options: Any
) -> Callable[[str, str | None], Awaitable[str]]:
    """A function that sends a prompt as one user message to `base_url`/chat/completions, and returns the text of the answer.

    `model` is for hooks that do not name one. `options` are sent with every request: temperature, max_tokens, ... A request
    ends at `timeout`, or at the hook's deadline. The function raises `PicohookError`; the error never has the key in it.
    """
    try:
        import httpx  # noqa: PLC0415 - an extra
    except ImportError:
        raise PicohookError(f"openai_chat needs httpx: {how_to_install('openai')}") from None
    url = f"{base_url.rstrip('/')}/chat/completions"
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    tls = httpx.create_ssl_context()

    async def complete(prompt: str, of_model: str | None = None) -> str:
        body = {**options, "model": of_model or model, "messages": [{"role": "user", "content": prompt}]}
        try:
            async with httpx.AsyncClient(verify=tls, timeout=timeout) as client:
                response = await client.post(url, json=body, headers=headers)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PicohookError(f"{url} cannot be asked: {str(error) or type(error).__name__}") from None
        if not response.is_success:
            text = escape(cut(response.text, SHOWN))
            raise PicohookError(f"{url} answered {response.status_code}: {text}")
        return _text(response.content, url)

    return complete


def _text(body: bytes, url: str) -> str:
    try:
        text = json.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise PicohookError(f"{url} answered with no text: choices[0].message.content is not a string")
    return text

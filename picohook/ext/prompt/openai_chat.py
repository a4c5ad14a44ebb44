"""A `complete` for hooks that ask a model, over httpx. It works with every OpenAI-compatible chat endpoint.

::

    complete = openai_chat("https://api.openai.com/v1", os.environ["OPENAI_API_KEY"], model="gpt-4o-mini")
    async with Host.from_config("picohook.toml", complete=complete) as host: ...

Needs the extra `openai`.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from ...errors import PicohookError
from ...protocol.codec import load
from ...wire.extras import needs
from ...wire.text import cut, escape
from .model_prompt import ModelPrompt

TIMEOUT = 60.0
SHOWN_OF_ERROR = 200
"""Bytes of an endpoint's error text that an exception shows."""
_UNKNOWN_FORM = frozenset({400, 422, 501})
"""The statuses with which endpoints answer that lack structured output."""


def openai_chat(
    base_url: str, api_key: str | None = None, *, model: str, timeout: float = TIMEOUT, **options: Any
) -> Callable[[str, str | None], Awaitable[str]]:
    """A function that sends a prompt to `base_url`/chat/completions, and returns the text of the answer.

    The instruction of a hook's prompt is the system message, its data are the user's message, and the answer has to fit its
    schema. An endpoint that lacks this gets the prompt as one user message, as it gets any other text.

    `model` is for hooks that do not name one. `options` are sent with every request: temperature, max_tokens, ... A request
    ends at `timeout`, or at the hook's deadline. The function raises `PicohookError`; the error never has the key in it.
    """
    try:
        import httpx  # an extra
    except ImportError:
        raise PicohookError(needs("openai_chat", "httpx", "openai")) from None
    url = f"{base_url.rstrip('/')}/chat/completions"
    headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
    tls = httpx.create_ssl_context()
    of_text_alone: set[str] = set()
    """The models that lack structured output."""

    async def complete(prompt: str, of_model: str | None = None) -> str:
        name = of_model or model
        bodies: list[dict[str, Any]] = [{"messages": [{"role": "user", "content": prompt}]}]
        if isinstance(prompt, ModelPrompt) and name not in of_text_alone:
            bodies.insert(0, _in_parts(prompt))
        try:
            async with httpx.AsyncClient(verify=tls, timeout=timeout) as client:
                for body in bodies:
                    response = await client.post(url, json={**body, **options, "model": name}, headers=headers)
                    if response.status_code not in _UNKNOWN_FORM:
                        break
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise PicohookError(f"{url} cannot be asked: {str(error) or type(error).__name__}") from None
        if not response.is_success:
            text = escape(cut(response.text, SHOWN_OF_ERROR))
            raise PicohookError(f"{url} answered {response.status_code}: {text}")
        if body is not bodies[0]:
            of_text_alone.add(name)
        return _text(response.content, url)

    return complete


def _in_parts(prompt: ModelPrompt) -> dict[str, Any]:
    parts = {"system": prompt.instruction, "user": prompt.data}
    schema = {"name": "answer", "strict": True, "schema": prompt.schema}
    return {
        "messages": [{"role": role, "content": text} for role, text in parts.items()],
        "response_format": {"type": "json_schema", "json_schema": schema},
    }


def _text(body: bytes, url: str) -> str:
    try:
        text = load(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError, RecursionError):
        text = None
    if not isinstance(text, str):
        raise PicohookError(f"{url} answered with no text: choices[0].message.content is not a string")
    return text

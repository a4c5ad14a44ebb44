"""Turns the result of an MCP tool into the `ToolResult` that hooks see, and back. Pure."""

from typing import Any

from ...model.conversation import content_of
from ...model.payloads import ToolResult
from ...protocol.codec import decode_value, encode
from .messages import RESULT, UNSEEN, same_names


def shown(response: dict[str, Any]) -> ToolResult:
    """The result in a response as hooks see it: nothing that the model may read is left out. Raises `ValueError`.

    Texts are joined to `for_llm`, followed by the structured content unless they repeat it. All other blocks are `media`.
    """
    if "error" in response:
        error = response["error"]
        return ToolResult(for_llm=str(error.get("message") if type(error) is dict else error), is_error=True)
    result = response["result"]
    if type(result) is not dict or (why := same_names(result, RESULT)):
        raise ValueError("it is not an object" if type(result) is not dict else why)
    if unseen := [name for name in UNSEEN if name in result]:
        raise ValueError(f"hooks cannot be shown its `{unseen[0]}`")
    blocks = result.get("content", [])
    if type(blocks) is not list or not all(type(block) is dict for block in blocks):
        raise ValueError("its content is not a list of objects")
    text = "\n".join(block["text"] for block in blocks if _is_text(block))
    structured = result.get("structuredContent")
    if structured is not None and not _repeats(structured, text):
        text = f"{text}\n{encode(structured).decode()}".lstrip("\n")
    media = [block for block in blocks if not _is_text(block)]
    return ToolResult(for_llm=text, is_error=bool(result.get("isError")), media=media)


def _is_text(block: dict[str, Any]) -> bool:
    # With other members, such as annotations, it is still a text: hooks that read texts must not miss it.
    return block.get("type") == "text" and type(block.get("text")) is str


def made(result: ToolResult, *, newer: bool) -> dict[str, Any]:
    """A result by hooks, as one of MCP. `newer`: the request was one of the newer protocol."""
    text = content_of(result)
    blocks = [{"type": "text", "text": text}] if text or not result.media else []
    blocks += [_block(one) for one in result.media]
    return {
        **({"resultType": "complete"} if newer else {}),
        "content": blocks,
        **({"isError": True} if result.is_error else {}),
    }


def _block(media: Any) -> dict[str, Any]:
    if type(media) is dict and type(media.get("type")) is str:
        return media
    return {"type": "text", "text": media if type(media) is str else encode(media).decode()}


def edited(response: dict[str, Any], before: ToolResult, after: ToolResult, *, newer: bool) -> dict[str, Any]:
    """The result of a tool as hooks left it.

    Structured content has to match the text: if the text was changed, it is read from the new text, or left out.
    """
    was = response.get("result") or {}
    result = {name: value for name, value in was.items() if name not in RESULT} | made(after, newer=newer)
    structured = was.get("structuredContent")
    if structured is not None:
        if after.for_llm != before.for_llm:
            structured = _structured(after.for_llm, structured)
        if structured is not None:
            result["structuredContent"] = structured
    return result


def _repeats(structured: Any, text: str) -> bool:
    """Whether the text repeats the structured content, as MCP asks servers to do."""
    if _is_wrapped(structured) and structured["result"] == text:
        return True
    value = _value(text)
    return bool(value == structured or (_is_wrapped(structured) and structured["result"] == value))


def _structured(text: str, like: Any) -> Any:
    """The structured content in a text, if it has the form of this one; else None."""
    value = _value(text)
    if _is_wrapped(like) and not _is_wrapped(value):
        inside = value if type(value) is type(like["result"]) else text
        return {"result": inside} if type(inside) is type(like["result"]) else None
    return value if type(value) is type(like) else None


def _is_wrapped(value: Any) -> bool:
    """Whether it is a value that is no object, as SDKs wrap it."""
    return type(value) is dict and value.keys() == {"result"}


def _value(text: str) -> Any:
    try:
        return decode_value(text.encode())
    except ValueError:
        return text

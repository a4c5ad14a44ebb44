"""The results of tools in the shapes that Claude Code's tools return."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ....errors import PicohookError
from ....protocol.codec import load

if TYPE_CHECKING:
    from ..tools import ShownCall


def response(call: ShownCall, text: str) -> Any:
    """A tool's result, in the shape that Claude Code gives the results of this tool."""
    path = call.input.get("file_path")
    match call.tool:
        case "Bash":
            return {"stdout": text, "stderr": "", "interrupted": False, "isImage": False}
        case "Read":
            return {"type": "text", "file": {"filePath": path, "content": text}}
        case "Write" | "Edit":
            return {"filePath": path, "success": True, "content": text}
    return [{"type": "text", "text": text}] if call.tool.startswith("mcp__") else {"content": text}


def text_in(output: Any) -> str | None:
    """The text of a tool's result in one of the shapes that tools have; None if it has none of them."""
    if isinstance(output, str):
        return output
    if isinstance(output, list) and all(
        isinstance(part, dict) and isinstance(part.get("text"), str) for part in output
    ):
        return "\n".join(part["text"] for part in output)
    if not isinstance(output, dict):
        return None
    if isinstance(output.get("stdout"), str):
        return "\n".join(filter(None, (output["stdout"], output.get("stderr") or "")))
    inner = output.get("file") if isinstance(output.get("file"), dict) else output
    content = inner.get("content") if isinstance(inner, dict) else None
    return text_in(content) if isinstance(content, str | list) else None


def reshaped(tool: str, response: Any, text: str) -> Any:
    """A tool's response with another text. Raises `PicohookError` if the text does not fit the response."""
    match response:
        case str():
            return text
        case [*blocks] if blocks and all(isinstance(block, dict) and block.get("type") == "text" for block in blocks):
            return [{"type": "text", "text": text}]
        case {"stdout": str(), "stderr": str()}:
            return {**response, "stdout": text, "stderr": ""}
        case {"file": {"content": str()}}:
            return {**response, "file": {**response["file"], "content": text}}
        case {"content": str()}:
            return {**response, "content": text}
    try:
        value = load(text)
    except ValueError:
        value = None
    if type(value) is not type(response) or (isinstance(value, dict) and value.keys() != response.keys()):
        raise PicohookError(f"{tool}: a hook changed the result to a form that this tool does not return")
    return value


def text_of_output(output: Any, names: tuple[str, ...] = ()) -> str:
    """The text in a tool's output: of its blocks, streams or file; the output as JSON if it has no text."""
    if isinstance(output, dict):
        inner = next((output[name] for name in names if output.get(name) is not None), None)
        if inner is not None:
            return text_of_output(inner)
    text = text_in(output)
    return text if text is not None else "" if output is None else json.dumps(output, ensure_ascii=False, default=str)

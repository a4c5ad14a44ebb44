"""The texts in the results of tools, in the shapes that vendors' tools have."""

from __future__ import annotations

import json
from typing import Any


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


def text_of_output(output: Any, names: tuple[str, ...] = ()) -> str:
    """The text in a tool's output: of its blocks, streams or file; the output as JSON if it has no text."""
    if isinstance(output, dict):
        inner = next((output[name] for name in names if output.get(name) is not None), None)
        if inner is not None:
            return text_of_output(inner)
    text = text_in(output)
    return text if text is not None else "" if output is None else json.dumps(output, ensure_ascii=False, default=str)

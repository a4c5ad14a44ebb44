"""Removes secrets from the arguments and results of tools, and from the answers of the model.

Run it with: python3 redactor.py [--flat] [--patterns FILE]

FILE has more patterns: one regular expression on each line. The part of a match in a group named `keep` is kept.

PicoClaw needs an edited result together with all other params. picohook also accepts the result alone: --flat sends it
this way.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

SECRETS = [
    r"\bsk-[A-Za-z0-9_-]{12,}",  # OpenAI, Anthropic
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",  # AWS
    r"\bgh[pousr]_[A-Za-z0-9]{36,}|\bgithub_pat_\w{22,}",
    r"\bglpat-[A-Za-z0-9_-]{20,}",
    r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",  # Slack
    r"\bAIza[A-Za-z0-9_-]{35}",  # Google
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+",  # a JSON web token
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    r"(?P<keep>\b(?i:bearer) )[A-Za-z0-9._~+/-]{16,}=*",
    r"(?P<keep>\b[a-z][a-z0-9+.-]*://[^\s/:@]*:)[^\s/@]+(?=@)",  # in a URL
    r"""(?P<keep>(?i:password|passwd|secret|api[_-]?key|access[_-]?token)["']?\s?[:=]\s?["']?)[^\s"',;]+""",
]


class Redactor:
    def __init__(self, patterns: list[str]) -> None:
        self.patterns = [re.compile(pattern, re.DOTALL) for pattern in patterns]

    def redact(self, value: Any) -> Any:
        """Return the value with every secret in it replaced, at any depth."""
        if isinstance(value, str):
            for pattern in self.patterns:
                value = pattern.sub(replacement, value)
            return value
        if isinstance(value, list):
            return [self.redact(item) for item in value]
        if isinstance(value, dict):
            return {key: self.redact(item) for key, item in value.items()}
        return value


def replacement(match: re.Match[str]) -> str:
    return f"{match.groupdict().get('keep') or ''}[redacted]"


class Hook:
    def __init__(self, redactor: Redactor, *, flat: bool) -> None:
        self.redact = redactor.redact
        self.flat = flat

    def edited(self, params: dict[str, Any], part: str, keys: tuple[str, ...]) -> dict[str, Any]:
        """Return the answer with these keys of a part of the params redacted; `continue` if there are no secrets."""
        found = params.get(part) or {}
        clean = {**found, **{key: self.redact(found[key]) for key in keys if key in found}}
        if clean == found:
            return {"action": "continue"}
        return {"action": "modify", part: clean if self.flat else {**params, part: clean}}

    def before_tool(self, call: dict[str, Any]) -> dict[str, Any]:
        clean = self.redact(call.get("arguments"))
        if clean == call.get("arguments"):
            return {"action": "continue"}
        return {"action": "modify", "call": {**call, "arguments": clean}}

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "hook.hello":
                return {"ok": True, "name": "redactor"}
            case "hook.before_tool":
                return self.before_tool(params)
            case "hook.after_tool":
                return self.edited(params, "result", ("for_llm", "for_user"))
            case "hook.after_llm":
                # It skips tool_calls, whose arguments are JSON in a string: before_tool gets them decoded.
                return self.edited(params, "response", ("content",))
        return None


def patterns_in(file: str) -> list[str]:
    with open(file, encoding="utf-8") as lines:
        return [line for line in lines.read().splitlines() if line.strip() and not line.startswith("#")]


def serve(answer: Callable[[str, dict[str, Any]], dict[str, Any] | None]) -> None:
    """Answer each line of the host. A line that is not a message is skipped; a method without an answer is refused."""
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            print(f"not JSON: {error}", file=sys.stderr)
            continue
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            continue
        result = answer(message["method"], message.get("params") or {})
        if message.get("id"):  # 0 or none: an event, which has no answer
            refusal = {"error": {"code": -32601, "message": "no such method"}}
            said = refusal if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--patterns", metavar="FILE")
    given = parser.parse_args()
    more = patterns_in(given.patterns) if given.patterns else []
    hook = Hook(Redactor([*more, *SECRETS]), flat=given.flat)
    serve(hook.answer)


if __name__ == "__main__":
    main()

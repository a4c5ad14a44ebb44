"""Keeps tools inside one directory and away from some files, and limits a shell to listed commands.

Run it with: python3 path_guard.py [POLICY.toml]

before_tool denies a call with a path that is outside the policy's root, or that the policy denies. approve_tool approves other
calls, but a shell command only if it is a plain call of a listed program. Without a policy the root is GUARD_ROOT, or the
hook's working directory if that is not set. A policy with every setting:

    root = "workspace"                         # relative to the policy's directory
    deny = [".env", ".git", "*.pem", "a/b/*"]  # without a slash: at any depth, with everything in it
    commands = ["ls", "git status"]            # the first words of commands that a shell may run
    shells = ["bash"]                          # tools that take a command
    path_arguments = ["path", "file"]          # arguments that are paths
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tomllib
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True)
class Policy:
    root: str
    deny: tuple[str, ...] = ()
    commands: tuple[str, ...] = ("cat", "date", "echo", "grep", "head", "ls", "pwd", "tail", "wc")
    shells: tuple[str, ...] = ("bash", "shell", "exec")
    path_arguments: tuple[str, ...] = ("path", "file", "file_path", "directory")

    def stray(self, paths: list[Any]) -> str | None:
        """Return why one of these paths is not allowed, or None."""
        for path in paths:
            given = os.path.normpath(os.path.join(self.root, str(path)))
            try:
                real = os.path.realpath(given)
            except ValueError as error:  # a NUL character
                return f"{path!r} cannot be a path: {error}"
            if os.path.commonpath([real, self.root]) != self.root:
                return f"{path} is outside the workspace"
            for name in (real, given):
                pattern = self.denied(os.path.relpath(name, self.root))
                if pattern:
                    return f"{path} is denied by {pattern}"
        return None

    def denied(self, path: str) -> str | None:
        """Return the pattern that denies a path, or None."""
        for pattern in self.deny:
            if any(fnmatchcase(name, pattern) for name in ([path] if "/" in pattern else path.split(os.sep))):
                return pattern
        return None

    def harm(self, command: str) -> str | None:
        """Return why this shell command is not allowed, or None."""
        if re.search(r"[;&|<>$`\\(){}*?\[\n]", command):
            return "only a single plain command can be approved"
        try:
            words = shlex.split(command)
        except ValueError as error:
            return f"the command cannot be read: {error}"
        if not any(words[: len(allowed)] == allowed for allowed in map(str.split, self.commands)):
            return f"{words[0] if words else 'an empty command'} is not on the list of harmless commands"
        return self.stray([path for word in words[1:] for path in paths_of(word)])

    def reason_to_deny(self, call: dict[str, Any]) -> str | None:
        arguments = call.get("arguments") or {}
        paths = [arguments[name] for name in self.path_arguments if name in arguments]
        return self.stray(paths + (call.get("affected_paths") or []))

    def reason_to_refuse(self, call: dict[str, Any]) -> str | None:
        # The paths are checked again: a later hook may have changed the call since before_tool.
        reason = self.reason_to_deny(call)
        if reason is None and call["tool"] in self.shells:
            return self.harm(str((call.get("arguments") or {}).get("command", "")))
        return reason

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        match method:
            case "hook.hello":
                return {"ok": True, "name": "path_guard"}
            case "hook.before_tool":
                reason = self.reason_to_deny(params)
                return {"action": "deny_tool", "reason": reason} if reason else {"action": "continue"}
            case "hook.approve_tool":
                reason = self.reason_to_refuse(params)
                return {"approved": False, "reason": reason} if reason else {"approved": True}
        return None


def paths_of(word: str) -> list[str]:
    """Return the possible paths in a word of a command: the word, or the value of an option, as in --file=PATH and -fPATH."""
    if not word.startswith("-"):
        return [os.path.expanduser(word)]
    found = [word[word.index("/") :]] if "/" in word else []
    return [*found, os.path.expanduser(word.split("=", 1)[1])] if "=" in word else found


def load(file: str) -> Policy:
    with open(file, "rb") as stream:
        said = tomllib.load(stream)
    lists = {field.name for field in fields(Policy)} - {"root"}
    for name, value in said.items():
        if name not in {*lists, "root"}:
            raise SystemExit(f"{file}: there is no {name!r} in a policy")
        if name in lists and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise SystemExit(f"{file}: {name} is a list of strings")
    root = os.path.join(os.path.dirname(os.path.abspath(file)), said.pop("root", "."))
    return Policy(os.path.realpath(root), **{name: tuple(value) for name, value in said.items()})


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
    policy = load(sys.argv[1]) if len(sys.argv) > 1 else Policy(os.path.realpath(os.environ.get("GUARD_ROOT", ".")))
    serve(policy.answer)


if __name__ == "__main__":
    main()

"""Runs the steps of requirements with a process of the hook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ..wire import words
from .answer_checks import HELLO_ID, Expectations, ReceivedAnswer
from .manifest import filled
from .outcome import Failed, Skipped, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from .manifest import Manifest, Requirement
    from .process import HookProcess


MOVED_BELOW = 1000
MOVED_BY = 10_000
"""Ids of requests below 1000 move by this for each earlier script, so that no two scripts of a conversation have the same."""


class Conversation:
    """Plays the scripts of requirements with one process of the hook, one after another."""

    def __init__(self, process: HookProcess, manifest: Manifest) -> None:
        self._process = process
        self._manifest = manifest
        self._payloads = manifest.data["payloads"]
        self._terms = Expectations()
        self._played = 0
        self._moved = 0
        """The number that is added to the running script's ids."""
        self._asked: dict[int, Mapping[str, Any]] = {}
        self._greeted_at = 0
        """The number of lines that the hook had written when it had answered hook.hello."""

    @property
    def methods(self) -> dict[int, str]:
        """The methods of the requests, by id."""
        return {request_id: message["method"] for request_id, message in self._asked.items()}

    def play(self, requirement: Requirement, expectations: Expectations) -> None:
        """Greet the hook, if that was not done yet, and do the steps. Raises `Failed` or `Skipped`."""
        self._terms = expectations
        self._moved = self._played * MOVED_BY
        self._played += 1
        if self._played == 1:
            hello = requirement.vector.get("hello", {**self._manifest.data["hello"], "modes": list(expectations.modes)})
            self._write([{"jsonrpc": "2.0", "id": HELLO_ID, "method": words.HELLO, "params": hello}])
            self._expect(HELLO_ID, {"like": "reply"})
            self._greeted_at = len(self._process.lines)
        for step in requirement.vector["steps"]:
            match step:
                case {"text": text}:
                    self._process.write(text.encode())
                case {"hex": digits}:
                    self._process.write(bytes.fromhex(digits))
                case {"close": _}:
                    self._process.close()
                case {"signal": name}:
                    self._process.signal(name)
                case {"write": messages}:
                    self._write(messages)
                case {"ask": questions}:
                    self._write([message for question in questions for message in self._questions(question)])
                case {"expect": first}:
                    self._expect(first, step)
                case {"ended": _}:
                    self._require_end(step)

    def _id(self, request_id: int) -> int:
        """The id that a request of the running script has on the wire."""
        return request_id + self._moved if HELLO_ID < request_id < MOVED_BELOW else request_id

    # Steps that send.

    def _write(self, messages: list[dict[str, Any]]) -> None:
        """Send these messages in one write, one message a line."""
        lines = []
        for message in filled(messages, self._payloads):
            if "id" in message and "method" in message:
                message["id"] = self._id(message["id"])
                self._asked[message["id"]] = message
            if "id" in message:
                self._process.sent.append(message["id"])
            lines.append(json.dumps(message, ensure_ascii=False, separators=(",", ":")))
        self._process.write("".join(f"{line}\n" for line in lines).encode())

    def _questions(self, question: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Yields the requests for a stage, with the payload of the file and the fields of the question."""
        for offset in range(question.get("times", 1)):
            yield {
                "jsonrpc": "2.0",
                "id": question["id"] + offset,
                "method": f"hook.{question['stage']}",
                "params": {**self._payloads[question["stage"]], **question.get("with", {})},
            }

    # Steps that check.

    def _expect(self, first: int, step: Mapping[str, Any]) -> None:
        """Check the answer with this id, or `times` answers from it on. Raises `Skipped` if all checks are skipped."""
        skipped: Skipped | None = None
        passed = 0
        for request_id in range(self._id(first), self._id(first) + step.get("times", 1)):
            question = self._asked[request_id]
            message = self._process.reply(request_id)
            if message is None:
                if step.get("if_any") and self._played == 1:  # otherwise an earlier script may be why
                    raise Skipped("it does not answer")
                raise Failed(f"an answer to {question['method']} with id {request_id}", self._process.silence)
            answer = ReceivedAnswer(message, self._process, question, step, self._terms)
            try:
                getattr(answer, f"like_{step['like']}")()
                passed += 1
            except Skipped as caught:
                skipped = caught
        if skipped is not None and not passed:
            raise skipped

    def _require_end(self, step: Mapping[str, Any]) -> None:
        """Check that the process ends, with one of the exit codes if the step names some."""
        code = self._process.ended()
        if "codes" not in step:
            if code is None:
                raise Failed("its end", f"it still runs after {self._process.grace:g} seconds")
        elif code is None:
            raise Skipped("it does not end")
        elif code not in step["codes"]:
            raise Failed(f"exit code {' or '.join(map(str, step['codes']))}", f"it ended with {code}")

    def require_quiet(self) -> None:
        """Raise `Failed` if there is an answer to anything but a request: the step `quiet`. Call it after the hook's end."""
        asked = {request_id for request_id in self._asked if request_id > 0}
        for message in (line.message for line in self._process.lines[self._greeted_at :]):
            if message is None or "method" in message:
                continue
            if type(message.get("id")) is not int or message["id"] not in asked:
                raise Failed("no other answer", f"it answered {shown(message)}")

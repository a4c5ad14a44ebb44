"""Plays the host in tests of hooks: for a `HookApp` in memory, or for a hook's process.

::

    from gate import app
    from picohook.sdk import testing

    def test_it_denies():
        with testing.client(app) as hook:
            assert hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}}).denied

    def test_it_denies_as_a_process():
        with testing.process(["python3", "gate.py"]) as hook:
            assert hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}}).denied

It needs only the standard library. A process may be a hook in any language. To test a program that embeds a host, use
`picohook.testing`.
"""

from __future__ import annotations

import json
import os
import threading
from typing import TYPE_CHECKING, Any, Self

from ..wire import words
from ..wire.pipes import Pipes, Started
from .answers import Answer, AnswerError, BrokenHookError
from .calls import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .app import HookApp

__all__ = ["Answer", "AnswerError", "BrokenHookError", "Client", "Process", "client", "process"]

TIMEOUT = 10.0
"""Seconds for an answer, and for the end of the hook."""


class Client:
    """A conversation with a hook: an app in a thread of this process, behind real pipes. The block greets and ends it.

    Each stage has a method, which asks the hook about a payload and returns its `Answer`. It raises `AnswerError` for an
    error, and `BrokenHookError` if there is no usable answer. The payload gets `meta`, `channel` and `chat_id` if it has none.
    """

    def __init__(self, timeout: float, app: HookApp | None = None) -> None:
        self.timeout = timeout
        self._app = app
        self.greeting: dict[str, Any] = {}
        """The hook's answer to `hook.hello`: its name and capabilities."""
        self.told: list[dict[str, Any]] = []
        """The notifications that the hook sent, `host.log` and `host.progress`, in order."""
        self._asked: dict[int, tuple[str, dict[str, Any]]] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self._rest = b""
        self._open = False

    def __enter__(self) -> Self:
        self._pipes = self._start()
        self._open = True
        modes = dict.fromkeys([words.OBSERVE, *(call.mode for call in STAGES.values())])
        hello = {"name": "test", "version": words.VERSION, "modes": list(modes)}
        try:
            self.greeting = self.answer(self._request("hello", hello))
            if self.greeting.get("ok") is False:
                raise BrokenHookError(f"the hook refused to serve: {self.greeting.get('reason', '')}")
        except BaseException:
            self._end(in_order=False)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._end(in_order=kind is None)

    # The stages.

    def __getattr__(self, stage: str) -> Callable[[Mapping[str, Any]], Answer]:
        """Each stage as a method that asks it: `client.before_tool({"tool": "bash"})`."""
        if stage not in STAGES:
            raise AttributeError(f"there is no stage {stage!r}: {', '.join(STAGES)}")
        return lambda payload: self.answer(self.ask(stage, payload))

    def event(
        self, kind: str, payload: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Send an event, which has no answer. The hook handles it before any later request."""
        self._send({"method": words.EVENT, "params": {"Kind": kind, "Meta": meta or {}, "Payload": payload or {}}})

    # Several at once.

    def ask(self, stage: str, payload: Mapping[str, Any]) -> int:
        """Send a request without waiting. Returns its number for `answer`. Raises `ValueError` for an unknown stage."""
        if stage not in STAGES:
            raise ValueError(f"unknown stage {stage!r}: use one of {', '.join(STAGES)}")
        return self._request(stage, {"meta": {}, "channel": "", "chat_id": "", **payload})

    def answer(self, number: int) -> Answer:
        """Wait for the answer to a request. Raises `AnswerError` for an error, `BrokenHookError` for no usable answer."""
        if not self._until(lambda: number in self._answers):
            raise self._broken("no answer")
        match self._answers.pop(number):
            case {"error": {"code": int(code), "message": str(said)}}:
                raise AnswerError(code, said)
            case {"result": dict() | None as result}:
                return Answer(*self._asked.pop(number), result or {})
            case message:
                raise BrokenHookError(f"the hook's answer has no result and no error: {json.dumps(message)[:300]}")

    def cancel(self, number: int) -> None:
        """Cancel a request."""
        self._send({"method": words.CANCEL, "params": {"id": number, "reason": "the test stopped waiting"}})

    def close(self) -> None:
        """Close the hook's input, read the rest of its output, and wait for its end. Leaving the block does this too.

        Raises `BrokenHookError` if the hook does not end in time.
        """
        self._end(in_order=True)

    def _end(self, *, in_order: bool) -> None:
        """End the conversation, after an error without waiting for the hook."""
        if not self._open:
            return
        self._open = False
        try:
            self._end_input()
            if in_order:
                self._until(lambda: False)
            if in_order and not self._pipes.over:
                raise self._broken("the hook did not end")
        finally:
            self._release()

    # How the hook runs, which `Process` changes.

    def _start(self) -> Pipes:
        """Start the hook."""
        app = self._app
        assert app is not None
        (stdin, self._writes), (self._reads, stdout) = os.pipe(), os.pipe()

        def serve() -> None:
            try:
                app.serve(stdin, stdout)
            finally:
                os.close(stdin)
                os.close(stdout)

        threading.Thread(target=serve, daemon=True, name=app.name).start()
        return Pipes(self._reads, self._writes, self._take)

    def _end_input(self) -> None:
        os.close(self._writes)

    def _release(self) -> None:
        """Close everything else."""
        os.close(self._reads)

    def _last_words(self) -> str:
        """Returns the hook's last line on stderr, for an error's message."""
        return ""

    # Lines.

    def _request(self, stage: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._asked[self._number] = stage, params
        self._send({"id": self._number, "method": f"hook.{stage}", "params": params})
        return self._number

    def _send(self, message: dict[str, Any]) -> None:
        data = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n"
        try:
            if self._pipes.write(data, self.timeout):
                return
        except BrokenPipeError:
            self._until(lambda: False)  # read what it wrote before it ended
            raise self._broken("the hook closed its input, and did not end") from None
        raise self._broken("the hook did not read its input")

    def _until(self, done: Callable[[], bool]) -> bool:
        return self._pipes.until(done, self.timeout)

    def _take(self, chunk: bytes) -> None:
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
                if "method" in message:
                    self.told.append(message)
                else:
                    self._answers[message["id"]] = message
            except (ValueError, LookupError, TypeError):
                raise BrokenHookError(f"the hook wrote a line that is not a message: {line[:300]!r}") from None

    def _broken(self, what: str) -> BrokenHookError:
        why = f"the hook ended{self._last_words()}" if self._pipes.over else f"{what} within {self.timeout:g} s"
        return BrokenHookError(why)


class Process(Client):
    """A hook's process. Its stderr is kept. Its process group is killed when the block ends."""

    def __init__(
        self, command: Sequence[str], *, cwd: str | None, env: Mapping[str, str] | None, timeout: float
    ) -> None:
        super().__init__(timeout)
        self.exit_code: int | None = None
        """As in `subprocess`; None while the process runs."""
        self._command = command
        self._cwd = cwd
        self._env = env
        self._written = ""

    def _start(self) -> Pipes:
        self._hook = Started(self._command, self._take, cwd=self._cwd, env=self._env)
        return self._hook.pipes

    @property
    def stderr(self) -> str:
        """The output of the process on stderr so far."""
        return self._written if self.exit_code is not None else self._hook.stderr

    def _last_words(self) -> str:
        line = self.stderr.strip().rpartition("\n")[2]
        return f"; its stderr ends with: {line}" if line else ""

    def _end_input(self) -> None:
        self._hook.stdin.close()

    def _release(self) -> None:
        try:
            if self._pipes.over and self._hook.wait(self.timeout) is None:
                raise self._broken("the hook closed its output, and did not end")
        finally:
            self._written = self._hook.stderr
            self._hook.close()
            self.exit_code = self._hook.process.returncode


def client(app: HookApp, *, timeout: float = TIMEOUT) -> Client:
    """Returns a conversation with this app, which runs in a thread of the test's own process."""
    return Client(timeout, app)


def process(
    command: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> Process:
    """Returns a conversation with the process of this command. `cwd` and `env` are those of `subprocess`."""
    return Process(command, cwd=cwd, env=env, timeout=timeout)

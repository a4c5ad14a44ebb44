"""For a hook's own tests: the host's end of the conversation, with a `HookApp` in memory or with a hook's real process.

::

    from gate import app
    from picohook.sdk import testing

    def test_it_denies():
        with testing.client(app) as hook:
            assert hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}}).denied

    def test_it_denies_as_a_process():
        with testing.process(["python3", "gate.py"]) as hook:
            assert hook.before_tool({"tool": "bash", "arguments": {"command": "rm -rf /"}}).denied

Standard library only. A process may be a hook in any language. What is for programs that embed a host is `picohook.testing`.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import tempfile
import threading
import time
from typing import TYPE_CHECKING, Any, Self

from ..wire import words
from .answers import Answer, AnswerError, BrokenHookError
from .calls import STAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from .app import HookApp

__all__ = ["Answer", "AnswerError", "BrokenHookError", "Client", "Process", "client", "process"]

TIMEOUT = 10.0
"""Seconds for an answer, and for the end. Long enough for any hook that is well; nothing waits that long for one that is."""

CHUNK = 64 * 1024


class Client:
    """A conversation with a hook. It is greeted when the block is entered, and ended when it is left.

    There is a method for each stage, which asks the hook about a payload and returns its `Answer`, or raises `AnswerError`.
    What every host sends along (`meta`, `channel`, `chat_id`) is added where the payload has none.
    """

    def __init__(self, timeout: float) -> None:
        self.timeout = timeout
        self.greeting: dict[str, Any] = {}
        """What the hook answered to `hook.hello`: its name, its capabilities."""
        self.told: list[dict[str, Any]] = []
        """What it told the host by itself, `host.log` and `host.progress`, in order."""
        self._asked: dict[int, tuple[str, dict[str, Any]]] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._number = 0
        self._rest = b""
        self._reads = self._writes = -1
        self._open = self._over = False

    def __enter__(self) -> Self:
        self._reads, self._writes = self._start()
        self._open = True
        for end in (self._reads, self._writes):
            os.set_blocking(end, False)
        try:
            self._greet()
        except BaseException:
            self._abandon()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._abandon()
        else:
            self.close()

    def _greet(self) -> None:
        modes = dict.fromkeys([words.OBSERVE, *(call.mode for call in STAGES.values())])
        hello = {"name": "test", "version": words.VERSION, "modes": list(modes)}
        self.greeting = self.answer(self._request("hello", hello))
        if self.greeting.get("ok") is False:
            raise BrokenHookError(f"it refused to serve: {self.greeting.get('reason', '')}")

    # The stages.

    def __getattr__(self, stage: str) -> Callable[[Mapping[str, Any]], Answer]:
        """Each stage as a method that asks it: `client.before_tool({"tool": "bash"})`."""
        if stage not in STAGES:
            raise AttributeError(f"there is no stage {stage!r}: {', '.join(STAGES)}")
        return lambda payload: self.answer(self.ask(stage, payload))

    def event(
        self, kind: str, payload: Mapping[str, Any] | None = None, *, meta: Mapping[str, Any] | None = None
    ) -> None:
        """Tell it of an event. Nothing comes back; what is asked afterwards is answered after it was taken."""
        self._send({"method": words.EVENT, "params": {"Kind": kind, "Meta": meta or {}, "Payload": payload or {}}})

    # Several at once.

    def ask(self, stage: str, payload: Mapping[str, Any]) -> int:
        """Ask without waiting; `answer` takes what this returns."""
        if stage not in STAGES:
            raise ValueError(f"there is no stage {stage!r}: {', '.join(STAGES)}")
        return self._request(stage, {"meta": {}, "channel": "", "chat_id": "", **payload})

    def answer(self, number: int) -> Answer:
        """Wait for the answer to a question."""
        if not self._until(lambda: number in self._answers):
            raise self._broken("no answer")
        match self._answers.pop(number):
            case {"error": {"code": int(code), "message": str(said)}}:
                raise AnswerError(code, said)
            case {"result": dict() | None as result}:
                return Answer(*self._asked.pop(number), result or {})
            case message:
                raise BrokenHookError(f"it answered what is no answer: {json.dumps(message)[:300]}")

    def cancel(self, number: int) -> None:
        """Tell it that nobody waits for this answer any more."""
        self._send({"method": words.CANCEL, "params": {"id": number, "reason": "the test stopped waiting"}})

    def close(self) -> None:
        """End its input, take what it still says, and wait for its end. Leaving the block does this as well."""
        if not self._open:
            return
        self._open = False
        try:
            self._end_input()
            self._until(lambda: False)
            if not self._over:
                raise self._broken("it did not end")
        finally:
            self._release()

    def _abandon(self) -> None:
        """Be rid of it, however it is."""
        if self._open:
            self._open = False
            self._end_input()
            self._release()

    # What the kinds of client do, each in its way.

    def _start(self) -> tuple[int, int]:
        """Start the hook: where to read from it, and where to write to it."""
        raise NotImplementedError

    def _end_input(self) -> None:
        """Close what it reads from."""
        raise NotImplementedError

    def _release(self) -> None:
        """Close what it writes to, and what else there is of it."""
        raise NotImplementedError

    def _last_words(self) -> str:
        """What it said elsewhere, for an error's message."""
        return ""

    # Lines.

    def _request(self, stage: str, params: dict[str, Any]) -> int:
        self._number += 1
        self._asked[self._number] = stage, params
        self._send({"id": self._number, "method": f"hook.{stage}", "params": params})
        return self._number

    def _send(self, message: dict[str, Any]) -> None:
        left = memoryview(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False).encode() + b"\n")

        def written() -> bool:
            nonlocal left
            try:
                left = left[os.write(self._writes, left) :]
            except BlockingIOError:
                pass
            except BrokenPipeError:
                self._until(lambda: False)  # what it said before it ended
                raise self._broken("it reads no more, and did not end") from None
            return not left

        if not self._until(written, writing=True):
            raise self._broken("it did not read")

    def _until(self, done: Callable[[], bool], *, writing: bool = False) -> bool:
        """Take what it writes, until this is so, it has ended, or the time is over. Whether it is so."""
        deadline = time.monotonic() + self.timeout
        while not done():
            if self._over:
                return False
            poll = select.poll()
            poll.register(self._reads, select.POLLIN)
            if writing:
                poll.register(self._writes, select.POLLOUT)
            ready = {end for end, _ in poll.poll(max(0.0, deadline - time.monotonic()) * 1000)}
            if self._reads in ready:
                self._read()
            if not ready:
                return False
        return True

    def _read(self) -> None:
        chunk = os.read(self._reads, CHUNK)
        self._over = not chunk
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
                if "method" in message:
                    self.told.append(message)
                else:
                    self._answers[message["id"]] = message
            except (ValueError, LookupError, TypeError):
                raise BrokenHookError(f"it wrote what is no message: {line[:300]!r}") from None

    def _broken(self, what: str) -> BrokenHookError:
        return BrokenHookError(f"it ended{self._last_words()}" if self._over else f"{what} within {self.timeout:g} s")


class _InMemory(Client):
    """The app in a thread of this process, behind real pipes: all that is left out is the process."""

    def __init__(self, app: HookApp, timeout: float) -> None:
        super().__init__(timeout)
        self._app = app

    def _start(self) -> tuple[int, int]:
        (stdin, writes), (reads, stdout) = os.pipe(), os.pipe()
        serve = threading.Thread(target=self._serve, args=(stdin, stdout), daemon=True, name=self._app.name)
        serve.start()
        return reads, writes

    def _serve(self, stdin: int, stdout: int) -> None:
        try:
            self._app.serve(stdin, stdout)
        finally:
            os.close(stdin)
            os.close(stdout)

    def _end_input(self) -> None:
        os.close(self._writes)

    def _release(self) -> None:
        os.close(self._reads)


class Process(Client):
    """A hook's process. Standard error is kept; what is left of it when the block is left is killed."""

    def __init__(
        self, command: Sequence[str], *, cwd: str | None, env: Mapping[str, str] | None, timeout: float
    ) -> None:
        super().__init__(timeout)
        self.exit_code: int | None = None
        """As in `subprocess`, once it has ended."""
        self._command = command
        self._cwd = cwd
        self._env = env
        self._said = b""

    def _start(self) -> tuple[int, int]:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the process
        try:
            self._process = subprocess.Popen(  # noqa: S603 - a test's own command
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self._cwd,
                env=self._env,
                bufsize=0,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        return stdout.fileno(), stdin.fileno()

    @property
    def stderr(self) -> str:
        """What it wrote to standard error so far."""
        if not self._errors.closed:
            # At an offset: reading on would move the place at which the process writes.
            self._said = os.pread(self._errors.fileno(), os.fstat(self._errors.fileno()).st_size, 0)
        return self._said.decode("utf-8", "backslashreplace")

    def _last_words(self) -> str:
        words = self.stderr.strip().rpartition("\n")[2]
        return f"; it said: {words}" if words else ""

    def _end_input(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()

    def _release(self) -> None:
        try:
            if self._over:
                self.exit_code = self._process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            raise self._broken("it closed its output, and did not end") from None
        finally:
            self._kill()
            if self._process.stdout is not None:
                self._process.stdout.close()
            self._said = self.stderr.encode()
            self._errors.close()

    def _kill(self) -> None:
        """All of its group, whose number is its own until it is waited for."""
        if self.exit_code is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self.exit_code = self._process.wait()


def client(app: HookApp, *, timeout: float = TIMEOUT) -> Client:
    """A conversation with this app, in a thread of the test's own process."""
    return _InMemory(app, timeout)


def process(
    command: Sequence[str],
    *,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = TIMEOUT,
) -> Process:
    """A conversation with a hook's process, in whatever language. `cwd` and `env` are those of `subprocess`."""
    return Process(command, cwd=cwd, env=env, timeout=timeout)

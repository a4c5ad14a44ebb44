"""A hook in a process of its own: `python -m picohook.ext.record.served` asks it, and is a hook of the host that starts it."""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
import sys
from typing import Any

from ...cli.host import own_streams
from ...host import Host
from ...model.spec import HookSpec
from ...model.stages import STAGES
from ...protocol.codec import decode_own, encode
from ...wire import words
from ..nats.answers import answer_of

_STAGES = {stage.method: stage for stage in STAGES.values()}
_SPEC = "PICOHOOK_SERVED"
_NICENESS = 10
_PATIENCE = 60.0
"""Seconds in which a quiet one has to start."""
_ITS_OWN = (
    *("stages", "observe", "events", "timeout", "approval_timeout", "timeouts", "respond", "may_edit", "on_failure"),
    *("layer", "source", "depth", "priority", "after", "filter", "dir"),
)


def plain(spec: HookSpec) -> HookSpec:
    """Returns the settings without the keys that extensions add to every hook."""
    kind = getattr(spec, "KIND", type(spec))
    made: HookSpec = kind.model_construct(
        _fields_set=spec.model_fields_set & kind.model_fields.keys(),
        **{name: getattr(spec, name) for name in kind.model_fields},
    )
    return made


def served(spec: HookSpec, *, quiet: bool = False) -> HookSpec:
    """Returns the settings of a process that asks this hook. A `quiet` one leaves the processor to others, and logs nothing."""
    inside = plain(spec).model_copy(update={"filter": None, "after": (), "fallback": None, "guard": False})
    text = base64.b64encode(pickle.dumps((inside, quiet))).decode()
    return HookSpec.model_construct(
        **{name: getattr(spec, name) for name in _ITS_OWN},
        name=spec.name,
        hello_timeout=_PATIENCE if quiet else spec.hello_timeout,
        # -P: no file of the working directory takes the place of a module.
        command=(sys.executable, "-P", "-m", __name__),
        inherit_env=True,
        env={_SPEC: text},
    )


def main() -> None:
    """Serve the host that started this process."""
    spec, quiet = pickle.loads(base64.b64decode(os.environ.pop(_SPEC)))  # noqa: S301 - from the process that started this one
    if quiet:
        os.nice(_NICENESS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    lines, answers = own_streams()
    asyncio.run(_Served(spec, lines, answers).run())


class _Served:
    """A host with this hook alone, and the requests of the host that started this process."""

    def __init__(self, spec: HookSpec, lines: int, answers: int) -> None:
        self._spec = spec
        self._lines, self._answers = lines, answers
        self._host = Host([spec])
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Answer until the host closes its end."""
        reader = asyncio.StreamReader(limit=self._spec.max_line_bytes + words.MAX_LINE)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(self._lines, "rb"))
        async with self._host:
            while line := await reader.readline():
                request = decode_own(line)
                task = asyncio.ensure_future(
                    self._take(request["method"], request.get("id"), request.get("params") or {})
                )
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
            for task in self._tasks:
                task.cancel()

    async def _take(self, method: str, number: Any, params: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": number}
        if method in {words.EVENT, words.RUNTIME_EVENT}:
            kind = params.get("Kind") or params.get("kind") or ""
            self._host.emit(kind, params.get("Payload") or params.get("payload"))
        elif method == words.HELLO:
            self._write({**answer, "result": {"ok": True, "name": self._spec.name, "capabilities": {"ping": True}}})
        elif method in _STAGES:
            stage = _STAGES[method]
            payload: Any = stage.payload.model_validate(params)
            outcome = await self._host.ask(stage.name, payload)
            (entry,) = outcome.trail
            if entry.failure is None:
                self._write({**answer, "result": answer_of(stage, payload, outcome)})
            else:
                self._write({**answer, "error": {"code": -32000, "message": f"{entry.failure}: {entry.error}"}})
        elif number is not None:
            self._write({**answer, "result": {}})  # a ping

    def _write(self, answer: dict[str, Any]) -> None:
        data = memoryview(encode(answer) + b"\n")
        while data:
            data = data[os.write(self._answers, data) :]


if __name__ == "__main__":
    main()

"""A hook in a process of its own: `python -m picohook.ext.record.served` asks it, and is a hook of the host that starts it."""

from __future__ import annotations

import base64
import os
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TYPE_CHECKING, Any

from ...cli.host import own_streams
from ...errors import HookError
from ...host import Host
from ...model.spec import HookSpec
from ...model.stages import STAGES
from ...protocol.codec import decode_own, encode
from ...wire import words
from ..nats.answers import answer_of
from ..vendors import dialogue

if TYPE_CHECKING:
    from ...blocking import BlockingHost

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
    streams = own_streams()  # before anything of the hook is imported
    writing = Lock()
    with (
        os.fdopen(streams[0], "rb") as lines,
        os.fdopen(streams[1], "wb") as answers,
        Host.blocking([spec]) as host,
        ThreadPoolExecutor() as threads,
    ):

        def answer(request: dict[str, Any]) -> None:
            dialogue.CURRENT.set(dialogue.Dialogue("", asks=True, cwd=os.getcwd()))  # what would be asked is no denial
            try:
                said = {"result": _result(host, spec.name, request["method"], request.get("params") or {})}
            except HookError as error:
                said = {"error": {"code": -32000, "message": str(error)}}
            with writing:
                answers.write(encode({"jsonrpc": "2.0", "id": request["id"], **said}) + b"\n")
                answers.flush()

        for line in lines:
            request = decode_own(line)
            if request["method"] in {words.EVENT, words.RUNTIME_EVENT}:
                event = {name.lower(): value for name, value in request["params"].items()}
                host.emit(event["kind"], event.get("payload"))
            elif "id" in request:
                threads.submit(answer, request)


def _result(host: BlockingHost, name: str, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Returns the hook's answer. Raises `HookError` if it failed."""
    if method == words.HELLO:
        return {"ok": True, "name": name, "capabilities": {"ping": True}}
    if method not in _STAGES:
        return {}  # a ping
    stage = _STAGES[method]
    payload = stage.payload.model_validate(params)
    outcome = host.ask(stage.name, payload)
    (entry,) = outcome.trail
    if entry.failure is not None:
        raise HookError(f"{entry.failure}: {entry.error}")
    return answer_of(stage, payload, outcome)


if __name__ == "__main__":
    main()

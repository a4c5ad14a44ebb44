"""A hook in a process of its own: `python -m picohook.ext.record.served` asks it, and is a hook of the host that starts it."""

from __future__ import annotations

import asyncio
import base64
import os
import pickle
import sys
from typing import TYPE_CHECKING, Any

from ...errors import HookError
from ...host import Host
from ...model.spec import HookSpec
from ...model.stages import STAGES
from ...sdk.app import HookApp
from ..nats.answers import answer_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

_SPEC = "PICOHOOK_SERVED"
_NICENESS = 19
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
    app = HookApp(spec.name)
    asked = _Asked(spec)
    for stage in spec.asked_at:
        getattr(app, stage)(asked.handler(stage))
    if spec.observe:
        app.on_event(asked.told)
    app.on_shutdown(asked.close)
    app.run()


class _Asked:
    """A host with this hook alone, which is entered when it is first asked."""

    def __init__(self, spec: HookSpec) -> None:
        self._host = Host([spec])
        self._entering: asyncio.Task[Host] | None = None

    async def _entered(self) -> Host:
        if self._entering is None:
            self._entering = asyncio.ensure_future(self._host.__aenter__())
        return await asyncio.shield(self._entering)

    def handler(self, name: str) -> Callable[[Any], Awaitable[Any]]:
        """Returns the handler of a stage."""
        stage = STAGES[name]

        async def handle(call: Any) -> Any:
            host = await self._entered()
            payload: Any = stage.payload.model_validate(dict(call.params))
            outcome = await host.ask(name, payload)
            (entry,) = outcome.trail
            if entry.failure is not None:
                raise HookError(f"{entry.failure}: {entry.error}")
            return answer_of(stage, payload, outcome)

        return handle

    async def told(self, event: Any) -> None:
        """Tell the hook of an event."""
        (await self._entered()).emit(event.kind, dict(event.payload))

    async def close(self) -> None:
        """Stop the hook."""
        if self._entering is not None:
            await (await self._entering).__aexit__(None, None, None)


if __name__ == "__main__":
    main()

"""The sidecar's methods: the stages, events, sessions and turns, and those of the control socket."""

from ....rpc.dispatch import Method, Params
from ...control.control import CONTROL_METHODS
from .context import SidecarContext
from .sessions import SESSION_METHODS
from .stages import STAGE_METHODS
from .tool_calls import TOOL_METHODS


async def _shutdown(context: SidecarContext, _: Params) -> bool:
    context.end()
    return True


METHODS = (
    *STAGE_METHODS,
    *SESSION_METHODS,
    *TOOL_METHODS,
    *CONTROL_METHODS,
    Method("shutdown", _shutdown),
)
"""Every method of the sidecar."""

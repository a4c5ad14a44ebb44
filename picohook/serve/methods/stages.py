"""The sidecar's methods for stages and events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from ...model.events import known_kind
from ...model.payloads import NO_META, Meta, Payload
from ...model.stages import STAGES
from ...protocol.codec import encode
from ..server.dispatch import TRUE, Method, Params
from ..server.jsonrpc import NOT_OPEN, RETRY_LIMIT

if TYPE_CHECKING:
    from ...model.decisions import Outcome
    from ...model.stages import Stage
    from ..server.dispatch import Schema
    from .context import SidecarContext


def _method_of(stage: Stage[Any]) -> Method:
    async def ask(context: SidecarContext, payload: Payload) -> bytes:
        turn = context.turns.get(payload.meta.turn_id)
        if turn is not None:
            return outcome_json(await turn.ask(stage, payload))
        context.require_hooks_of(payload.meta)
        host = context.host_of(payload.meta)
        outcome: Outcome[Any] = await getattr(host, stage.name)(payload)
        host.note_hard_abort(outcome)
        return outcome_json(outcome)

    summary = f"Ask the hooks at {stage.name}; the params are its payload."
    errors = (NOT_OPEN, RETRY_LIMIT)
    return Method(stage.name, summary, ask, stage.payload, _outcome_of(stage.payload.__name__), errors)


def _outcome_of(payload: str) -> Schema:
    of_stage = {"properties": {"payload": {"$ref": f"#/components/schemas/{payload}"}}}
    return {"allOf": [{"$ref": "#/components/schemas/Outcome"}, of_stage]}


def outcome_json(outcome: Outcome[Any]) -> bytes:
    """`Outcome.wire` as JSON.

    The payload and the result may be large, so each is encoded alone: the encoder reads a value that contains a null twice.
    """
    fields = outcome.wire()
    payload = encode(fields.pop("payload"))
    result = b',"result":' + encode(fields.pop("result")) if "result" in fields else b""
    return b'%b,"payload":%b%b}' % (encode(fields)[:-1], payload, result)


class EmitParams(Params):
    """An event."""

    kind: str
    payload: dict[str, Any] = Field(default_factory=dict)
    meta: Meta = NO_META
    context: dict[str, Any] | None = None
    channel: str = ""
    chat_id: str = ""

    @field_validator("kind")
    @classmethod
    def _known(cls, kind: str) -> str:
        return known_kind(kind)


async def _emit(context: SidecarContext, params: EmitParams) -> bool:
    meta, about = params.meta, params
    turn = context.turns.get(meta.turn_id)
    if turn is not None:
        given = {name: value for name, value in meta.__dict__.items() if value}
        meta = turn.meta.model_copy(update=given)
        defaults = {name: getattr(turn.session, name) for name in ("context", "channel", "chat_id")}
        about = params.model_copy(
            update={name: default for name, default in defaults.items() if not getattr(params, name)}
        )
    payload = Payload(meta=meta, context=about.context, channel=about.channel, chat_id=about.chat_id)
    context.host_of(meta).emit(params.kind, params.payload, about=payload)
    return True


STAGE_METHODS = (
    *map(_method_of, STAGES.values()),
    Method("emit", "Tell the observers of an event, without waiting for them.", _emit, EmitParams, TRUE),
)

"""The sidecar's methods for stages and events."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, ValidationError, field_validator

from ....model.encoded import Encoded
from ....model.events import known_kind
from ....model.payloads import NO_META, Meta, Payload
from ....model.stages import STAGES
from ....protocol.codec import encode
from ....rpc.dispatch import Method, Params, validated
from ....wire import words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic import BaseModel

    from ....model.decisions import Outcome
    from ....model.stages import Stage
    from ....rpc.dispatch import Call
    from .context import SidecarContext

MAX_META = 1024
"""The most bytes of a meta that is kept for the next requests."""


class StageOptions(Params):
    """The params of a stage beside the fields of its payload."""

    return_payload: bool = Field(default=False, description="Whether the outcome of a `continue` has its payload, too.")


@dataclass(frozen=True, slots=True)
class PayloadMethod(Method):
    """A method whose params are a stage's payload, and maybe options."""

    options: type[Params] = Params

    def bind(self, context: Any, params: Mapping[str, Any] | list[Any]) -> Call:
        names = self.options.model_fields.keys()
        if isinstance(params, list) or names.isdisjoint(params):
            return functools.partial(self.call, context, self.read(params))
        payload = {name: value for name, value in params.items() if name not in names}
        options = validated(self.options, {name: params[name] for name in names & params.keys()})
        return functools.partial(self.call, context, self.read(payload), **dict(options))

    def read(self, params: Mapping[str, Any] | list[Any]) -> BaseModel:
        if type(params) is not dict:
            return Method.read(self, params)
        meta = params.get("meta")
        return validated(self.params, {**params, "meta": _shared(meta)} if type(meta) is dict else params)


def _shared(params: dict[str, Any]) -> Meta | dict[str, Any]:
    """Returns the equal meta of an earlier request, or else the given one.

    The requests of one iteration have the same meta. It is validated once, and its bytes are made once.
    """
    data = encode(params)  # unlike dicts, bytes tell 1 from true and 1.0
    if len(data) > MAX_META:
        return params
    try:
        return _meta_of(data)
    except ValidationError:
        return params  # to be refused with its problems


@functools.lru_cache(maxsize=256)
def _meta_of(data: bytes) -> Meta:
    return Meta.model_validate_json(data, strict=True)


def _method_of(stage: Stage[Any]) -> Method:
    async def ask(context: SidecarContext, payload: Payload, *, return_payload: bool = False) -> bytes:
        meta = payload.meta
        turn = context.turns.get(meta.turn_id)
        if turn is not None:
            outcome = await turn.ask(stage, payload)
        else:
            context.require_hooks_of(meta)
            host = context.host_of(meta)
            outcome = await getattr(host, stage.name)(payload)
            host.note_hard_abort(outcome)
        return outcome_json(outcome, with_payload=return_payload or outcome.action != words.CONTINUE)

    return PayloadMethod(stage.name, ask, stage.payload, StageOptions)


def outcome_json(outcome: Outcome[Any], *, with_payload: bool = True) -> bytes:
    """`Outcome.wire` as JSON, with the payload or without it.

    The payload and the result may be large, so each is encoded alone: the encoder reads a value that contains a null twice.
    """
    fields = outcome.wire(payload=False)
    result = fields.pop("result", None)
    data = encode(fields)
    if with_payload:
        before = outcome.asked
        if before is None or before.payload is not outcome.payload:
            before = Encoded(outcome.payload)
        data = b'%b,"payload":%b}' % (data[:-1], before.params())
    return data if result is None else b'%b,"result":%b}' % (data[:-1], encode(result))


class EmitParams(Params):
    """The params of emit: an event."""

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
        ids = {name: value for name, value in meta.__dict__.items() if value}
        meta = turn.meta.model_copy(update=ids)
        defaults = {name: getattr(turn.session, name) for name in ("context", "channel", "chat_id")}
        about = params.model_copy(
            update={name: default for name, default in defaults.items() if not getattr(params, name)}
        )
    payload = Payload(meta=meta, context=about.context, channel=about.channel, chat_id=about.chat_id)
    context.host_of(meta).emit(params.kind, params.payload, about=payload)
    return True


STAGE_METHODS = (*map(_method_of, STAGES.values()), Method("emit", _emit, EmitParams))

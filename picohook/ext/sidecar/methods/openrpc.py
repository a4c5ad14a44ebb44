"""The OpenRPC document of the sidecar, made from the table of methods that it dispatches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ....model.payloads import LLMResponse, ToolResult
from ....model.stages import STAGES
from ....rpc.dispatch import Params
from ....rpc.jsonrpc import (
    ERRORS,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
    SHUTTING_DOWN,
)
from ....rpc.outgoing import ASK, CANCEL, EVENT
from ....wire.version import VERSION
from . import METHODS
from .stages import OptionalMethod

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ....rpc.dispatch import Method

OPENRPC = "1.3.2"
"""The version of the specification that the document follows."""
OF_EVERY_METHOD = (
    PARSE_ERROR,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    INVALID_PARAMS,
    INTERNAL_ERROR,
    SHUTTING_DOWN,
)
_REF = "#/components/schemas/{model}"
_ACTIONS = sorted(set().union(*(stage.actions for stage in STAGES.values())))


def openrpc() -> dict[str, Any]:
    """The document."""
    schemas: dict[str, Any] = {"Outcome": _OUTCOME, "TrailEntry": _TRAIL_ENTRY}
    for model in (ToolResult, LLMResponse):
        _described(model, schemas)
    methods = [_method(method, schemas) for method in METHODS]
    return {
        "openrpc": OPENRPC,
        "info": {
            "title": "picohook serve",
            "version": VERSION,
            "description": "A host of agent hooks, for runtimes in any language: JSON-RPC 2.0, one message a line.",
            "license": {"name": "MIT"},
        },
        "methods": methods,
        "x-client-methods": _CLIENT_METHODS,
        "components": {
            "schemas": schemas,
            "errors": {_name(code): {"code": code, "message": message} for code, message in ERRORS.items()},
        },
    }


def _method(method: Method, schemas: dict[str, Any]) -> dict[str, Any]:
    schema = _described(method.params, schemas)
    required, properties = schema.get("required", ()), schema.get("properties", {})
    if isinstance(method, OptionalMethod):
        properties = {**properties, **_described(method.options, schemas)["properties"]}
    params = [
        {"name": name, "required": name in required, "schema": described} for name, described in properties.items()
    ]
    return {
        "name": method.name,
        "summary": method.summary,
        "paramStructure": "either" if issubclass(method.params, Params) else "by-name",
        "params": sorted(params, key=lambda param: not param["required"]),
        "result": {"name": "outcome" if method.name in STAGES else "result", "schema": method.result},
        "errors": [{"$ref": f"#/components/errors/{_name(code)}"} for code in (*OF_EVERY_METHOD, *method.errors)],
    }


def _described(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a model. Schemas of payloads and of their parts become schemas of the document."""
    schema = model.model_json_schema(ref_template=_REF)
    schemas |= schema.pop("$defs", {})
    if not issubclass(model, Params):
        schemas[model.__name__] = schema
    return schema


def _name(code: int) -> str:
    return ERRORS[code].title().replace(" ", "")


_OF_HOOK: dict[str, Any] = {"session": {"type": "string"}, "hook": {"type": "string"}}
_META_REF = {"$ref": _REF.format(model="Meta")}
_CLIENT_METHODS = [
    {
        "name": ASK,
        "summary": "A request to the client, to answer for its own hook. The result is what a hook process would answer.",
        "params": {
            **_OF_HOOK,
            "stage": {"enum": [*STAGES]},
            "payload": {"type": "object", "description": "The params of that stage's method."},
        },
        "result": {"type": "object"},
    },
    {
        "name": EVENT,
        "summary": "A notification to the client: an event that its own hook observes.",
        "params": {**_OF_HOOK, "kind": {"type": "string"}, "meta": _META_REF, "payload": {"type": "object"}},
    },
    {
        "name": CANCEL,
        "summary": "A notification to the client: the server no longer waits for the response with this id.",
        "params": {"id": {"type": "integer"}},
    },
]
"""The messages of the server to a client that has mounted its own hooks. OpenRPC itself describes one direction only."""

_TRAIL_ENTRY = {
    "title": "TrailEntry",
    "description": "What one hook did.",
    "type": "object",
    "properties": {
        "hook": {"type": "string"},
        "action": {"enum": ["", *_ACTIONS], "description": "Empty if the chain did not wait for the hook."},
        "duration_ms": {"type": "number"},
        "error": {"type": ["string", "null"]},
        "reason": {"type": "string"},
        "skipped": {"type": "boolean"},
        "retries": {"type": "integer"},
        "notes": {
            "type": "object",
            "properties": {
                "system_message": {"type": "string"},
                "additional_context": {"type": "string"},
                "inject_messages": {"type": "array", "items": {"type": "object"}},
            },
            "additionalProperties": False,
        },
    },
    "required": ["hook", "action", "duration_ms", "error"],
    "additionalProperties": False,
}
_OUTCOME = {
    "title": "Outcome",
    "description": "The outcome of a stage.",
    "type": "object",
    "properties": {
        "stage": {"enum": [*STAGES]},
        "action": {"enum": _ACTIONS},
        "payload": {"type": "object", "description": "The payload to continue with. A `continue` has it on request."},
        "approved": {"type": "boolean", "description": "At approve_tool: whether the call may run."},
        "result": {
            "description": "With `respond`: the result that stands.",
            "anyOf": [{"$ref": "#/components/schemas/ToolResult"}, {"$ref": "#/components/schemas/LLMResponse"}],
        },
        "feedback": {"type": "string", "description": "With `retry`: what to tell the model."},
        "reason": {"type": "string", "description": "For people. Where a hook failed, the cause."},
        "reason_for_llm": {
            "type": "string",
            "description": "If present, tell the model this in place of `reason`.",
        },
        "trail": {"type": "array", "items": {"$ref": "#/components/schemas/TrailEntry"}},
    },
    "required": ["stage", "action", "reason", "trail"],
    "additionalProperties": False,
}

"""The OpenRPC document of the sidecar.

Params are made from the models of the methods. `openrpc.json` has the rest: what each method does, its result and its errors.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....model.payloads import LLMResponse, ToolResult
from ....model.stages import STAGES
from ....rpc.dispatch import Params
from ....rpc.jsonrpc import ERRORS, INVALID_REQUEST, NOT_OPEN, RETRY_LIMIT, SHUTTING_DOWN
from ....wire.version import VERSION
from . import METHODS
from .stages import PayloadMethod

if TYPE_CHECKING:
    from pydantic import BaseModel

    from ....rpc.dispatch import Method

OPENRPC = "1.3.2"
"""The version of the specification that the document follows."""
_REF = "#/components/schemas/{model}"
_NAMES = {code: message.title().replace(" ", "") for code, message in ERRORS.items()}
_OF_EVERY_METHOD = [name for code, name in _NAMES.items() if code <= INVALID_REQUEST or code == SHUTTING_DOWN]


def openrpc() -> dict[str, Any]:
    """The document."""
    said = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
    schemas: dict[str, Any] = said["schemas"]
    actions = sorted(set().union(*(stage.actions for stage in STAGES.values())))
    schemas["Outcome"]["properties"] |= {"stage": {"enum": [*STAGES]}, "action": {"enum": actions}}
    schemas["TrailEntry"]["properties"]["action"]["enum"] = ["", *actions]
    said["client_methods"][0]["params"]["stage"] = {"enum": [*STAGES]}
    for model in (ToolResult, LLMResponse):
        _described(model, schemas)
    methods = [_method(method, said["methods"], schemas) for method in METHODS]
    return {
        "openrpc": OPENRPC,
        "info": {
            "title": "picohook serve",
            "version": VERSION,
            "description": "A host of agent hooks, for runtimes in any language: JSON-RPC 2.0, one message a line.",
            "license": {"name": "MIT"},
        },
        "methods": methods,
        # OpenRPC itself describes one direction only.
        "x-client-methods": said["client_methods"],
        "components": {
            "schemas": schemas,
            "errors": {_NAMES[code]: {"code": code, "message": message} for code, message in ERRORS.items()},
        },
    }


def _method(method: Method, known: dict[str, Any], schemas: dict[str, Any]) -> dict[str, Any]:
    schema = _described(method.params, schemas)
    required, properties = schema.get("required", ()), schema.get("properties", {})
    if isinstance(method, PayloadMethod):
        properties = {**properties, **_described(method.options, schemas)["properties"]}
    params = [
        {"name": name, "required": name in required, "schema": described} for name, described in properties.items()
    ]
    said = known.get(method.name) or _stage(method)
    return {
        "name": method.name,
        "summary": said["summary"],
        "paramStructure": "either" if issubclass(method.params, Params) else "by-name",
        "params": sorted(params, key=lambda param: not param["required"]),
        "result": {"name": "outcome" if method.name in STAGES else "result", "schema": said["result"]},
        "errors": [{"$ref": f"#/components/errors/{name}"} for name in (*_OF_EVERY_METHOD, *said["errors"])],
    }


def _stage(method: Method) -> dict[str, Any]:
    """What is said of the method of a stage."""
    payload = {"properties": {"payload": {"$ref": _REF.format(model=method.params.__name__)}}}
    return {
        "summary": f"Ask the hooks at {method.name}; the params are its payload.",
        "result": {"allOf": [{"$ref": _REF.format(model="Outcome")}, payload]},
        "errors": [_NAMES[NOT_OPEN], _NAMES[RETRY_LIMIT]],
    }


def _described(model: type[BaseModel], schemas: dict[str, Any]) -> dict[str, Any]:
    """The schema of a model. Schemas of payloads and of their parts become schemas of the document."""
    schema = model.model_json_schema(ref_template=_REF)
    schemas |= schema.pop("$defs", {})
    if not issubclass(model, Params):
        schemas[model.__name__] = schema
    return schema

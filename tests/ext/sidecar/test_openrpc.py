"""The OpenRPC document: it is valid, and describes what the server does."""

from __future__ import annotations

import json
import re

import jsonschema
import pytest
from rows import each

from picohook import AbortTurn, Continue, Deny, FunctionHook, Host, Modify, Notes, Respond, Retry
from picohook.ext.sidecar.methods.openrpc import openrpc
from picohook.ext.sidecar.sidecar import DISPATCHER
from picohook.model.stages import STAGES
from picohook.rpc.jsonrpc import ERRORS

DOCUMENT = json.loads(json.dumps(openrpc()))
METHODS = {method["name"]: method for method in DOCUMENT["methods"]}

# The meta schema of OpenRPC 1.3, for the parts that the document has.
NAME = {"type": "string", "minLength": 1}
REFERENCE = {"type": "object", "required": ["$ref"], "properties": {"$ref": NAME}, "additionalProperties": False}
DESCRIPTOR = {
    "type": "object",
    "required": ["name", "schema"],
    "properties": {"name": NAME, "required": {"type": "boolean"}, "schema": {"type": "object"}},
    "additionalProperties": False,
}
ERROR = {
    "type": "object",
    "required": ["code", "message"],
    "properties": {"code": {"type": "integer"}, "message": NAME},
    "additionalProperties": False,
}
META = {
    "type": "object",
    "required": ["openrpc", "info", "methods"],
    "properties": {
        "openrpc": {"type": "string", "pattern": r"^1\.3\.\d+$"},
        "info": {
            "type": "object",
            "required": ["title", "version"],
            "properties": {
                "title": NAME,
                "version": NAME,
                "description": NAME,
                "license": {"type": "object", "properties": {"name": NAME}, "additionalProperties": False},
            },
            "additionalProperties": False,
        },
        "methods": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["name", "params"],
                "properties": {
                    "name": NAME,
                    "summary": NAME,
                    "paramStructure": {"enum": ["by-name", "by-position", "either"]},
                    "params": {"type": "array", "items": DESCRIPTOR},
                    "result": DESCRIPTOR,
                    "errors": {"type": "array", "items": REFERENCE},
                },
                "additionalProperties": False,
            },
        },
        "components": {
            "type": "object",
            "properties": {
                "schemas": {"type": "object", "additionalProperties": {"type": "object"}},
                "errors": {"type": "object", "additionalProperties": ERROR},
            },
            "additionalProperties": False,
        },
    },
    "patternProperties": {"^x-": {}},
    "additionalProperties": False,
}


def validator(schema):
    return jsonschema.Draft202012Validator({**schema, "components": DOCUMENT["components"]})


def test_it_is_an_openrpc_document():
    jsonschema.validate(DOCUMENT, META)
    assert len(METHODS) == len(DOCUMENT["methods"])
    for method in METHODS.values():
        names = [param["name"] for param in method["params"]]
        assert len(names) == len(set(names))
        required = [param["required"] for param in method["params"]]
        assert required == sorted(required, reverse=True)


def test_its_schemas_are_valid_and_its_references_resolve():
    for target in re.findall(r'"\$ref": "([^"]+)"', json.dumps(DOCUMENT)):
        assert target.startswith("#/")
        here = DOCUMENT
        for step in target.removeprefix("#/").split("/"):
            here = here[step]
    for schema in DOCUMENT["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for method in METHODS.values():
        for part in (*method["params"], method["result"]):
            jsonschema.Draft202012Validator.check_schema(part["schema"])


def test_it_has_every_method_and_every_error():
    assert METHODS.keys() == DISPATCHER.methods.keys()
    assert {error["code"] for error in DOCUMENT["components"]["errors"].values()} == ERRORS.keys()


@each("stage", STAGES)
def test_a_stages_params_are_its_payload_and_whether_it_is_returned(stage):
    payload = DOCUMENT["components"]["schemas"][STAGES[stage].payload.__name__]["properties"]
    params = {param["name"]: param["schema"] for param in METHODS[stage]["params"]}
    assert params.pop("return_payload")["type"] == "boolean"
    assert params == payload


@pytest.mark.anyio
async def test_outcomes_match_its_schemas(serving, connect):
    everything = Notes("shown", "added", ({"role": "user"},))
    decisions = {
        "before_llm": [Retry("again"), Respond({"content": "hi"}), Modify({"model": "m"}), Continue(notes=everything)],
        "before_tool": [Deny("no"), Respond({"for_llm": "hi"}), AbortTurn("stop"), ZeroDivisionError("broken")],
        "approve_tool": [True, False],
        "after_tool": [None],
    }
    payloads = {"before_llm": {}, "after_tool": {"tool": "x", "result": {}}}
    answers = {stage: iter(given) for stage, given in decisions.items()}

    def decide(stage):
        def answer(_):
            decision = next(answers[stage])
            if isinstance(decision, Exception):
                raise decision
            return decision

        return answer

    hook = FunctionHook("f", {stage: decide(stage) for stage in decisions}, provides=("x",))
    skipped = FunctionHook("never", {"before_tool": lambda _: None}, filter={"tool": "other"}, priority=-1)
    async with serving(Host([hook, skipped])):
        client = await connect()
        for stage, given in decisions.items():
            for _ in given:
                result = await client.result(stage, payloads.get(stage, {"tool": "x"}))
                validator(METHODS[stage]["result"]["schema"]).validate(result)
                more_in_trail = [{**entry, "more": 1} for entry in result["trail"]]
                for wrong in ({**result, "more": 1}, {**result, "trail": more_in_trail}):
                    with pytest.raises(jsonschema.ValidationError):
                        validator(METHODS[stage]["result"]["schema"]).validate(wrong)


@pytest.mark.anyio
async def test_results_match_its_schemas(serving, connect, tmp_path):
    config = tmp_path / "picohook.toml"
    config.write_text("[hooks.h]\ncommand = ['sleep', '1000']\nobserve = ['*']\nhello_timeout = 0.01\n")
    async with serving(Host.from_config(config)):
        client = await connect()
        asked = {
            "emit": {"kind": "error"},
            "session.start": {"session": "s"},
            "session.mount": {"session": "s", "hook": "own", "stages": ["before_finish"]},
            "turn.start": {"session": "s", "turn": "t"},
            "turn.end": {"turn": "t"},
            "tool.decide": {"tool": "x"},
            "tool.conclude": {"decided": 1, "result": {}},
            "session.end": {"session": "s"},
            "status": {},
            "list": {},
            "metrics": {},
            "prove": {},
            "reload": {},
            "reset": {"hook": "h"},
            "restart": {"hook": "h"},
            "watch": {},
        }
        for method, params in asked.items():
            validator(METHODS[method]["result"]["schema"]).validate(await client.result(method, params))
        assert METHODS.keys() - asked.keys() - STAGES.keys() == {"turn.resume", "shutdown"}

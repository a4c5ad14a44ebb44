"""Dispatching through jsonrpcserver and past it: the same table, the same results and the same errors."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from rows import each
from rpc import Connections

import picohook
from picohook import FunctionHook, Host
from picohook.ext.control.control import CONTROL_METHODS
from picohook.ext.sidecar.methods import METHODS
from picohook.ext.sidecar.methods.stages import MAX_META
from picohook.model.stages import STAGES
from picohook.rpc.dispatch import Dispatcher, LibraryDispatcher, Method
from picohook.rpc.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

DIRECT = Dispatcher(METHODS)
NAMES = sorted(DIRECT.methods)


@pytest.fixture(scope="module")
def library():
    dispatcher = LibraryDispatcher(METHODS)
    dispatcher.load()
    return dispatcher


def error_of(dispatcher, request):
    with pytest.raises(RpcError) as error:
        dispatcher.dispatch(None, request)
    return error.value.code, str(error.value), error.value.data


@each("name", NAMES)
@each(
    "params",
    [
        {"no_such_name": 1},
        {"context": 1, "self": 2, "request": 3, "methods": {}},
        {
            "kind": 1,
            "tool": 1,
            "session": 1,
            "hook": 1,
            "turn": 1,
            "messages": 1,
            "response": 1,
            "prompt": 1,
            "scope": 1,
        },
        {"return_payload": "yes"},
        [None] * 20,
    ],
)
def test_wrong_params_get_the_same_error_with_the_library_and_without(library, name, params):
    request = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
    code, message, data = error_of(DIRECT, request)
    assert (code, message, data) == error_of(library, request)
    assert code == INVALID_PARAMS
    assert message.startswith("Invalid params: ")


@pytest.mark.parametrize("name", ["nothing", "before_tools", "__class__", "rpc.discover", ""])
def test_an_unknown_method_gets_the_same_error_with_the_library_and_without(library, name):
    request = {"jsonrpc": "2.0", "method": name, "params": {"a": 1}}  # a notification: its error is logged
    assert error_of(DIRECT, request) == error_of(library, request)
    assert error_of(DIRECT, request)[0] == METHOD_NOT_FOUND


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("status", {}),
        ("status", []),
        ("reset", {"hook": "h"}),
        ("reset", ["h"]),
        ("emit", ["error", {"n": 2**70}]),
        ("before_tool", {"tool": "bash", "arguments": {"n": 2**70}}),
        ("before_tool", {"tool": "bash", "return_payload": True}),
    ],
)
def test_valid_params_are_bound_alike_with_the_library_and_without(library, name, params):
    request = {"jsonrpc": "2.0", "id": 1, "method": name, "params": params}
    direct, through = DIRECT.dispatch("context", request), library.dispatch("context", request)
    assert (direct.func, direct.args, direct.keywords) == (through.func, through.args, through.keywords)
    assert direct.args[0] == "context"


META = {"TurnID": "t", "Iteration": 1}


def with_meta(meta, name="before_tool"):
    return {"jsonrpc": "2.0", "id": 1, "method": name, "params": {"tool": "bash", "meta": meta}}


def meta_of(meta, name="before_tool"):
    return DIRECT.dispatch(None, with_meta(meta, name)).args[1].meta


def test_requests_with_the_same_meta_share_one_that_was_read_once():
    first = meta_of(META)
    assert (first.turn_id, first.iteration) == ("t", 1)
    for name in ("before_tool", "approve_tool", "tool.decide"):
        assert meta_of({**META}, name) is first
    assert meta_of({**META, "Iteration": 2}).iteration == 2


@pytest.mark.parametrize("iteration", [True, 1.0, "1"])
def test_a_meta_that_only_compares_equal_to_an_earlier_one_is_refused(iteration):
    assert meta_of(META).iteration == 1
    code, message, _ = error_of(DIRECT, with_meta({**META, "Iteration": iteration}))
    assert code == INVALID_PARAMS
    assert "meta.Iteration" in message


def test_a_large_meta_is_accepted_and_not_kept():
    large = {**META, "TracePath": "x" * MAX_META}
    assert meta_of(large) == meta_of(large)
    assert meta_of(large) is not meta_of(large)


def test_a_failure_while_params_are_read_is_hidden_from_the_client_with_the_library_and_without():
    class Broken(Method):
        def bind(self, context, params):
            raise ZeroDivisionError

    broken = [Broken("broken", None)]
    through = LibraryDispatcher(broken)
    through.load()
    for dispatcher in (Dispatcher(broken), through):
        with pytest.raises(Exception, match=r".*") as error:
            dispatcher.dispatch(None, {"method": "broken"})
        assert not isinstance(error.value, RpcError)


def test_the_methods_named_direct_do_not_use_the_library():
    dispatcher = LibraryDispatcher(METHODS, direct=STAGES)  # not loaded
    request = {"jsonrpc": "2.0", "id": 1, "method": "before_tool", "params": {"tool": "bash"}}
    assert dispatcher.dispatch(None, request).args[1].tool == "bash"
    with pytest.raises(AttributeError):
        dispatcher.dispatch(None, {"jsonrpc": "2.0", "id": 1, "method": "status"})


@pytest.mark.usefixtures("library")  # importing the library gives a warning, which the dispatcher hides
def test_only_public_names_of_the_library_are_used():
    import jsonrpcserver  # it takes a quarter of a second

    sources = [path.read_text() for path in Path(picohook.__file__).parent.rglob("*.py")]
    imports = [
        re.findall(r"(?:from|import) (jsonrpcserver\S*)(?: import (.*?))?(?:  #|$)", source, re.MULTILINE)
        for source in sources
    ]
    used = [(module, name) for found in imports for module, names in found for name in names.split(", ")]
    assert used
    for module, name in used:
        assert module == "jsonrpcserver"
        assert name in jsonrpcserver.__all__


@pytest.mark.anyio
async def test_the_control_socket_and_the_sidecar_answer_the_same_mistakes_alike(serving, connect, tmp_path):
    control = tmp_path / "control"
    async with serving(Host([FunctionHook("f")], control=control)):
        near, far = await connect(), Connections(control)
        other = await far()
        for method in CONTROL_METHODS:
            for wrong in (
                {"method": method.name, "params": {"hooks": "f"}},
                {"method": method.name, "params": [1, 2]},
                {"method": method.name, "params": None},
                {"method": f"{method.name}s"},
            ):
                line = json.dumps({"jsonrpc": "2.0", "id": 1, **wrong})
                answer = await other.exchange(line)
                assert answer == await near.exchange(line)
                assert "error" in answer
        await far.aclose()

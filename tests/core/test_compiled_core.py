"""What differs with a compiled core, as docs/explanation/compiled-core.md says. `make compiled` has one."""

from __future__ import annotations

import contextlib
import inspect
import traceback

import pytest

from picohook.engine.chain import Chain
from picohook.protocol import lines
from picohook.protocol.lines import LineBuffer
from picohook.protocol.peer import Peer

COMPILED = not lines.__file__.endswith(".py")


def refused_if_compiled(why):
    return pytest.raises(TypeError, match=why) if COMPILED else contextlib.nullcontext()


def test_only_in_plain_python_are_there_weak_references_to_an_object_of_the_core():
    assert bool(Peer.__weakrefoffset__) is not COMPILED


def test_only_in_plain_python_can_a_class_of_the_core_have_a_subclass():
    class Longer:
        pass

    with refused_if_compiled("cannot inherit from compiled"):
        type("Longer", (Longer, LineBuffer), {})(10)


def test_a_compiled_function_refuses_an_argument_of_another_type_at_once():
    with refused_if_compiled("int object expected; got str"):
        LineBuffer("10")


def test_the_traceback_of_an_error_has_its_line_and_in_plain_python_its_variables():
    with pytest.raises(TypeError if COMPILED else AttributeError) as raised:
        LineBuffer(10).feed(3)
    *_, last = traceback.TracebackException.from_exception(raised.value, capture_locals=True).stack
    assert last.filename.endswith("picohook/protocol/lines.py")
    assert last.name == "feed"
    assert last.lineno > 1
    assert bool(last.locals) is not COMPILED


def test_inspect_finds_the_source_of_a_function_only_in_plain_python():
    with refused_if_compiled("got Function compiled with mypyc"):
        inspect.getsource(Chain.run)

"""docs/reference/sdk.md has every public name of the SDK with its signature, and no other."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from rows import each

from picohook import sdk
from picohook.sdk import calls, testing

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "sdk.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in re.split(r"^#{2,3} ", PAGE, flags=re.MULTILINE)[1:]}
CLASSES = {name: getattr(module, name) for module in (sdk, testing) for name in module.__all__}
CLASSES = {name: value for name, value in CLASSES.items() if inspect.isclass(value)}
FUNCTIONS = {name: getattr(testing, name) for name in testing.__all__ if name not in CLASSES}
CALLS = [name for name, value in CLASSES.items() if hasattr(value, "stage") and name != "Answer"]
COMMON = ("Calls", "BeforeTool", "AfterCompact", "Client")
"""Sections whose names other classes share, and which they refer to."""
INTERNAL = {"take", "reply", "form", "edits", "carries", "part", "mode", "decision", "denied", "given_up"}
"""Names of a call that are for the server."""


def public(value):
    """The names of a class that its users see: those of its own, and of its bases in this package."""
    bases = [base for base in value.__mro__ if base.__module__.startswith("picohook.sdk")]
    names = {name for base in bases for name in (*vars(base), *getattr(base, "__annotations__", ()))}
    return {name for name in names if not name.startswith("_")} - (INTERNAL if hasattr(value, "stage") else set())


def named(section):
    """The names in code in a section, with their parameters if they have any."""
    return {match[1]: match[2] for match in re.finditer(r"`(?:@app\.)?(\w+)(\([^`]*\))?`", section)}


def parameters(function):
    """The parameters of a function as the page writes them: without annotations."""
    signature = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values() if one.name != "self"]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty)).replace("'", '"')


def test_every_public_class_has_its_section_and_every_section_has_its_class():
    headings = SECTIONS.keys() - {"Calls", "Events and values", "picohook.sdk.testing"}
    assert headings == CLASSES.keys()


@each("name", CLASSES)
def test_the_section_of_a_class_has_all_of_its_names_and_their_signatures(name):
    value = CLASSES[name]
    own = named(SECTIONS[name])
    shared = {key: said for section in COMMON for key, said in named(SECTIONS[section]).items()}
    inherits = name in {*CALLS, "Process"}
    for member in public(value):
        assert member in own or (inherits and member in shared), member
        attribute = inspect.getattr_static(value, member, None)
        if inspect.isfunction(attribute):
            shown = own.get(member) or shared[member]
            assert shown == parameters(attribute), member


@each("name", CLASSES)
def test_the_tables_of_a_class_name_only_existing_members(name):
    there = {
        *dir(CLASSES[name]),
        *vars(sdk.HookApp("x")),
        *vars(testing.client(sdk.HookApp("x"))),
        "exit_code",
        "stage",
    }
    cells = [row.split("|")[1] for row in SECTIONS[name].splitlines() if row.startswith("| `")]
    assert {key for cell in cells for key in named(cell)} <= there


def test_the_page_has_all_decorators_of_an_app():
    decorators = {name for name, value in vars(sdk.HookApp("x")).items() if callable(value)}
    assert decorators == {match[1] for match in re.finditer(r"^\| `@app\.(\w+)`", SECTIONS["HookApp"], re.MULTILINE)}


def test_the_functions_for_tests_have_their_signatures():
    shown = named(SECTIONS["picohook.sdk.testing"])
    assert {name: shown[name] for name in FUNCTIONS} == {
        name: parameters(function) for name, function in FUNCTIONS.items()
    }


def test_each_stage_is_a_decorator_that_type_checkers_know_and_a_public_class():
    assert calls.Decorators.__annotations__.keys() >= calls.STAGES.keys()
    assert {call.__name__ for call in calls.STAGES.values()} <= set(sdk.__all__)


def test_every_public_name_is_used_in_an_example():
    used = set(re.findall(r"\w+", " ".join(re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))))
    assert (CLASSES | FUNCTIONS).keys() - used == set()

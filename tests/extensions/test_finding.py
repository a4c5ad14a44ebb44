"""Extensions are found by a key: the built-in ones, and those of installed packages."""

from __future__ import annotations

import sys
from inspect import signature
from pathlib import Path

import needs
import pytest
from rows import each

import picohook
from picohook import (
    Command,
    EngineSettings,
    Extension,
    Host,
    HostSettings,
    Lazy,
    Option,
    PicohookError,
    __version__,
    extensions,
)
from picohook.config.native import NativeFile
from picohook.host import ExtensionSettings
from picohook.model.spec import KINDS
from picohook.testing import check_extension


def test_each_folder_of_extensions_has_a_row_of_its_name():
    folders = {path.parent.name for path in (Path(picohook.__file__).parent / "ext").glob("*/__init__.py")}
    assert {one.row.name for one in extensions.built_in()} == folders


def test_everything_that_a_built_in_row_names_is_there_and_of_the_right_type():
    for one in extensions.built_in():
        check_extension(one.row)


@each(
    ("row", "error", "why"),
    [
        ({"needs": "999"}, PicohookError, "it needs picohook 999"),
        ({"commands": {"a": 3}}, PicohookError, r"commands\['a'\] is a int, not a picohook.Command"),
        (
            {"options": {"a": Option(Lazy("json:dumps"), "")}},
            PicohookError,
            "options has 'a', which is not a command and its",
        ),
        ({"tables": {"hooks": Lazy("json:dumps")}}, PicohookError, "tables has 'hooks', which picohook has itself"),
        (
            {"tables": {"a": Lazy("json:JSONEncoder")}},
            AssertionError,
            r"tables\['a'\]: json:JSONEncoder .* subclass of Table",
        ),
        ({"commands": {"a": Command(Lazy("json:dumps"), "")}}, AssertionError, r"commands\['a'\].app: json:dumps is"),
        ({"schemas": {"a": Lazy("not_there:x")}}, AssertionError, r"schemas\['a'\]: not_there:x cannot be imported"),
        ({"doctor": Lazy("json:__name__")}, AssertionError, "doctor: json:__name__ is 'json', and must be a function"),
        ({"doctor": Lazy("json:nothing")}, AssertionError, "doctor: json:nothing cannot be imported: AttributeError"),
    ],
)
def test_a_row_is_checked_and_the_wrong_field_named(row, error, why):
    with pytest.raises(error, match=why):
        check_extension(Extension(name="x", **row))


def test_the_key_of_another_package_is_found(install):
    install("one_package")
    assert extensions.find("commands", "hello") == Command(Lazy("json:dumps"), "Say hello.")
    assert extensions.find("commands", "unknown") is None


@needs.other_rooms
def test_a_key_that_picohook_has_is_found_without_looking_at_other_packages(install):
    install("one_package", text="raise SystemExit('imported')")
    assert extensions.find("commands", "audit").summary == "Check an audit log."
    assert "one_package" not in sys.modules


def test_two_packages_with_one_key_are_both_named(install):
    install("one_package")
    install("two_package")
    with pytest.raises(PicohookError, match=r"one_package 1\.2 and two_package 1\.2 both have 'hello'.*uninstall one"):
        extensions.find("commands", "hello")


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"text": "import not_there"}, "cannot be imported: ModuleNotFoundError: No module named 'not_there'"),
        ({"text": "extension = 3"}, "its entry point names a int, not a picohook.Extension"),
        ({"needs": "999.0"}, f"it needs picohook 999.0, and this is {__version__}: install a newer picohook"),
        ({"key": "audit"}, "commands has 'audit', which picohook has itself"),
        (
            {"text": "from picohook import *\nextension = Extension(name='x', keywords={'watch': Keyword(None)})"},
            "keywords has 'watch', which picohook has itself",
        ),
        (
            {"text": "from picohook import Extension\nextension = Extension(name='x', commands={'hello': 3})"},
            "commands['hello'] is a int, not a picohook.Command",
        ),
    ],
)
@needs.other_rooms
def test_a_package_that_cannot_be_used_is_named_with_the_cause_and_hides_no_other(install, row, why):
    install("bad_package", **row)
    install("one_package", key="other")
    usable, (broken,) = extensions.others()
    assert [one.package for one in usable] == ["one_package 1.2"]
    assert broken.package == "bad_package 1.2"
    assert broken.why.endswith(why)


def test_an_object_that_cannot_be_imported_is_named_with_the_cause_and_its_package(install):
    install("one_package", text="raise OSError('no disk')")
    with pytest.raises(PicohookError, match="one_package:x cannot be imported: OSError: no disk"):
        Lazy("one_package:x").load()
    with pytest.raises(PicohookError, match=r"orjson:x .*: AttributeError: .*: update or uninstall orjson \d"):
        Lazy("orjson:x").load()


def test_the_reserved_keys_are_those_of_the_core():
    own = {*EngineSettings.__annotations__, *HostSettings.__annotations__} - {*ExtensionSettings.__annotations__}
    for make in (Host, Host.from_config, Host.discover):
        own |= {one.name for one in signature(make).parameters.values() if one.kind is not one.VAR_KEYWORD}
    assert {
        "kinds": {*KINDS},
        "tables": {field.alias or name for name, field in NativeFile.model_fields.items()},
        "keywords": {name for name in own if not name.startswith("_")},
        "dialects": {"native"},
    } == extensions.RESERVED


def test_a_row_cannot_be_changed():
    with pytest.raises(AttributeError):
        Extension(name="a").name = "b"

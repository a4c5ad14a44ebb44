"""The entries and tables of the reference say what the code says: `make reference` writes them."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest
import rows

import picohook
import picohook.config
import picohook.testing

sys.path.insert(0, str(Path(__file__).parents[2] / "docs/site"))

import api
import config_keys

CHECK = jsonschema.Draft202012Validator(picohook.config.schema())
API = api.ROOT / "docs/reference/api.md"


def last(name):
    return name.rpartition(".")[2]


@pytest.fixture(scope="module")
def page():
    return API.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def marks(page):
    return [mark[1] for mark in api.MARK.finditer(page)]


def test_the_page_of_the_api_says_what_the_code_says(page):
    assert page == api.whole(page), "make reference writes it"


def test_each_public_name_has_one_entry_under_its_own_title(page, marks):
    public = [*picohook.__all__, *picohook.testing.__all__, *picohook.config.__all__, *integrations()]
    assert sorted(map(last, marks)) == sorted(set(public))
    titled = re.findall(r"^### (\S+)\n(?:(?!#{1,3} ).*\n)*?<!-- made: ([\w.]+)", page, re.MULTILINE)
    assert [(last(mark), mark) for mark in marks] == titled


def integrations():
    """The classes that an embedder imports from `picohook.integrations`."""
    for path in (api.ROOT / "picohook/integrations").glob("*.py"):
        classes = [node.name for node in ast.parse(path.read_text()).body if isinstance(node, ast.ClassDef)]
        yield from (name for name in classes if name.startswith("Picohook") and name != "PicohookState")


def test_each_public_name_is_used_in_an_example_of_its_section(page):
    for section in re.split(r"^## ", page, flags=re.MULTILINE)[1:]:
        names = {last(mark[1]) for mark in api.MARK.finditer(section)}
        used = set(
            re.findall(r"\w+", " ".join(re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)))
        )
        if "../how-to/frameworks.md" not in section:  # whose examples need the frameworks
            assert names - used == set(), section.partition("\n")[0]


def function(text):
    return ast.parse(text).body[0]


def test_an_error_that_a_docstring_does_not_name_is_added():
    raises = '    if a:\n        raise PicohookError("x")\n    raise ConfigError([])\n'
    made = function('def f(a):\n    """Does it.\n\n    Raises `ConfigError`."""\n' + raises)
    assert api.described(made) == ["Does it.", "**Raises** `ConfigError`.", "**Raises** `PicohookError`."]
    inside = function(
        'def f():\n    """Does it."""\n    def g():\n        raise PicohookError("later")\n    return g\n'
    )
    assert api.described(inside) == ["Does it."]


def test_parameters_that_are_not_for_others_are_not_shown():
    made = function("async def f(self, a, *, _b=1, c=2) -> int: ...")
    assert api.signature(made, "picohook.host") == "async def f(a, *, c=2) -> int: ..."


def test_a_member_that_a_mark_names_and_no_class_has_is_an_error():
    with pytest.raises(LookupError, match="Outcome has no colour"):
        api.entry("Outcome", "action, colour")


def test_the_page_of_the_configuration_and_its_schema_say_what_the_models_say():
    page = config_keys.PAGE.read_text(encoding="utf-8")
    assert page == config_keys.whole(page), "make reference writes it"
    assert config_keys.SCHEMA.read_text(encoding="utf-8") == config_keys.published(), "make reference writes it"


def test_each_table_of_the_schema_is_on_the_page_and_each_key_has_an_example():
    page = config_keys.PAGE.read_text(encoding="utf-8")
    assert sorted(re.findall(r"<!-- made: ([\w.]+) -->", page)) == sorted(config_keys.TABLES)
    tables = {name for name, part in config_keys.schema()["$defs"].items() if "properties" in part}
    assert tables == set(config_keys.TABLES.values())
    said = config_keys.said()
    shown = {table: sorted(keys) for table, keys in said.items()}
    assert shown == {table: sorted(config_keys.keys(table)) for table in config_keys.TABLES}, (
        "docs/site/config_keys.toml has the examples"
    )


OTHERS = """
[hooks.redact]
run = "true"
stages = ["before_tool"]
[hooks.local]
run = "true"
stages = ["before_tool"]
[hooks.guard]
"""
NEEDED = {
    "audit": 'path = "a"',
    "model": 'base_url = "https://m"\nname = "m"',
    "foreign": 'file = ".claude/settings.json"',
}
KINDS = ("approver", "ask", "command", "run", "python", "prompt", "nats")


def document(table, key, example):
    """A whole file with the example of a key."""
    top = table.split(".")[0]
    given = example.partition(" ")[0].partition(".")[0]
    needed = [line for line in NEEDED.get(top, "").split("\n") if not line.startswith(f"{given} ")]
    if top != "hooks":
        head = "[[foreign]]" if top == "foreign" else f"[{top}]"
        return "\n".join([OTHERS.partition("[hooks.guard]")[0], head, *needed, example])
    of_kind = {"model": 'prompt = "ok?"', "notify": 'approver = "queue"'} if table == top else {}
    kind = [] if given in KINDS else [of_kind.get(key, 'run = "true"')]
    stage = {
        "stream": "after_llm",
        "may_edit": "before_llm",
        "approver": "approve_tool",
        "ask": "",
        "notify": "approve_tool",
    }.get(given, "before_tool")
    where = [] if given == "stages" or not stage else [f'stages = ["{stage}"]']
    return OTHERS + "\n".join([*kind, *where, example])


@rows.each(
    ("table", "key", "example"),
    [(table, key, told[0]) for table, keys in config_keys.said().items() for key, told in keys.items()],
)
def test_the_example_of_a_key_is_accepted_by_picohook_and_by_the_schema(tmp_path, table, key, example):
    text = document(table, key, example)
    (tmp_path / "hooks").mkdir(exist_ok=True)
    (tmp_path / ".claude").mkdir(exist_ok=True)
    (tmp_path / ".claude/settings.json").write_text('{"hooks": {"PreToolUse": []}}')
    (tmp_path / "picohook.toml").write_text(text)
    picohook.config.load(tmp_path / "picohook.toml")
    wrong = [f"{error.json_path}: {error.message}" for error in CHECK.iter_errors(tomllib.loads(text))]
    assert wrong == []

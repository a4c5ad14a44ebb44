"""The package as a whole: its public names, which room may import which, and what a program pays for importing it."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import import_module
from importlib.metadata import distributions
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import pytest
from packaging.specifiers import SpecifierSet
from rooms import CORE, LAYERS
from rows import each

import picohook
from picohook import extensions

PACKAGE = Path(picohook.__file__).parent

ORDER = {name: place for place, name in enumerate(name for names in LAYERS for name in names)}

APART = {"sdk": {"wire"}}
"""Rooms that stand on their own, and what they may import."""

AT_HOME = {
    "typer": {"cli", "ext"},
    "rich": {"cli", "ext"},
    "yaml": {"config"},
    "platformdirs": {"config", "engine", "projects", "ext"},
    "structlog": {"observe"},
    "trio": {"transport"},
    "uvloop": {"transport"},
    "asyncio": {"transport", "cli", "sdk", "integrations", "ext"},
    "nats": {"ext"},
    "starlette": {"ext"},
    "uvicorn": {"ext"},
    "jinja2": {"ext"},
    "jiter": {"protocol"},
    "orjson": {"protocol"},
    "agent_hooks": {"integrations"},
    "agents": {"integrations"},
    "claude_agent_sdk": {"integrations"},
    "google": {"integrations"},
    "langchain": {"integrations"},
    "pydantic_ai": {"integrations"},
    "opentelemetry": {"ext"},
    "jsonrpcserver": {"rpc"},
}
"""Libraries that only these rooms may import, at run time at least."""


WORDS = [
    *(
        "anthropic",
        "audit",
        "blade",
        "claude",
        "codex",
        "copilot",
        "cursor",
        "gemini",
        "j-cli",
        "jcli",
        "langchain",
        "mcp",
    ),
    *("nats", "openai", "openrpc", "opentelemetry", "otel", "picoclaw", "prometheus", "sidecar"),
]
"""Words of extensions, which the core does not have."""

SAID = re.compile("|".join(map(re.escape, WORDS)), re.IGNORECASE)

OF_THE_WIRE = re.compile(r"mcp\.(server|tool)\.|from \.ext\.[^\n]*|class ExtensionSettings\(.*?(?=\nclass )", re.DOTALL)
"""What the core has of them all the same: names of events, and the types of the keywords of built-in extensions."""


class Import(NamedTuple):
    """One import."""

    by: str
    of: str
    name: str
    lazy: bool
    """Whether it happens when a function is called."""
    typed: bool
    """Whether only type checkers see it."""

    @property
    def room(self) -> str:
        return room(self.by)


def room(module: str) -> str:
    return module.split(".")[1] if "." in module else module


def folder(module: str) -> str:
    """The room of a module; an extension is a room of its own."""
    parts = module.split(".")
    return ".".join(parts[1:3]) if parts[1:2] == ["ext"] else room(module)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


SOURCES = {module_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def nodes_of(node: ast.AST, *, lazy: bool = False, typed: bool = False):
    """The statements below, whether they are inside a function, and whether only type checkers see them."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            continue
        yield child, lazy, typed
        inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
        hints = typed or (isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING")
        yield from nodes_of(child, lazy=inside, typed=hints)


def imports_of(module: str):
    path = SOURCES[module]
    for node, lazy, typed in nodes_of(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (Import(module, alias.name, alias.name, lazy, typed) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                package = module.split(".")
                package = package[: len(package) - node.level + (path.name == "__init__.py")]
                base = ".".join([*package, *([base] if base else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                yield Import(module, inner if inner in SOURCES else base, alias.name, lazy, typed)


@cache
def all_imports() -> list[Import]:
    return [one for module in SOURCES for one in imports_of(module)]


def imports() -> list[Import]:
    """The imports that happen when the program runs."""
    return [one for one in all_imports() if not one.typed]


def own() -> list[Import]:
    """The imports of picohook's own modules, with annotations, but for those of the row, a part, `HostSettings` and a pause.

    These have types of all rooms.
    """
    with_types_of_all = {"picohook.extension", "picohook.engine.part", "picohook.host", "picohook.calls.abort"}
    row = [one for one in all_imports() if one.typed and one.by in with_types_of_all]
    return [one for one in all_imports() if one.of in SOURCES and "picohook" not in (one.of, one.by) and one not in row]


def shared(one: Import) -> bool:
    """Whether an extension imports a public module of an extension in its row's `uses`."""
    by, of = (module.split(".") for module in (one.by, one.of))
    if by[1] != "ext" or of[1] != "ext" or len(of) <= 3:
        return False
    rows = {found.row.name: found.row for found in extensions.built_in()}
    return of[2] in rows[by[2]].uses and of[3] in rows[of[2]].public


class TestRooms:
    def test_at_most_eight_modules_stand_loose(self):
        assert len([*PACKAGE.glob("*.py")]) <= 8


class TestImportsRunOneWay:
    def test_every_room_is_in_the_list_of_layers(self):
        rooms = {room(module) for module in SOURCES} - {"picohook"}
        assert rooms == ORDER.keys() | APART.keys()

    def test_a_room_imports_only_what_is_below_it_and_an_extension_no_other_one(self):
        wrong = {
            f"{one.by} imports {one.of}"
            for one in own()
            if one.room in ORDER
            and folder(one.of) != folder(one.by)
            and not shared(one)
            and not (one.room == "ext" and room(one.of) in APART)  # a hook of an extension may be on the SDK
            and (room(one.of) == "ext" or ORDER.get(room(one.of), 99) >= ORDER[one.room])
        }
        assert sorted(wrong) == []

    def test_separate_rooms_import_only_allowed_modules(self):
        wrong = [
            f"{one.by} imports {one.of}"
            for one in own()
            if one.room in APART and room(one.of) not in {one.room, *APART[one.room]}
        ]
        assert wrong == []

    def test_no_modules_import_each_other_in_a_circle(self):
        graph: dict[str, set[str]] = {module: set() for module in SOURCES}
        for one in own():
            graph[one.by].add(one.of)
        try:
            TopologicalSorter(graph).prepare()
        except CycleError as error:
            pytest.fail(f"a circle of imports: {' -> '.join(error.args[1])}")

    @pytest.mark.parametrize("library", AT_HOME)
    def test_a_library_stays_in_its_room(self, library):
        assert {one.room for one in imports() if one.of.split(".")[0] == library} <= AT_HOME[library]

    @pytest.mark.parametrize("name", ["wire", "sdk"])
    def test_code_shared_with_hook_authors_needs_the_standard_library_only(self, name):
        taken = {one.of.split(".")[0] for one in imports() if one.room == name}
        assert taken <= sys.stdlib_module_names | {"picohook"}


class TestTheCoreKnowsNoExtension:
    def test_no_name_string_or_comment_of_it_has_a_word_of_one(self):
        found = {
            f"{module}: {', '.join(words)}"
            for module, path in SOURCES.items()
            if room(module) in CORE
            and (words := sorted({word.lower() for word in SAID.findall(OF_THE_WIRE.sub("", path.read_text()))}))
        }
        assert sorted(found) == []


class TestTheProtocolDoesNoIO:
    def test_it_imports_no_module_that_could(self):
        taken = {one.of.split(".")[0] for one in imports() if one.room == "protocol"} - {"picohook"}
        assert taken <= {
            "__future__",
            "collections",
            "dataclasses",
            "enum",
            "functools",
            "io",  # of it only what is in memory
            "itertools",
            "jiter",
            "json",
            "math",
            "orjson",
            "re",
            "typing",
            "uuid",
        }

    def test_nothing_in_it_is_async(self):
        for module in [name for name in SOURCES if room(name) == "protocol"]:
            kinds = {type(node) for node in ast.walk(ast.parse(SOURCES[module].read_text()))}
            assert not kinds & {ast.AsyncFunctionDef, ast.Await, ast.AsyncFor, ast.AsyncWith}


class TestPublicNames:
    def test_all_of_them_are_there_for_type_checkers_from_where_they_live(self):
        typed = {
            alias.asname: (node.module, alias.name)
            for node in ast.parse((PACKAGE / "__init__.pyi").read_text()).body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        assert typed == {name: (home, name) for name, home in picohook._HOME.items()}, (
            "`make stub` writes the file anew"
        )

    @each("name", picohook.__all__)
    def test_each_can_be_imported(self, name):
        home = import_module(f"picohook.{picohook._HOME[name]}")
        assert getattr(picohook, name) is getattr(home, name)
        assert name in dir(picohook)

    def test_they_are_sorted_and_each_is_there_once(self):
        assert picohook.__all__ == sorted(set(picohook.__all__))

    def test_an_unknown_name_is_an_attribute_error(self):
        with pytest.raises(AttributeError, match="no attribute 'Hots'"):
            picohook.Hots  # noqa: B018

    def test_a_name_is_looked_up_once(self):
        assert picohook.Host is vars(picohook)["Host"]

    def test_every_error_is_public_and_in_its_family(self):
        errors = {
            node.name
            for node in ast.parse((PACKAGE / "errors.py").read_text()).body
            if isinstance(node, ast.ClassDef) and node.name.endswith("Error")
        }
        assert errors <= set(picohook.__all__)
        assert all(issubclass(getattr(picohook, name), picohook.PicohookError) for name in errors)


INTERNAL = {"Encoded", "Listeners", "MountedHooks", "Reloader", "Service", "SessionHooks", "Spawner"}
"""Classes that only picohook's own rooms get from the methods of `Host`."""

MADE_BY_A_HOST = {"Session", "Turn"}
"""Classes whose objects programs get from a host, and do not make themselves."""


def public_methods(name: str):
    """The public methods of a class and of the classes of picohook that it inherits from, each with its module."""
    for kind in getattr(picohook, name).__mro__:
        if kind.__module__.startswith("picohook."):
            tree = ast.parse(SOURCES[kind.__module__].read_text())
            (body,) = [node.body for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__]
            for node in body:
                made = getattr(node, "name", "") == "__init__" and name not in MADE_BY_A_HOST
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (made or not node.name.startswith("_")):
                    yield kind.__module__, node


def classes_named_by(module: str, method: ast.FunctionDef | ast.AsyncFunctionDef):
    """The classes of picohook in the annotations of a method."""
    homes = {one.name: one.of for one in all_imports() if one.by == module and one.of.startswith("picohook.")}
    given = [one for one in ast.walk(method.args) if isinstance(one, ast.arg) and not one.arg.startswith("_")]
    annotations = [one for one in (*(one.annotation for one in given), method.returns) if one is not None]
    for node in (node for annotation in annotations for node in ast.walk(annotation)):
        if isinstance(node, ast.Name) and isinstance(
            getattr(import_module(homes.get(node.id, "ast")), node.id, None), type
        ):
            yield node.id


class TestPublicSignatures:
    @pytest.mark.parametrize(
        "name", ["Host", "Engine", "BlockingHost", "Session", "Turn", "Listener", "Account", "Hook"]
    )
    def test_every_class_in_them_is_public(self, name):
        named = {one for module, method in public_methods(name) for one in classes_named_by(module, method)}
        assert named
        assert named - INTERNAL <= set(picohook.__all__)


def loaded_by(statement: str) -> set[str]:
    """The modules that a fresh interpreter has loaded after this."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert done.stderr == ""
    return set(json.loads(done.stdout))


class TestWhatAProgramPaysFor:
    def test_importing_the_package_loads_only_its_version(self):
        loaded = {name for name in loaded_by("import picohook") if name.startswith("picohook")}
        assert loaded == {"picohook", "picohook.wire", "picohook.wire.version"}

    def test_a_host_needs_no_log_library_no_command_line_no_yaml_and_no_trio(self):
        heavy = {
            "structlog",
            "typer",
            "rich",
            "yaml",
            "trio",
            "jsonrpcserver",
            "httpx",
            "difflib",
            "subprocess",
            "picohook.config",
            "picohook.cli",
            "picohook.contain",
            "picohook.hooks.process",
            "picohook.sessions.paused",
        }
        assert loaded_by("from picohook import Host") & heavy == set()

    def test_a_host_that_is_imported_has_built_no_model(self):
        loaded_by(
            "from picohook import Host\n"
            "from picohook.model.deferred import DeferredModel as model\n"
            "def below(kind): return {kind}.union(*map(below, kind.__subclasses__()))\n"
            "assert len(below(model)) > 15\n"
            "assert not [one for one in below(model) - {model} if one.__pydantic_complete__]"
        )

    def test_the_words_of_the_protocol_import_nothing_else(self):
        loaded = loaded_by("import picohook.wire.words")
        assert {name for name in loaded if name.startswith("picohook")} == {
            "picohook",
            "picohook.wire",
            "picohook.wire.version",
            "picohook.wire.words",
        }
        assert loaded & {"pydantic", "anyio", "asyncio"} == set()


class TestWhatIsShipped:
    PROJECT = tomllib.loads((PACKAGE.parent / "pyproject.toml").read_text())

    def test_the_marker_for_type_checkers_is(self):
        assert (files("picohook") / "py.typed").is_file()
        assert self.PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"] == ["picohook"]
        assert "Typing :: Typed" in self.PROJECT["project"]["classifiers"]

    def test_the_version_is_in_one_place(self):
        assert self.PROJECT["project"]["dynamic"] == ["readme", "version"]
        assert picohook.__version__.count(".") == 2

    def test_the_oldest_libraries_that_it_allows_are_the_ones_it_is_tried_with(self):
        pinned = dict(line.split("==") for line in (PACKAGE.parent / "constraints-oldest.txt").read_text().split())
        for wanted in [
            *self.PROJECT["project"]["dependencies"],
            *self.PROJECT["project"]["optional-dependencies"]["cli"],
        ]:
            name, oldest = wanted.split(">=")
            assert re.fullmatch(rf"{re.escape(oldest)}(\.0)*", pinned[name.lower()]), wanted

    def test_each_pin_runs_on_the_oldest_python(self):
        # Read from what is installed here. A resolver on a later 3.11 takes versions that refuse Debian's 3.11.2.
        oldest = self.PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
        pins = dict(line.split("==") for line in (PACKAGE.parent / "constraints.txt").read_text().split())
        told = {
            one.name: one.metadata["Requires-Python"] for one in distributions() if pins.get(one.name) == one.version
        }
        assert "pytest" in told
        assert {name: which for name, which in told.items() if which and oldest not in SpecifierSet(which)} == {}

    def test_the_licence_is(self):
        assert (PACKAGE.parent / self.PROJECT["project"]["license-files"][0]).is_file()


def definitions():
    """The functions, classes and methods of the package, inherited methods included, as pages name them."""
    for path in SOURCES.values():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield node.name
            if isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef):
                        yield f"{node.name}.{one.name}"


DEFINED = {*definitions(), *(f"Host.{name}" for name in dir(picohook.Host))}


class TestTheContributingPage:
    PAGE = (PACKAGE.parent / "CONTRIBUTING.md").read_text()

    def test_each_file_of_the_thirty_defines_the_name_beside_it(self):
        named = re.findall(r"^\| .* \| `(picohook/[\w/]+\.py)`: `(\w+)` \|$", self.PAGE, re.MULTILINE)
        assert len(named) == 30
        for file, name in named:
            assert re.search(rf"^(async )?(def|class) {name}\b", (PACKAGE.parent / file).read_text(), re.MULTILINE), (
                file
            )


class TestTheArchitecturePage:
    PAGE = (PACKAGE.parent / "docs/explanation/architecture.md").read_text()

    def test_its_picture_is_the_list_of_layers(self):
        picture = self.PAGE.split("```text\n")[1].split("```")[0]
        shown = [re.split(r" {2,}", line)[0].split(", ") for line in picture.splitlines()]
        assert shown == LAYERS
        assert all(f"`{name}`" in self.PAGE for name in APART)

    def test_every_name_on_the_way_of_a_call_exists(self):
        section = self.PAGE.split("## The path of one call\n")[1].split("\n## ")[0]
        named = re.findall(r"`([\w.]+)`", section)
        assert len(named) > 20
        assert [name for name in named if name not in DEFINED] == []

    def test_every_module_that_it_names_exists(self):
        named = re.findall(r"`(\w+(?:/\w+)+(?:\.py)?)`", self.PAGE)
        assert len(named) > 15
        assert [name for name in named if not (PACKAGE / name).exists()] == []

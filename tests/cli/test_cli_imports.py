"""A command imports what it uses, and the list of commands imports none of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from rows import each

from picohook import extensions
from picohook.cli import commands as commands_package
from picohook.cli.app import OWN, load_command, summaries

PARTS = {"picohook.ext.sidecar.sidecar", "picohook.ext.record.recorder", "picohook.conformance"}
COSTLY = {"anyio", "httpx", "jsonrpcserver", "orjson", "pydantic", "rich", "structlog", "trio", "typer", "yaml"}

RUN = """
import gc, json, sys
sys.argv[0] = "picohook"
from picohook.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
    assert gc.isenabled() or "--help" in sys.argv
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""

IMPORT = """
import json, sys
from picohook.cli.app import load_command
load_command(sys.argv[1])
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def imported(project, program: str, *arguments: str) -> set[str]:
    """The modules that a fresh interpreter has imported at the end of a program."""
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=project.path,
        env=project.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stderr.splitlines()[-1]))


def commands(modules: set[str]) -> set[str]:
    """The commands whose module is one of these."""
    elsewhere = {name: command.app.path.partition(":")[0] for name, command in extensions.every("commands").items()}
    return {name for name in summaries() if elsewhere.get(name, f"picohook.cli.commands.{name}") in modules}


def test_help_imports_typer_and_no_command(project):
    modules = imported(project, RUN, "--help")

    assert commands(modules) == set()
    assert modules & COSTLY == {"typer"}


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_configuration_in_toml_is_checked_without_importing_yaml_rich_or_the_host(project, form):
    project.table("guard", command=[sys.executable, "guard.py"], stages=["before_tool"])
    modules = imported(project, RUN, "check", "--config", "picohook.toml", *form)

    assert commands(modules) == {"check"}
    assert modules & {"yaml", "rich", "jsonrpcserver", "structlog", "httpx", "trio"} == set()
    assert modules & {"picohook.model.replies", "picohook.hooks.process", "picohook.transport"} == set()
    assert modules & {"picohook.engine", "picohook.hooks.base"} == set()
    assert modules & {"picohook.host", *PARTS} == set()


def test_a_call_with_json_output_is_made_without_yaml_rich_and_the_sidecar(project):
    project.hook("guard", "def before_tool(params): return {'action': 'deny_tool'}")
    modules = imported(
        project, RUN, "call", "before_tool", "--params", '{"tool": "x"}', "--config", "picohook.toml", "--json"
    )

    assert commands(modules) == {"call"}
    assert (
        modules
        & {
            "yaml",
            "rich",
            "jsonrpcserver",
            "httpx",
            "trio",
            "picohook.ext.sidecar.sidecar",
            "picohook.ext.record.recorder",
        }
        == set()
    )


def test_a_sidecar_serves_hooks_of_a_toml_file_without_yaml_rich_and_a_log_library(project):
    project.hook("guard", "")
    modules = imported(project, RUN, "serve", "--config", "picohook.toml")

    assert commands(modules) == {"serve"}
    assert modules & {"yaml", "rich", "structlog", "httpx", "trio", "picohook.ext.record.recorder"} == set()


@pytest.mark.parametrize(
    ("command", "not_needed"),
    [
        ("control", COSTLY - {"typer"}),
        ("top", COSTLY - {"typer"}),
        ("probe", COSTLY - {"typer", "pydantic"}),
        ("audit", {"anyio", "rich", "yaml", "jsonrpcserver", "picohook.host"}),
        ("new", {"anyio", "rich", "yaml", "jsonrpcserver", "picohook.host"}),
        ("trace", {"rich", "yaml", "jsonrpcserver", "picohook.host"}),
    ],
)
def test_a_command_imports_no_library_that_it_may_not_need(project, command, not_needed):
    modules = imported(project, IMPORT, command)

    assert commands(modules) == {command}
    assert modules & not_needed == set()


@each("name", summaries())
def test_the_list_of_commands_has_the_first_line_of_each_help(name):
    assert load_command(name).help.partition("\n")[0] == summaries()[name]


def test_each_command_without_an_extension_is_in_a_file_of_its_name():
    files = Path(commands_package.__file__).parent.glob("*.py")

    assert {file.stem for file in files} - {"__init__"} == OWN.keys()

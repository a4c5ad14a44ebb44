"""What help says, and what is said of options that are no numbers: in our own words, for people who are new here."""

from __future__ import annotations

import re

import pytest

COMMANDS = {
    "new": "DIR",
    "check": "[CONFIG]",
    "doctor": "[DIR|CONFIG]",
    "list": "",
    "call": "STAGE",
    "run": "SCRIPT",
    "trust": "[CONFIG]",
    "approvals": "COMMAND [ARGS]...",
    "grants": "COMMAND [ARGS]...",
    "serve": "",
    "worker": "",
    "mcp": "-- COMMAND...",
    "shim": "VENDOR",
    "drill": "AGENT",
    "guard": "[FILE]...",
    "explain": "[LINE]",
    "control": "COMMAND [ARGS]...",
    "top": "",
    "trace": "RECORD",
    "replay": "[RECORD]...",
    "history": "[AGENT]...",
    "audit": "COMMAND [ARGS]...",
    "conformance": "-- COMMAND...",
    "probe": "REPORT",
    "schema": "config|protocol|STAGE",
    "extensions": "",
}
"""In the order in which a newcomer needs them, each with its arguments."""


def test_help_lists_the_commands_in_a_newcomers_order_with_their_purpose(project):
    _, _, listed = project("--help").out.partition("Commands:\n")
    rows = [line.split(maxsplit=1) for line in listed.splitlines()]

    assert [name for name, _ in rows] == [*COMMANDS]
    for _, about in rows:
        assert re.fullmatch(r"[A-Z].*[^.]\.", about), about  # a whole sentence, and not cut


@pytest.mark.parametrize(
    ("command", "arguments"),
    [*COMMANDS.items(), ("control reset", "NAME"), ("audit verify", "FILE"), ("grants revoke", "ID...")],
)
def test_help_of_a_command_names_its_arguments_without_types_of_a_library(project, command, arguments):
    helped = project(*command.split(), "--help")
    usage, _, described = helped.out.partition("\n\n")

    assert (helped.code, helped.err) == (0, "")
    assert usage == f"Usage: picohook {command} [OPTIONS] {arguments}".rstrip()
    assert not re.search(r"<[a-z][\w \[\]|]*>|TEXT|INTEGER|FLOAT|range", described)
    if arguments and "ARGS" not in arguments:
        first = arguments.partition(" [")[0]
        assert re.search(rf"^  {re.escape(first)}  ", described, re.MULTILINE)


@pytest.mark.parametrize(
    ("command", "option", "least", "given"),
    [
        *((("top", "--control", "s", "--once"), "--interval", "0.1", given) for given in ("0", "soon", "nan", "inf")),
        (("doctor",), "--timeout", "0.1", "-1"),
        (("conformance", "--only", "ID-1"), "--timeout", "0.01", ""),
    ],
)
def test_a_wrong_number_of_seconds_is_refused_in_plain_words(project, command, option, least, given):
    done = project(*command, option, given)

    assert (done.code, done.out) == (2, "")
    said = f"Error: Invalid value for '{option}': must be a number of seconds, {least} or more, not {given}\n"
    assert done.err.endswith(said)

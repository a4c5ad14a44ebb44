"""`picohook compare`: what several agents make of the same hook, and what strict does."""

from __future__ import annotations

import json

import pytest

EXIT_2 = (
    '#!/bin/sh\njq -e \'.tool_input.command // "" | test("rm -rf") | not\' >/dev/null || { echo no >&2; exit 2; }\n'
)
SILENT = EXIT_2.replace("echo no >&2; ", "")


@pytest.fixture
def compare(project):
    """What `picohook compare` says of a file with this content, one value for each hook, and its exit code."""

    def run(content, *options, name="guard.sh", dialects="claude,codex"):
        path = project.path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        path.chmod(0o755 if path.suffix == ".sh" else 0o644)
        done = project("compare", name, "--dialect", dialects, "--json", *options)
        return done.lines, done.code

    return run


def words(hook, case, who="vendor"):
    return {name: cell[who] for name, cell in hook["cases"][case].items()}


def test_a_guard_that_every_agent_understands_loses_no_denial(compare):
    (hook,), code = compare(EXIT_2)
    assert words(hook, "harmless call") == {"claude": "passes", "codex": "passes"}
    assert words(hook, "harmful call") == {"claude": "denies", "codex": "denies"}
    assert words(hook, "denies without a reason") == {"claude": "denies", "codex": "passes"}
    assert (hook["lost"], code) == ([], 0)


def test_a_denial_that_one_agent_does_not_see_is_lost_and_strict_keeps_it(compare):
    (hook,), code = compare(SILENT)
    assert words(hook, "harmful call") == {"claude": "denies", "codex": "passes"}
    assert words(hook, "harmful call", "strict") == {"claude": "denies", "codex": "denies"}
    assert ([(lost["dialect"], lost["case"]) for lost in hook["lost"]], code) == ([("codex", "harmful call")], 1)


def test_failures_let_calls_through_in_these_agents_and_not_in_strict(compare):
    (hook,), _ = compare(EXIT_2)
    for case in ("is not there (127)", "cannot be run (126)", "is killed", "is late", "prints broken JSON"):
        assert words(hook, case) == {"claude": "passes", "codex": "passes"}, case
        assert words(hook, case, "strict") == {"claude": "denies", "codex": "denies"}, case


def test_a_matcher_of_one_agent_that_does_not_match_in_another_loses_the_denial(compare):
    handler = {"type": "command", "command": "echo no >&2; exit 2"}
    hooks = {"PreToolUse": [{"matcher": "Edit, Write", "hooks": [handler]}]}
    (hook,), code = compare({"hooks": hooks}, name=".claude/settings.json")
    assert words(hook, "harmful call") == {"claude": "denies", "codex": "not asked"}
    assert (hook["dialect"], code) == ("claude", 1)
    assert "does not match apply_patch" in hook["lost"][0]["why"]


def test_an_entry_that_is_wrong_is_left_out_and_in_strict_the_file_is_not_loaded(compare):
    hooks = {"PreToolUse": [{"matcher": "[", "hooks": [{"type": "command", "command": "exit 2"}]}]}
    (hook,), _ = compare({"hooks": hooks}, name=".claude/settings.json")
    assert words(hook, "harmful call") == {"claude": "left out", "codex": "left out"}
    assert words(hook, "harmful call", "strict") == {"claude": "not loaded", "codex": "not loaded"}


def test_a_setting_of_its_own_agent_counts_only_there(compare):
    handler = {"type": "command", "command": "echo no >&2; exit 2", "onFailure": "block"}
    (hook,), _ = compare({"hooks": {"PreToolUse": [{"hooks": [handler]}]}}, name=".claude/settings.json")
    assert words(hook, "is late") == {"claude": "denies", "codex": "passes"}


def test_a_call_of_the_users_own_is_asked_about(compare):
    guard = "#!/bin/sh\ngrep -q 'terraform destroy' && { echo no >&2; exit 2; }\nexit 0\n"
    (unrefused,), _ = compare(guard)
    call = {"tool": "bash", "arguments": {"command": "terraform destroy"}}
    (hook,), code = compare(guard, "--params", json.dumps(call))
    assert words(unrefused, "harmful call") == {"claude": "passes", "codex": "passes"}
    assert (words(hook, "harmful call"), code) == ({"claude": "denies", "codex": "denies"}, 0)


def test_what_cannot_be_compared_says_so(project):
    (project.path / "hooks.json").write_text(
        '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "true"}]}]}}'
    )
    (project.path / "other.toml").write_text("[timeouts]\n")
    assert "no command that decides about tool calls" in project("compare", "hooks.json").err
    assert "is not a hook file of another agent" in project("compare", "other.toml").err
    assert "vim is not one of" in project("compare", "hooks.json", "--dialect", "vim").err
    assert project("compare", "gone.sh").code == 2

"""`picohook new`: what it makes is built, tested and held to the protocol as its README says."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import preloaded
import pytest
import toolchains
from program import PATIENCE

from picohook.cli.commands.new import contents
from picohook.config import load
from picohook.model.stages import STAGES

pytestmark = pytest.mark.timeout(toolchains.COMPILING + 60)

ALL = ",".join(STAGES)
LANGUAGES = ("python", "node", "typescript", "go", "rust", "bash")
NEEDS = {
    "python": ("python3",),
    "node": ("node",),
    "typescript": ("node", str(toolchains.NODE_MODULES / ".bin" / "tsc")),
    "go": ("go",),
    "rust": ("cargo",),
    "bash": ("bash", "jq"),
}


@pytest.fixture
def new(project):
    """Makes a hook, and gives what it says of it."""
    project.env["PATH"] = os.pathsep.join((toolchains.programs(), preloaded.programs(), project.env["PATH"]))

    def run(language, stages=ALL, name="made"):
        missing = [program for program in NEEDS[language] if shutil.which(program) is None]
        if missing:
            pytest.skip(f"there is no {missing[0]}")
        done = project("new", name, "--lang", language, "--stages", stages, "--json")
        assert (done.code, done.err) == (0, "")
        made = done.json
        project.path = Path(made["dir"])
        return made

    return run


def in_shell(project, command):
    """What its reader would type: with their own home, where compilers keep what they have compiled."""
    return subprocess.run(
        ["bash", "-c", command],
        cwd=project.path,
        env={**project.env, "HOME": os.environ["HOME"], "CARGO_INCREMENTAL": "0", "CARGO_PROFILE_DEV_DEBUG": "0"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=toolchains.COMPILING,
        check=False,
    )


def build(project, made):
    if made["build"] is None:
        return
    built = in_shell(project, made["build"])
    assert built.returncode == 0, built.stdout
    assert "warning" not in built.stdout


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_hook_for_all_stages_passes_its_test_and_conforms(project, new, language):
    made = new(language)
    build(project, made)

    tested = in_shell(project, made["test"])
    conforms = project("conformance", "--json", "--stages", ALL, "--", *made["run"])

    assert tested.returncode == 0, tested.stdout
    assert conforms.code == 0, conforms.out
    unkept = [one["id"] for one in conforms.json["requirements"] if one["status"] == "fail"]
    assert unkept == []
    document = (project.path / "README.md").read_text()
    assert f"`{made['test']}`" in document
    assert f"`picohook conformance -- {' '.join(made['run'])}`" in document


@pytest.mark.parametrize("language", ["python", "go", "bash"])
def test_the_test_fails_if_the_hook_does_not_work(project, new, language):
    made = new(language, "before_tool")
    source = next(project.path / name for name in made["files"] if name.startswith("hook."))
    source.write_text(source.read_text().replace('"rm -rf"', '"nothing"'))

    assert in_shell(project, made["test"]).returncode != 0


def test_doctor_finds_no_problem_in_a_new_hook(project, new):
    new("python", "before_tool,approve_tool")

    done = project("doctor", "--config", "picohook.toml", "--json")

    findings = [one for one in done.json["findings"] if one["about"] != "this machine"]
    assert {one["check"] for one in findings if one["level"] != "ok"} == {"stdio"}  # how to guard an approver's pipes
    assert "canary" in {one["check"] for one in findings}


def test_go_takes_it_without_imports_that_are_not_used(project, new):
    made = new("go", "after_tool")
    build(project, made)

    tested = in_shell(project, made["test"])

    assert tested.returncode == 0, tested.stdout


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_new_hook_has_only_the_stages_that_were_asked_for(tmp_path, language, stage):
    texts = contents("one-stage", language, [stage])

    for name, text in texts.items():
        assert re.search(r"^@(if|end)|@\w+@", text, re.MULTILINE) is None, name
        assert [other for other in STAGES if other in text and other != stage] == []
        if name.endswith(".py"):
            compile(text, name, "exec")
    assert any(stage in text for name, text in texts.items() if name != "picohook.toml")
    config = tmp_path / "picohook.toml"
    config.write_text(texts[config.name])
    (spec,) = load(config).hooks
    assert (spec.name, list(spec.stages)) == ("one-stage", [stage])
    assert (spec.canary is not None) == (stage in {"before_tool", "approve_tool"})


def test_the_next_steps_are_printed(project):
    done = project("new", "guard", "--stages", "approve_tool, before_tool")

    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{project.path}/guard: a hook in Python for before_tool, approve_tool",
        "  README.md",
        "  hook.py",
        "  picohook.toml",
        "  test_hook.py",
        "Test it:",
        f"  cd {project.path}/guard",
        "  python3 -m unittest",
    ]


def test_an_empty_directory_is_accepted_even_the_current_one(project):
    done = project("new", ".")

    assert done.code == 0
    assert {path.name for path in project.path.iterdir()} == {"README.md", "hook.py", "picohook.toml", "test_hook.py"}
    assert load(project.config).hooks[0].name == "project"


def test_existing_files_are_left_alone(project):
    (project.path / "full").mkdir()
    (project.path / "full" / "mine").write_text("mine")
    (project.path / "file").write_text("mine")

    full, file, below = project("new", "full"), project("new", "file"), project("new", "file/below")

    assert (full.code, full.err) == (
        1,
        f"Error: {project.path}/full is not empty: name an empty directory, or a new one\n",
    )
    assert (file.code, below.code) == (1, 1)
    assert [path.name for path in (project.path / "full").iterdir()] == ["mine"]
    assert (project.path / "file").read_text() == "mine"


def test_a_hook_that_cannot_be_written_is_an_error(project):
    def little():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))

    with project.start("new", "made", "--lang", "rust", preexec_fn=little) as process:
        _, err = process.communicate(timeout=PATIENCE)

    assert (process.returncode, err) == (1, f"Error: {project.path}/made cannot be written: File too large\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["made", "--lang", "pyton"], 'there is no "pyton" (did you mean "python"?)'),
        (["made", "--stages", "before_tol"], 'there is no "before_tol" (did you mean "before_tool"?)'),
        (["made", "--stages", ","], "name one at least (known: before_prompt"),
        (["my hook"], '"my hook" cannot be a hook\'s name: take letters, digits, - and _'),
    ],
)
def test_wrong_usage_suggests_the_right_name(project, arguments, said):
    done = project("new", *arguments)

    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert list(project.path.iterdir()) == []


def test_a_missing_language_is_a_warning_and_the_hook_is_written(project):
    (project.path / "bin").mkdir()

    done = project("new", "made", "--lang", "go", "--json", env={"PATH": str(project.path / "bin")})

    assert done.code == 0
    assert json.loads(done.out)["language"] == "go"
    assert done.err == "Warning: go is not on the PATH: the hook needs Go 1.21 or newer\n"

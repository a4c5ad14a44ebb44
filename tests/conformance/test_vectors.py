"""The vector files: their format, for suites in other languages, and that they agree with the package."""

from __future__ import annotations

import json
import sys
from collections import Counter
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest
from rows import each

from picohook.conformance import manifest
from picohook.conformance.answer_checks import ReceivedAnswer
from picohook.conformance.line_checks import LINE_CHECKS, Output
from picohook.conformance.process import OutputLine
from picohook.model.payloads import Meta, ToolResult
from picohook.model.stages import MODES, STAGES
from picohook.wire import words

sys.path.insert(0, str(Path(__file__).parents[2] / "docs/site"))

import requirements

VECTORS = files("picohook.conformance") / "vectors"
HOOK, HOST = manifest.load("hook"), manifest.load("host")
EVERY = [*HOOK.requirements, *HOST.requirements]
LIKES = {name.removeprefix("like_") for name in vars(ReceivedAnswer) if name.startswith("like_")}
WATCHED = [one for one in HOOK.requirements if "watch" in one.vector]


def test_they_fit_their_schema():
    schema = json.loads((VECTORS / "schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    for side in ("hook", "host"):
        jsonschema.validate(json.loads((VECTORS / f"{side}.json").read_text()), schema)


def test_ids_are_unique_in_order_and_under_a_section():
    assert [name for name, times in Counter(one.id for one in EVERY).items() if times > 1] == []
    for side in (HOOK, HOST):
        counted = Counter()
        for one in side.requirements:
            prefix, _, number = one.id.rpartition("-")
            counted[prefix] += 1
            assert int(number) == counted[prefix]
        assert counted.keys() == side.data["sections"].keys()


def test_the_reference_page_is_current():
    assert requirements.PAGE.read_text(encoding="utf-8") == requirements.document(), "make reference writes it"


@each("word", ["expect", "ask", "like", "sees", "never", "$repeat", *sorted(LIKES)])
def test_the_readme_explains_every_word(word):
    assert f"`{word}`" in (VECTORS / "README.md").read_text() or f'"{word}"' in (VECTORS / "README.md").read_text()


def test_every_like_has_its_check():
    likes = {step["like"] for one in HOOK.requirements for step in one.vector.get("steps", ()) if "like" in step}
    assert likes == LIKES


def test_every_watch_has_its_check():
    assert {one.id for one in WATCHED} == LINE_CHECKS.keys()


@pytest.mark.parametrize(
    ("requirement", "expected", "output"),
    [
        pytest.param(one.id, expected, output, id=f"{one.id}-{expected}-{place}")
        for one in WATCHED
        for expected in ("good", "bad")
        for place, output in enumerate(one.vector["watch"][expected])
    ],
)
def test_a_line_check_tells_good_output_from_bad(requirement, expected, output):
    asked = {1: "hook.hello", 2: "hook.before_tool", 3: "hook.approve_tool"}
    complaints = [*LINE_CHECKS[requirement](Output([as_line(line) for line in output], list(asked), asked))]
    assert bool(complaints) is (expected == "bad"), complaints


def as_line(line):
    match line:
        case {"hex": digits}:
            return OutputLine(bytes.fromhex(digits))
        case {"$repeat": _}:
            return OutputLine(manifest.filled(line, {}).encode())
        case {"unended": text}:
            return OutputLine(text.encode(), ended=False)
    return OutputLine(line.encode("utf-8", "surrogatepass"))


def test_each_stage_has_a_valid_payload_and_a_requirement():
    payloads = HOOK.data["payloads"]
    for name, stage in STAGES.items():
        stage.payload.model_validate(manifest.filled(payloads[name], payloads))
    assert {one.vector["stage"] for one in HOOK.requirements if "stage" in one.vector} == STAGES.keys()


def test_modes_and_shapes_are_those_of_the_package():
    shapes = HOST.data["shapes"]
    assert HOST.data["modes"] == {words.OBSERVE: [], **{mode: list(stages) for mode, stages in MODES.items()}}
    assert HOST.data["modes"].keys() == {words.OBSERVE, *MODES}
    assert HOOK.data["modes"] == HOST.data["modes"]
    assert set(HOOK.data["profiles"]["picohook"]["modes"]) == {words.OBSERVE, *MODES}
    for name, stage in STAGES.items():
        fields = {field.removesuffix("?") for field in shapes[name]}
        known = {field.alias or key for key, field in stage.payload.model_fields.items()}
        assert fields <= known
        assert known - fields <= {"context", "channel", "chat_id"}
    assert shapes["meta"].keys() == Meta().wire().keys()
    assert {field.removesuffix("?") for field in shapes["tool_result"]} == ToolResult().wire().keys()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": [{"$repeat": ["ab", 3]}]}, {"a": ["ababab"]}),
        ({"$nest": 3}, [[[]]]),
        ({"$nest": 1}, []),
        ([{"$use": "one"}], [{"n": "xx"}]),
    ],
)
def test_placeholders_are_filled(value, expected):
    assert manifest.filled(value, {"one": {"n": {"$repeat": ["x", 2]}}}) == expected


def test_an_unknown_format_is_refused(monkeypatch, tmp_path):
    (tmp_path / "later.json").write_text('{"format": 2}')
    monkeypatch.setattr(manifest, "VECTORS", str(tmp_path))
    with pytest.raises(ValueError, match="the vectors have format 2, and this reads 1"):
        manifest.load("later")

"""A paused turn of every version is resumed. `versions/N.json` was written when N was the version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from turns import KEY, Model, Tools, host_with, says

from picohook import Continue, FunctionHook, Pause, PicohookError
from picohook.sessions.paused import VERSION, PausedTurn

pytestmark = pytest.mark.anyio

VERSIONS = Path(__file__).parent / "versions"


def test_there_is_a_paused_turn_of_every_version():
    assert {path.name for path in VERSIONS.iterdir()} == {f"{version}.json" for version in range(1, VERSION + 1)}


def asks_before_writing(log):
    """A hook that pauses before `write`, and notes what it is asked about."""

    def before(call):
        log.append(call.tool)
        return Pause("may it write?") if call.tool == "write" else None

    return FunctionHook("asks", {"before_tool": before, "approve_tool": lambda _: True})


@pytest.mark.parametrize("version", range(1, VERSION + 1))
async def test_a_paused_turn_of_every_version_is_resumed_with_an_answer(version):
    paused = PausedTurn.from_json((VERSIONS / f"{version}.json").read_bytes(), KEY)
    assert (paused.hook, paused.reason) == ("asks", "may it write?")
    log: list[str] = []
    tools, model = Tools(), Model(says("done"))
    async with (
        host_with(asks_before_writing(log)) as host,
        host.session("s1") as session,
        session.resume(paused, Continue()) as turn,
    ):
        outcome = await turn.run(complete=model.complete, execute=tools.execute)
    assert outcome.response["content"] == "done"
    assert sorted(tools.ran) == ["read", "write"]
    assert "write" not in log  # the answer stands for its decision


@pytest.mark.parametrize("version", [0, VERSION + 1, "1", None])
def test_another_version_is_refused_with_both_versions(version):
    text = json.loads((VERSIONS / "1.json").read_text())
    text["turn"]["version"] = version
    with pytest.raises(PicohookError) as raised:
        PausedTurn.from_json(json.dumps(text))
    assert str(raised.value) == f"the paused turn is of version {version!r}, and this picohook reads version {VERSION}"

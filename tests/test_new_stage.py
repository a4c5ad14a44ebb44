"""A new stage is one row, one payload class and one method of the host: every other part reads the row."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

from picohook.cli.commands.new import _LANGUAGES
from picohook.model.stages import STAGES
from picohook.sdk.calls import STAGES as SDK_STAGES

PROGRAM = Path(__file__).with_name("a_new_stage.py")
SOURCES = Path(__file__).parents[1] / "picohook"

PAYLOAD = '''

class Sleep(Payload):
    """The agent is about to sleep: the payload of before_sleep."""

    seconds: float
    note: str = ""
'''
ROW = """
from .payloads import Sleep

BEFORE_SLEEP: Stage[Sleep] = Stage("before_sleep", "sleep", Sleep, fields=("seconds",), about="The agent is about to sleep.")

"""
METHOD = """    async def before_sleep(self, sleep):
        return await self.ask("before_sleep", sleep)

"""


def insert(file: Path, text: str, before: str | None = None) -> None:
    whole = file.read_text()
    place = len(whole) if before is None else whole.index(before)
    file.write_text(whole[:place] + text + whole[place:])


def test_a_new_stage_needs_a_row_a_payload_and_a_method_of_the_host(tmp_path):
    package = tmp_path / "lib" / "picohook"
    shutil.copytree(SOURCES, package)
    insert(package / "model" / "payloads.py", PAYLOAD)
    insert(package / "model" / "stages.py", ROW, before="STAGES: dict")
    insert(package / "engine" / "asker.py", METHOD, before="    def ask(")
    here = tmp_path / "here"
    here.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(package.parent), "HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM)],
        cwd=here,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["payload"]["seconds"] == 6  # `picohook call`
    assert json.loads((here / "facts.json").read_text()) == {
        "host": {"seconds": 4, "counted": 1},
        "modes": ["sleep"],
        "schema": True,
        "record": {"stage": "before_sleep", "action": "modify"},
        "blocking": 2,
        "sidecar": ["before_sleep"],
        "templates": [*_LANGUAGES],
    }


def test_the_sdk_has_a_view_of_every_stage_that_says_the_same_as_its_row():
    assert SDK_STAGES.keys() == STAGES.keys()
    for name, row in STAGES.items():
        view = SDK_STAGES[name]
        assert (view.mode, view.carries, view.part) == (
            row.mode,
            row.carries if not row.approves else "",
            row.part or "",
        )

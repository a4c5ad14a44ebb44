"""Run in a copy of the package that has one more stage, `before_sleep`: notes what each part of picohook makes of it."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from typer.testing import CliRunner

from picohook import FunctionHook, Host, Modify, Recorder
from picohook.cli.app import app
from picohook.cli.commands.new import _LANGUAGES, contents
from picohook.config import load, schema
from picohook.ext.record.reader import Record
from picohook.ext.sidecar.methods.openrpc import openrpc
from picohook.model.payloads import Sleep

HOOK = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked.get("id") and asked["method"] == "hook.hello":
        result = {"ok": True, "name": "sleepy", "modes": asked["params"]["modes"]}
    elif asked.get("id"):
        result = {"action": "modify", "seconds": asked["params"]["seconds"] + 1}
    else:
        continue
    print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)
"""

CONFIG = f"""
[hooks.sleepy]
command = [{json.dumps(sys.executable)}, "sleepy.py"]
stages = ["before_sleep"]
timeouts = {{ before_sleep = 30 }}
"""


async def asked_in_code(record: Path) -> dict[str, object]:
    hook = FunctionHook("longer", {"before_sleep": lambda sleep: Modify({"seconds": sleep.seconds * 2})})
    async with Host([hook], listeners=[Recorder(record)]) as host:
        outcome = await host.before_sleep(Sleep(seconds=2))
        (status,) = host.status().hooks
    return {"seconds": outcome.payload.seconds, "counted": status.stages["before_sleep"]["executions"]}


def recorded(path: Path) -> dict[str, str]:
    with path.open("rb") as file:
        ((end, chain),) = [(line, chain) for line, chain in Record(file, str(path)) if line["type"] == "end"]
    return {"stage": chain.stage.name, "action": end["action"]}


def main() -> None:
    here = Path.cwd()
    (here / "sleepy.py").write_text(HOOK)
    (here / "picohook.toml").write_text(CONFIG)
    (spec,) = load(here / "picohook.toml").hooks
    hook_properties = schema()["$defs"]["HookSpec"]["properties"]
    record = here / "record.jsonl"
    host = asyncio.run(asked_in_code(record))
    arguments = ["call", "before_sleep", "--config", "picohook.toml", "--params", '{"seconds": 5}', "--json"]
    assert CliRunner().invoke(app, arguments).exit_code == 0  # it writes to the real standard output
    with Host.blocking(here / "picohook.toml") as blocking:
        answered = blocking.before_sleep({"seconds": 1}).payload.seconds
    facts = {
        "host": host,
        "modes": spec.modes,
        "schema": "before_sleep" in hook_properties["stages"]["items"]["enum"],
        "record": recorded(record),
        "blocking": answered,
        "sidecar": [method["name"] for method in openrpc()["methods"] if method["name"] == "before_sleep"],
        "templates": [
            lang
            for lang in _LANGUAGES
            if any("The agent is about to sleep." in text for text in contents("x", lang, ["before_sleep"]).values())
        ],
    }
    (here / "facts.json").write_text(json.dumps(facts))


main()

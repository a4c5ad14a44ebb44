"""What a grant costs: a call that one answers, against the same call where nobody is asked."""

from __future__ import annotations

import os
import tempfile
from functools import partial
from typing import Any

from picohook import Approve, FunctionHook, Host, Meta, ToolCall
from picohook.ext.approvals import world
from picohook.ext.approvals.grants import Facts, Grant
from picohook.ext.approvals.grants_part import GrantsPart
from picohook.ext.approvals.grants_store import GrantStore

from .given import FAR, Given, on
from .measure import Row, Times, alternate, on_one_core, p50

PLAIN, OTHER = 30.0, 300.0
"""The most microseconds more: of a grant that is not counted and reads no command, and of any other."""
OTHERS = 50_000
META = Meta(session_key="s", agent_id="a")


def _call(tool: str, **arguments: Any) -> ToolCall:
    return ToolCall(tool=tool, arguments=arguments, meta=META)


CALLS = {
    "equal": (_call("equal", path="src/a.py", text="x"), {"for": "session"}),
    "under": (_call("under", path="src/a.py", text="x"), {"for": "session", "like": {"path": {"under": "src"}}}),
    "counted": (_call("counted", path="src/a.py"), {"for": "session", "times": 10_000}),
    "command": (
        _call("bash", command="npm run test"),
        {"for": "session", "like": {"command": {"starts": ["npm", "run"]}}},
    ),
}


def _approve(call: ToolCall) -> Approve:
    return Approve(grant=next(grant for own, grant in CALLS.values() if own.tool == call.tool))


async def _read_by_guards(call: ToolCall) -> None:
    command, here = call.arguments["command"], os.getcwd()
    world.command_words(command, here)
    world.is_harmless(call.tool, call.arguments, command, here)


def _keep_others() -> None:
    """Keep many grants of the same hook, tools and session, which are for other calls."""
    store = GrantStore()
    with store._writing():  # noqa: SLF001 - one transaction, or it would take minutes
        for number in range(OTHERS):
            key = Facts(_call("equal", number=number)).key("m", [])
            grant = Grant(f"{number:x}", "person", "session", "s", "equal", {}, {}, 0.0, 9e9, "x")
            row = (grant.id, key, 0.0, 9e9, None, "{}")
            store._db.execute("INSERT INTO grants VALUES (?, ?, ?, ?, ?, ?)", row)  # noqa: SLF001
        store._db.execute("INSERT OR IGNORE INTO forms VALUES (?, ?)", ("m", "[]"))  # noqa: SLF001
    store.close()


async def _measured(given: Given) -> Times:
    person = FunctionHook("person", {"approve_tool": _approve})
    part = GrantsPart()
    async with Host([], timeouts=FAR) as nobody, Host([person], parts=[part], timeouts=FAR) as granting:
        for call, _ in CALLS.values():
            await granting.approve_tool(call)
        asked = {name: partial(granting.approve_tool, call) for name, (call, _) in CALLS.items()}
        count = given.times(1000)
        taken = await alternate(
            3 * given.rounds,
            nobody=p50(count, partial(nobody.approve_tool, CALLS["equal"][0])),
            guards=p50(count, partial(_read_by_guards, CALLS["command"][0])),
            **{name: p50(count, ask) for name, ask in asked.items()},
        )
        if not part.uses:
            raise AssertionError("no grant was used")
        return taken


def grants(given: Given) -> list[Row]:
    """The microseconds that a call takes longer if a grant answers, with many grants of others in the file."""
    before = dict(os.environ)
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as place, on_one_core():
        os.environ["XDG_STATE_HOME"] = place
        os.makedirs(os.path.join(place, "src"))
        os.chdir(place)
        try:
            _keep_others()
            at = on("asyncio", partial(_measured, given))
        finally:
            os.chdir(here)
            os.environ.clear()
            os.environ.update(before)
    rows = []
    for name in CALLS:
        own = partial(_more, name, "guards" if name == "command" else "")
        must = PLAIN if name in {"equal", "under"} else OTHER
        rows.append(Row(f"a grant ({name}) beside {OTHERS:,} others", at.each_round(own), "us more", must=must))
    return rows


def _more(name: str, beside: str, at: dict[str, float]) -> float:
    return 1e6 * (at[name] - at["nobody"] - at.get(beside, 0.0))

"""Runs an agent's program with `picohook shim` and a hook with `ask = "queue"`, and answers its calls in the queue."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from guarded import guarded, run_with_shim

from picohook.ext.approvals.queue import Answer, Queue

if TYPE_CHECKING:
    from programs import Program

CONFIG = '[hooks.person]\nask = "queue"\n'
CALLS = ("touch person-yes", "touch person-no", "touch person-late", "touch fine")
"""The guard pauses the first three. Nobody answers the third."""
ANSWERS = {"touch person-yes": Answer(True, "", "a test"), "touch person-no": Answer(False, "use git mv", "a test")}
TIMEOUT = 20
"""Seconds after which the agent gives up a hook."""


def problems_in_queue(program: Program) -> list[str]:
    """What the answers in the queue should have done to an agent's calls, and did not."""
    early, answered = [], []
    with guarded(CONFIG) as here:
        queue = Queue(str(here.home / ".local/state/picohook/approvals"))

        def answer() -> None:
            for one in queue.waiting():
                command = json.loads(one.call)["arguments"]["command"]
                if (here.project / command.removeprefix("touch ")).exists():
                    early.append(command)
                if command in ANSWERS:
                    queue.answer(one.id, ANSWERS[command])
                    answered.append(command)

        script = [[program.call(f"c{at}", command)] for at, command in enumerate(CALLS)]
        said, model = run_with_shim(program, here, script, timeout=TIMEOUT, watch=answer)
        left = queue.count()
        queue.close()
        ran = {command for command in CALLS if (here.project / command.removeprefix("touch ")).exists()}
    told = {command: model.results.get(f"c{at}", "") for at, command in enumerate(CALLS)}
    checks = {
        f"ran before its answer: {early}": not early,
        f"waited in the queue: {answered}": answered == [*ANSWERS],
        f"ran: {sorted(ran)}": ran == {"touch person-yes", "touch fine"},
        f"the model was told of the no: {told['touch person-no']!r}": "use git mv" in told["touch person-no"],
        f"the model was told of the time: {told['touch person-late']!r}": "no answer in time"
        in told["touch person-late"],
        f"{left} calls wait at the end": left == 0,
    }
    found = [what for what, is_so in checks.items() if not is_so]
    return [*found, said[-1500:]] if found else []

"""The probe: a hook that checks its host against the protocol, and writes a report. Standard library only.

It checks every incoming line. It answers the tool calls in `vectors/host.json` as that file says, and checks in later stages
what the host did with the answer. It lets everything else pass.
"""

import json
import signal
import time
from collections.abc import Mapping
from typing import Any

from ..errors import PicohookError
from ..wire import words
from .manifest import Requirement, filled, load
from .outcome import difference, has_half_pair, shown, strictly
from .probe_streams import Streams
from .report import FAIL, PASS, SKIP, UNTRIED, Report, Result, save

UNTIL_FULL = 20.0
"""Seconds that a host gets to fill a pipe, if it has enough to send."""

KILLED = "the host ended the probe before it was seen"

_TYPES = {"string": str, "integer": int, "boolean": bool, "array": list, "object": dict}


class ScriptedCall:
    """A tool call that the host has to make, with the answers of the probe and what came of it."""

    def __init__(self, requirement: str, script: Mapping[str, Any]) -> None:
        self.requirement = requirement
        self.script = script
        self.came: list[str] = []
        """The stages that came."""

    @property
    def is_made(self) -> bool:
        """Whether the stage came at which the probe answers."""
        return ("approve_tool" if "approve_tool" in self.script else "before_tool") in self.came


class Probe:
    """Checks one host, and answers it."""

    def __init__(self, streams: Streams, path: str, hold: float | None = None) -> None:
        self.manifest = load("host")
        self._acts = {
            one.vector["probe"]["name"]: (one.id, one.vector["probe"]["seconds"] if hold is None else hold)
            for one in self.manifest.requirements
            if "probe" in one.vector
        }
        """For each name under which the probe misbehaves, the requirement, and for how long."""
        self._acting = ""
        """The requirement for which the probe misbehaves; "" if it does not."""
        self.over = False
        """Whether all checks are done."""
        self._deaf = False
        """Whether it has answered hello and then read nothing for a while: each line is checked for that requirement alone."""
        self._path = path
        self._saved: tuple[int, ...] = ()
        """The number of requirements with evidence when the report was last saved."""
        self._answers: list[bytes] = []
        """The answers to the line that is checked. What it shows is saved before they are sent: the host may end the probe."""
        self.greeted = False
        self.host = "a host"
        self._streams = streams
        self._seen: set[str] = set()
        self._faults: dict[str, str] = {}
        self._ids: list[int] = []
        self._known = {stage for stages in self.manifest.data["modes"].values() for stage in stages}
        self._stages: set[str] = set()
        """The stages of the modes that the host named."""
        self._calls = {
            call["tool"]: ScriptedCall(one.id, filled(call, {}))
            for one in self.manifest.requirements
            for call in one.vector.get("calls", ())
        }
        self._latest: ScriptedCall | None = None
        """The call that came last."""
        self._awaited: dict[object, tuple[str, int]] = {}
        """The requirement and the expected error code of each request that the probe has sent."""

    def _check(self, requirement: str, holds: bool, said: str) -> bool:  # noqa: FBT001 - the result of the check
        self._seen.add(requirement)
        if not holds:
            self._faults.setdefault(requirement, said)
        return holds

    # Lines.

    def take(self, line: bytes) -> None:
        """Check a line, save the findings, and answer a request."""
        if line.strip():
            self._read(line)
            self.save_news()
            self._send()

    def _read(self, line: bytes) -> None:
        message, odd = _parsed(line)
        said = f"it wrote {shown(line)}"
        self._check(self._acting if self._deaf else "HOST-LINE-1", message is not None, said)
        if self._deaf or message is None:
            return
        self._check("HOST-LINE-3", not odd, f"{odd and odd[0]}: {said}")
        said = f"it wrote {shown(message)}"
        self._check("HOST-RPC-1", message.get("jsonrpc") == "2.0", said)
        method = message.get("method")
        if not isinstance(method, str):
            self._answered(message)
        elif self._check("HOST-RPC-2", isinstance(message.get("params"), dict), said):
            asks = "id" in message
            expected = method != words.HELLO if self.greeted else method == words.HELLO and asks
            self._check("HOST-HELLO-1", expected, said)
            (self._asked if asks else self._told)(method, message)

    def _answered(self, message: Mapping[str, Any]) -> None:
        """Check an answer of the host, which may answer only requests of the probe."""
        said = f"it answered {shown(message)}"
        request_id = message.get("id")
        requirement, code = self._awaited.pop(request_id if isinstance(request_id, str) else None, ("HOST-ASK-2", 0))
        error = message.get("error")
        refused = isinstance(error, dict) and error.get("code") == code
        self._check(requirement, refused and requirement != "HOST-ASK-2", said)

    # Requests.

    def _asked(self, method: str, message: Mapping[str, Any]) -> None:
        request_id, said = message["id"], f"it asked {shown(message)}"
        if method in {words.EVENT, words.RUNTIME_EVENT}:
            self._check("HOST-EVENT-1", holds=False, said=said)
            return
        if self._check("HOST-ID-1", type(request_id) is int and request_id > 0, said):
            if self._check("HOST-ID-2", request_id not in self._ids, said):
                self._check("HOST-ID-3", request_id > self._ids[-1] if self._ids else request_id == 1, said)
            self._ids.append(request_id)
        stage = method.removeprefix("hook.")
        if method == words.HELLO:
            self._hello(message, said)
        elif self._check("HOST-CALL-1", stage in (self._stages if self.greeted else self._known), said):
            self._ask(stage, message, said)
        else:
            self._reply(message, {"error": {"code": words.METHOD_NOT_FOUND, "message": "no such method"}})

    def _hello(self, message: Mapping[str, Any], said: str) -> None:
        params, modes = message["params"], self.manifest.data["modes"]
        named = [mode for mode in params["modes"] if mode in modes] if isinstance(params.get("modes"), list) else []
        good = self._fits("hello", params) is None and params["version"] == words.VERSION
        self._check("HOST-HELLO-2", good and named == params.get("modes"), said)
        name = params.get("name")
        self.host = f"the host of {shown(name)}"
        if isinstance(name, str) and name in self._acts:
            self._act(name, message)
            return
        self._stages = {stage for mode in named for stage in modes[mode]}
        if not self.greeted:
            self._check(
                "HOST-HELLO-3", not self._streams.speaks_early(), "it sent more before its greeting was answered"
            )
        self.greeted = True
        self._reply(message, {"result": {"ok": True, "name": "probe"}})

    def _act(self, name: str, message: Mapping[str, Any]) -> None:
        """Misbehave as this name says."""
        self._acting, seconds = self._acts[name]
        self.greeted = True
        if name == "probe_mute":
            self._check(self._acting, holds=True, said="")  # now: a host that kills the probe leaves it no time later
            self.save_news()
            self._check(
                self._acting, self._streams.ends(seconds), f"it had not ended the probe after {seconds:g} seconds"
            )
            self.over = True
            return
        self._reply(message, {"result": {"ok": True, "name": "probe"}})
        self.save_news()
        self._send()
        self._deaf = True
        if self._streams.fills(UNTIL_FULL):
            self._check(self._acting, holds=True, said="")
            self.save_news()
            time.sleep(seconds)

    def _ask(self, stage: str, message: Mapping[str, Any], said: str) -> None:
        params = message["params"]
        self._check_shape("HOST-CALL-2", stage, params, said)
        if isinstance(params.get("meta"), dict):
            self._check_shape("HOST-CALL-3", "meta", params["meta"], said, "meta.")
        if stage == "after_llm":
            self._check("HOST-CALL-5", "partial" not in params, said)
        if stage == "after_tool" and isinstance(params.get("result"), dict):
            self._check_shape("HOST-CALL-4", "tool_result", params["result"], said, "result.")
        call = self._calls.get(params.get("tool", ""))
        script = {} if call is None else call.script
        if call is not None:
            self._look(call, stage, params, said)
        for reply in script.get(stage, ()):
            self._answers.append(_scripted(reply, message["id"]))
        if stage not in script:
            self._reply(message, {"result": self.manifest.data["answers"].get(stage, {"action": words.CONTINUE})})
        if call is not None and stage == "before_tool" and "answered" in script:
            self._awaited[script["answered"]["id"]] = call.requirement, script["answered"]["code"]

    def _look(self, call: ScriptedCall, stage: str, params: Mapping[str, Any], said: str) -> None:
        """Check the effect of the answer to an earlier stage of this call."""
        if stage in call.script.get("never", ()):
            self._faults.setdefault(call.requirement, said)
        if stage != "before_tool" and "sees" in call.script:
            differs = difference(call.script["sees"], params.get("arguments", {}), "arguments")
            if differs is not None:
                self._faults.setdefault(call.requirement, f"{differs}: {said}")
        if (
            stage == "after_tool"
            and "approve_tool" in self._stages - {*call.came}
            and call.requirement == "HOST-FLOW-1"
        ):
            self._faults.setdefault(call.requirement, "it called the tool without approve_tool")
        call.came.append(stage)
        self._latest = call

    def _check_shape(self, requirement: str, shape: str, value: Mapping[str, Any], said: str, place: str = "") -> None:
        wrong = self._fits(shape, value)
        self._check(requirement, wrong is None, f"{place}{wrong}: {said}")

    def _fits(self, name: str, value: Mapping[str, Any]) -> str | None:
        """Returns what is wrong with a value that should have this shape; None if it fits."""
        for key, kind in self.manifest.data["shapes"][name].items():
            field, optional = key.removesuffix("?"), key.endswith("?")
            if field not in value:
                if not optional:
                    return f"{field} is missing"
            elif type(value[field]) is not _TYPES[kind]:
                return f"{field} is not of type {kind}"
        return None

    def _reply(self, message: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        self._answers.append(_line({"jsonrpc": "2.0", "id": message["id"], **answer}))

    def _send(self) -> None:
        self._streams.send(b"".join(self._answers))
        self._answers.clear()

    # Notifications and the end.

    def _told(self, method: str, message: Mapping[str, Any]) -> None:
        said = f"it told {shown(message)}"
        if self._check("HOST-EVENT-3", method in {words.EVENT, words.RUNTIME_EVENT}, said):
            self._check("HOST-EVENT-1", holds=True, said="")
            self._check_shape("HOST-EVENT-2", method, message["params"], said)

    def end(self, *, signalled: bool) -> None:
        """Make the checks that need the end of the input, and save the report. Raises `PicohookError` if that fails."""
        rest = self._streams.rest
        last = f"its last bytes were {shown(rest)}"
        if self._deaf and self._acting in self._seen:
            self._check(self._acting, not rest, last)
        if not self._acting:  # the host may end a hook that misbehaves in any way
            self._check("HOST-LINE-2", not rest, last)
            self._check("HOST-END-1", not signalled, "it sent SIGTERM while the input was open")
        self._save(complete=True)

    def save_news(self) -> None:
        """Save the report at the start, which discards that of an earlier host, and whenever it has news.

        The report of a probe that misbehaves is complete, because its host may kill it. Raises `PicohookError` if that fails.
        """
        news = len(self._seen), len(self._faults), sum(len(call.came) for call in self._calls.values()), self.greeted
        if news != self._saved:
            self._saved = news
            self._save(complete=self._acting in self._seen)

    def _save(self, *, complete: bool) -> None:
        results = [self._result(one, complete=complete) for one in self.manifest.requirements]
        report = Report(self.manifest, self.host, results, complete)
        try:
            save(self._path, json.dumps(report.wire(), indent=1).encode() + b"\n")
        except OSError as error:
            raise PicohookError(f"{self._path} cannot be written: {error.strerror}") from None

    def _result(self, one: Requirement, *, complete: bool) -> Result:
        if one.id in self._faults:
            return Result(one, FAIL, one.wants, self._faults[one.id])
        if "calls" in one.vector:
            return self._result_of_calls(one, complete=complete)
        if one.id in self._seen:
            return Result(one, PASS)
        if "probe" in one.vector:
            name = one.vector["probe"]["name"]
            empty = self._deaf and one.id == self._acting
            return Result(one, UNTRIED, said="its input was never full" if empty else f"there was no hook named {name}")
        if complete and not self._acting:
            return Result(one, SKIP, said="the host gave no occasion to check it")
        return Result(one, UNTRIED, said="this probe misbehaves" if self._acting else KILLED)

    def _result_of_calls(self, one: Requirement, *, complete: bool) -> Result:
        """Returns the result of calls in which no fault was seen so far. A call is over when another comes, or at the end."""
        calls = [self._calls[call["tool"]] for call in one.vector["calls"]]
        if absent := [call.script["tool"] for call in calls if not call.is_made]:
            return Result(one, UNTRIED, said=f"the host made no call of {', '.join(absent)}")
        for call in calls:
            script, ended = call.script, "after_tool" in call.came
            if not complete and call is self._latest and not ended:
                return Result(one, UNTRIED, said=KILLED)
            if "sees" in script and not ended and not script.get("or_ends"):
                return Result(one, FAIL, one.wants, f"after_tool never came for {script['tool']}")
            if "answered" in script and script["answered"]["id"] in self._awaited:
                return Result(one, FAIL, one.wants, "it never answered")
            if "sees" not in script and "after_tool" not in self._calls["probe_plain"].came:
                # If no after_tool came at all, a missing one proves nothing.
                return Result(one, UNTRIED, said="after_tool did not come for probe_plain either")
        return Result(one, PASS)


def _parsed(line: bytes) -> tuple[dict[str, Any] | None, list[str]]:
    """Returns the object on a line, or None, and what JSON alone would allow in it."""
    try:
        message, doubled, odd = strictly(line.decode())
    except (ValueError, RecursionError):
        return None, []
    if not isinstance(message, dict):
        return None, []
    twice, half = ["a key is there twice"] * bool(doubled), ["half a surrogate pair"] * has_half_pair(message)
    return message, twice + odd + half


def _scripted(reply: Any, request_id: Any) -> bytes:
    """Returns the bytes of a vector's reply to this request. The reply is a message, a text or bytes."""
    number = json.dumps(request_id)
    if isinstance(reply, str):
        return reply.replace("$ID", number).encode()
    if "hex" in reply:
        return bytes.fromhex(reply["hex"])
    return _line(reply).replace(b'"$ID"', number.encode())


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


class _SignalledError(BaseException):
    pass


def serve(path: str, hold: float | None = None) -> None:
    """Run the probe on the standard streams, and write the report to the path.

    `hold` is the number of seconds that the probe misbehaves, in place of that in the vectors. Raises `PicohookError` if the
    streams cannot be used or the report cannot be written.
    """
    streams = Streams()
    probe = Probe(streams, path, hold)
    signalled = False

    def terminated(*_: Any) -> None:
        if not streams.closed:  # else the signal came after the end of the input, which is not read yet
            raise _SignalledError

    signal.signal(signal.SIGTERM, terminated)
    probe.save_news()
    try:
        while not probe.over and streams.receive():
            while streams.lines and not probe.over:
                probe.take(streams.lines.popleft())
    except _SignalledError:
        signalled = True
    except BrokenPipeError:
        pass  # the host closed its end: its lines are still checked
    except OSError as error:
        raise PicohookError(f"standard input or output cannot be used: {error.strerror}") from None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the report is written first
    probe.end(signalled=signalled)

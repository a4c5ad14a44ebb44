"""The probe: a hook that holds its host to the protocol, and writes down what it saw. Standard library only.

It looks at every line that comes in, and it answers the calls of tools that `vectors/host.json` names as that file says, to
see in the stages that follow what the host made of the answer. Everything else it lets pass.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import os
import re
import select
import signal
import sys
import termios
import time
from collections import deque
from typing import TYPE_CHECKING, Any

from ..errors import PicohookError
from ..wire import words
from .manifest import filled, load
from .report import FAIL, PASS, SKIP, Report, Result, save
from .verdict import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

FULL = 1 << 16
"""Bytes that a pipe holds, where it does not say how many it does."""
UNTIL_FULL = 20.0
"""Seconds after which a host has nothing more to fill a pipe with."""
LISTEN = 0.2
"""Seconds in which a host could say something before it is greeted back."""
CHUNK = 1 << 16
_LOOK = 0.02
"""Seconds from one look at how much waits to the next."""

_HALF_PAIR = re.compile("[\ud800-\udfff]")
_TYPES: dict[str, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: type(value) is int,
    "boolean": lambda value: isinstance(value, bool),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}


class Streams:
    """Standard input and output, byte for byte."""

    def __init__(self) -> None:
        self.lines: deque[bytes] = deque()
        """Those that were read, and not looked at."""
        self.rest = b""
        """What came after the last newline."""

    def receive(self) -> bool:
        """Read what there is; False at the end."""
        data = os.read(0, CHUNK)
        *lines, self.rest = (self.rest + data).split(b"\n")
        self.lines.extend(lines)
        return bool(data)

    def send(self, data: bytes) -> None:
        """Write all of it."""
        while data:
            data = data[os.write(1, data) :]

    def ends(self, seconds: float) -> bool:
        """Whether the input ends within this time. What comes until then is not looked at."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0:
            if select.select([0], [], [], left)[0] and not self.receive():
                return True
        return False

    def fills(self, seconds: float) -> bool:
        """Whether within this time so much waits to be read that a pipe has room for hardly anything more."""
        deadline = time.monotonic() + seconds
        full, waiting = FULL, array.array("i", [0])
        with contextlib.suppress(AttributeError, OSError):
            full = fcntl.fcntl(0, fcntl.F_GETPIPE_SZ)
        while time.monotonic() < deadline:
            fcntl.ioctl(0, termios.FIONREAD, waiting)
            if waiting[0] > full - CHUNK // 8:
                return True
            time.sleep(_LOOK)
        return False

    def speaks_early(self) -> bool:
        """Whether more has come than was looked at, or comes while we listen. The end is silence."""
        if not (self.lines or self.rest) and select.select([0], [], [], LISTEN)[0]:
            self.receive()
        return bool(self.lines or self.rest)


class Probe:
    """What was seen of one host, and the answers that it gets."""

    def __init__(self, streams: Streams, path: str | None, hold: float | None = None) -> None:
        self.manifest = load("host")
        self._acts = {
            one.vector["probe"]["name"]: (one.id, one.vector["probe"]["seconds"] if hold is None else hold)
            for one in self.manifest.requirements
            if "probe" in one.vector
        }
        """What the probe does under another name, for how long, and which requirement shows in it."""
        self._acting = False
        self.over = False
        """Whether there is nothing more to see."""
        self._deaf = ""
        """The requirement that every line is held to after a while without reading."""
        self._path = path
        self.greeted = False
        self.host = "a host"
        self._streams = streams
        self._seen: set[str] = set()
        self._faults: dict[str, str] = {}
        self._ids: list[int] = []
        self._known = {stage for stages in self.manifest.data["modes"].values() for stage in stages}
        self._stages: set[str] = set()
        """Those of the modes that the host named."""
        self._calls = {
            call["tool"]: (one.id, filled(call, {}))
            for one in self.manifest.requirements
            for call in one.vector.get("calls", ())
        }
        self._came: dict[str, list[str]] = {tool: [] for tool in self._calls}
        """The stages at which each of the tools was seen."""
        self._awaited: dict[object, tuple[str, int]] = {}
        """Answers to the probe's own requests: for which requirement, and which code is expected."""

    def _check(self, requirement: str, holds: bool, said: str) -> bool:  # noqa: FBT001 - the point of it
        self._seen.add(requirement)
        if not holds:
            self._faults.setdefault(requirement, said)
        return holds

    # Line by line.

    def take(self, line: bytes) -> None:
        """Look at a line, and answer it if it is to be answered."""
        if not line.strip():
            return
        if self._deaf:
            shown_line = f"it wrote {shown(line.decode('utf-8', 'backslashreplace'))}"
            self._check(self._deaf, _is_object(line), shown_line)
            return
        message = self._message(line)
        if message is None:
            return
        said = f"it wrote {shown(message)}"
        self._check("HOST-RPC-1", message.get("jsonrpc") == "2.0", said)
        method = message.get("method")
        if not isinstance(method, str):
            self._answered(message)
            return
        if self._check("HOST-RPC-2", isinstance(message.get("params"), dict), said):
            asks = "id" in message
            expected = method != words.HELLO if self.greeted else method == words.HELLO and asks
            self._check("HOST-HELLO-1", expected, said)
            (self._asked if asks else self._told)(method, message)

    def _message(self, line: bytes) -> dict[str, Any] | None:
        """The object on a line; None where there is none."""
        odd: list[str] = []

        def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
            if len(dict(pairs)) != len(pairs):
                odd.append("a key that is there twice")
            return dict(pairs)

        shown_line = f"it wrote {shown(line.decode('utf-8', 'backslashreplace'))}"
        try:
            message = json.loads(line.decode(), object_pairs_hook=build, parse_constant=odd.append)
        except (ValueError, RecursionError):
            message = None
        if not self._check("HOST-LINE-1", isinstance(message, dict), shown_line):
            return None
        if _HALF_PAIR.search(json.dumps(message, ensure_ascii=False)):
            odd.append("half a surrogate pair")
        self._check("HOST-LINE-3", not odd, f"{odd and odd[0]}: {shown_line}")
        return message if isinstance(message, dict) else None

    def _answered(self, message: Mapping[str, Any]) -> None:
        """The host answers, and may do so only if it was asked."""
        said = f"it answered {shown(message)}"
        request_id = message.get("id")
        requirement, code = self._awaited.pop(request_id if isinstance(request_id, str) else None, ("HOST-ASK-2", 0))
        error = message.get("error")
        self._check(
            requirement, isinstance(error, dict) and error.get("code") == code and requirement != "HOST-ASK-2", said
        )

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
        self.save(complete=False)
        self._reply(message, {"result": {"ok": True, "name": "probe"}})

    def _act(self, name: str, message: Mapping[str, Any]) -> None:
        """Misbehave as the name says."""
        requirement, seconds = self._acts[name]
        self._acting = self.greeted = True
        if name == "probe_mute":
            self._check(requirement, holds=True, said="")  # a host that kills it leaves it no time to say so
            self.save(complete=False)
            self._check(requirement, self._streams.ends(seconds), f"it had not ended it after {seconds:g} seconds")
            self.over = True
            return
        self.save(complete=False)
        self._reply(message, {"result": {"ok": True, "name": "probe"}})
        self._deaf = requirement
        if self._streams.fills(UNTIL_FULL):
            self._check(requirement, holds=True, said="")
            self.save(complete=False)
            time.sleep(seconds)

    def _ask(self, stage: str, message: Mapping[str, Any], said: str) -> None:
        params = message["params"]
        wrong = self._fits(stage, params)
        self._check("HOST-CALL-2", wrong is None, f"{wrong}: {said}")
        if isinstance(params.get("meta"), dict):
            wrong = self._fits("meta", params["meta"])
            self._check("HOST-CALL-3", wrong is None, f"meta.{wrong}: {said}")
        if stage == "after_tool" and isinstance(params.get("result"), dict):
            wrong = self._fits("tool_result", params["result"])
            self._check("HOST-CALL-4", wrong is None, f"result.{wrong}: {said}")
        requirement, call = self._calls.get(params.get("tool", ""), ("", {}))
        if call:
            self._look(requirement, call, stage, params, said)
        for reply in call.get(stage, ()):
            self._streams.send(self._scripted(reply, message["id"]))
        if stage not in call:
            self._reply(message, {"result": self.manifest.data["answers"].get(stage, {"action": words.CONTINUE})})
        if stage == "before_tool" and "answered" in call:
            self._awaited[call["answered"]["id"]] = requirement, call["answered"]["code"]

    def _look(
        self, requirement: str, call: Mapping[str, Any], stage: str, params: Mapping[str, Any], said: str
    ) -> None:
        """What became of the answer to an earlier stage of this call."""
        came = self._came[call["tool"]]
        if stage != "before_tool":
            self._check(requirement, stage not in call.get("never", ()), said)
            if "sees" in call:
                self._check(requirement, _same(params.get("arguments", {}), call["sees"]), said)
        if stage == "after_tool" and "approve_tool" in self._stages and requirement == "HOST-FLOW-1":
            self._check(requirement, "approve_tool" in came, "it called the tool without approve_tool")
        came.append(stage)

    def _fits(self, name: str, value: Mapping[str, Any]) -> str | None:
        """What is wrong with a value that should have this shape."""
        for key, kind in self.manifest.data["shapes"][name].items():
            field, optional = key.removesuffix("?"), key.endswith("?")
            if field not in value:
                if not optional:
                    return f"{field} is missing"
            elif not _TYPES[kind](value[field]):
                return f"{field} is no {kind}"
        return None

    def _reply(self, message: Mapping[str, Any], answer: Mapping[str, Any]) -> None:
        self._streams.send(_line({"jsonrpc": "2.0", "id": message["id"], **answer}))

    @staticmethod
    def _scripted(reply: Any, request_id: Any) -> bytes:
        """A reply of a vector, for this request: a message, text as it is, or bytes."""
        number = json.dumps(request_id)
        if isinstance(reply, str):
            return reply.replace("$ID", number).encode()
        if "hex" in reply:
            return bytes.fromhex(reply["hex"])
        return _line(reply).replace(b'"$ID"', number.encode())

    # Notifications, and the end.

    def _told(self, method: str, message: Mapping[str, Any]) -> None:
        said = f"it told {shown(message)}"
        if self._check("HOST-EVENT-3", method in {words.EVENT, words.RUNTIME_EVENT}, said):
            self._check("HOST-EVENT-1", holds=True, said="")
            wrong = self._fits(method, message["params"])
            self._check("HOST-EVENT-2", wrong is None, f"{wrong}: {said}")

    def end(self, *, signalled: bool) -> None:
        """Nothing more comes."""
        rest = self._streams.rest
        if self._deaf in self._seen:
            self._check(self._deaf, not rest, f"its last words were {shown(rest.decode('utf-8', 'backslashreplace'))}")
        if self._acting:
            return  # a hook that misbehaves may be ended in any way
        self._check("HOST-LINE-2", not rest, f"its last words were {shown(rest.decode('utf-8', 'backslashreplace'))}")
        self._check("HOST-END-1", not signalled, "it sent SIGTERM while the input was open")
        runs = "after_tool" in self._came["probe_plain"]
        for tool, (requirement, call) in self._calls.items():
            came = self._came[tool]
            if ("approve_tool" if "approve_tool" in call else "before_tool") not in came:
                continue
            if "sees" in call:
                ends_here = call.get("or_ends", False) and "after_tool" not in came
                self._check(requirement, "after_tool" in came or ends_here, f"after_tool never came for {tool}")
            elif "answered" in call:
                waits = call["answered"]["id"] in self._awaited
                self._check(requirement, not waits, "it never answered")
            elif runs:  # a host that never asks after_tool shows nothing by not asking it
                self._check(requirement, holds=True, said="")

    def report(self, *, complete: bool) -> Report:
        """What is known so far."""
        return Report(self.manifest, self.host, [self._result(one.id) for one in self.manifest.requirements], complete)

    def save(self, *, complete: bool) -> None:
        """Write the report, if somebody said where to."""
        if self._path:
            report = self.report(complete=complete).wire()
            try:
                save(self._path, json.dumps(report, indent=1).encode() + b"\n")
            except OSError as error:
                raise PicohookError(f"{self._path} cannot be written: {error.strerror}") from None

    def _result(self, requirement_id: str) -> Result:
        one = self.manifest[requirement_id]
        if one.id in self._faults:
            return Result(one, FAIL, one.wants, self._faults[one.id])
        if one.id in self._seen:
            return Result(one, PASS)
        tools = ", ".join(call["tool"] for call in one.vector.get("calls", ()))
        if "probe" in one.vector:
            name = one.vector["probe"]["name"]
            empty = name == "probe_deaf" and self._deaf
            return Result(one, SKIP, said="its input was never full" if empty else f"there was no hook named {name}")
        return Result(
            one, SKIP, said=f"the host made no call of {tools}" if tools else "there was nothing to see of it"
        )


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line.decode()), dict)
    except (ValueError, RecursionError):
        return False


def _line(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _same(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, where 1 is neither true nor 1.0."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


class _SignalledError(BaseException):
    pass


def _terminated(*_: Any) -> None:
    raise _SignalledError


def serve(path: str | None, hold: float | None = None) -> None:
    """Be a hook on the standard streams; write the report to the path, or what failed to standard error.

    `hold` are the seconds for which a hook that misbehaves does so, where they are not to be those of the vectors.
    """
    streams = Streams()
    probe = Probe(streams, path, hold)
    signalled = False
    signal.signal(signal.SIGTERM, _terminated)
    try:
        while not probe.over and streams.receive():
            while streams.lines and not probe.over:
                probe.take(streams.lines.popleft())
    except _SignalledError:
        signalled = True
    except BrokenPipeError:
        pass  # the host reads no more: what it wrote was looked at
    except OSError as error:
        raise PicohookError(f"standard input or output cannot be used: {error.strerror}") from None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the report is written, whatever hurry the host is in
    probe.end(signalled=signalled)
    probe.save(complete=True)
    if not path:
        _tell(probe.report(complete=True))


def _tell(report: Report) -> None:
    for result in report.results:
        if result.status == FAIL:
            sys.stderr.write(f"{result.requirement.id} {result.requirement.level}: {result.said}\n")
    counts = f"{report.count(PASS)} hold, {report.count(FAIL)} do not, {report.count(SKIP)} were not seen\n"
    sys.stderr.write(counts)

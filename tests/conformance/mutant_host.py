"""A host that holds all requirements, and for each of them one that breaks this one and no other.

It shows the probe around as `tour` says. The class of a mutant is named like its requirement.
"""

# ruff: noqa: N801 - the classes are named like the requirements
from __future__ import annotations

import json
import signal
import subprocess

from .tour import CALLS, EVENTS

META = {
    "AgentID": "a",
    "TurnID": "t",
    "ParentTurnID": "",
    "SessionKey": "s",
    "Iteration": 1,
    "TracePath": "",
    "Source": "",
}
EVERYWHERE = {"meta": META, "channel": "", "chat_id": ""}
RESULT = {
    "for_llm": "done",
    "for_user": "",
    "silent": False,
    "is_error": False,
    "async": False,
    "media": [],
    "artifact_tags": [],
    "response_handled": False,
}
MESSAGES = {**EVERYWHERE, "messages": []}
ONCE = {
    "before_llm": {**MESSAGES, "model": "m", "tools": [], "options": {}, "graceful_terminal": False},
    "after_llm": {**EVERYWHERE, "model": "m", "response": {}},
    "before_prompt": {**MESSAGES, "prompt": "hi"},
    "before_finish": {**MESSAGES, "prompt": "hi", "response": {}},
    "before_compact": {**MESSAGES, "scope": "auto"},
    "after_compact": {**MESSAGES, "scope": "auto"},
}


class BrokenAnswerError(Exception):
    """The answer to a request is none that can be taken."""


class Host:
    first_id = 1
    version = 1
    name = "probe"

    def __init__(self, command):
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.next_id = self.first_id

    def run_mute(self):
        """With a probe that does not answer hook.hello."""
        self.name = "probe_mute"
        with self.process:
            self.greet()
            self.give_up()
        return self.process.returncode

    def give_up(self):
        self.process.stdin.close()
        self.process.wait()

    def run_deaf(self):
        """With one that reads no more after it."""
        self.name = "probe_deaf"
        with self.process:
            self.hello()
            self.flood()
            self.end()
        return self.process.returncode

    def flood(self):
        for _ in range(200):
            self.event("turn_start", {"UserMessage": "x" * 1000, "MediaCount": 0})

    def run(self):
        with self.process:
            self.hello()
            for kind, payload in EVENTS.items():
                self.event(kind, payload)
            for stage, params in ONCE.items():
                self.once(stage, params)
            for call in CALLS:
                self.call(call["tool"], call["arguments"])
            self.end()
        return self.process.returncode

    # Writing.

    def write(self, text):
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def send(self, message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")

    @property
    def greeting(self):
        modes = ["observe", "llm", "tool", "approve", "prompt", "turn", "compact"]
        return {"name": self.name, "version": self.version, "modes": modes}

    def hello(self):
        self.ask("hello", self.greeting)

    def greet(self):
        self.send({"id": self.new_id(), "method": "hook.hello", "params": self.greeting})

    def event(self, kind, payload):
        self.tell("hook.event", {"Kind": kind, "Meta": META, "Payload": payload})

    def tell(self, method, params):
        self.send({"method": method, "params": params})

    def once(self, stage, params):
        self.ask(stage, params)

    def end(self):
        self.leave()
        self.process.wait()

    def leave(self):
        self.process.stdin.close()

    # Asking.

    def new_id(self):
        self.next_id += 1
        return self.next_id - 1

    def ask(self, stage, params):
        """The answer's result. Raises `BrokenAnswerError`."""
        request_id = self.new_id()
        self.send({"id": request_id, "method": f"hook.{stage}", "params": params})
        return self.read(request_id)

    def read(self, request_id):
        while True:
            message = self.next_message()
            if message is None:
                self.junk()
            elif "method" in message:
                self.asked(message) if "id" in message else self.told(message)
            elif self.is_mine(message.get("id"), request_id):
                return self.result(message)

    def next_message(self):
        """The next line's object; None for what is none."""
        line = self.process.stdout.readline()
        assert line, "the probe ended"
        if not line.strip():
            return None
        twice = []

        def build(pairs):
            if len(dict(pairs)) != len(pairs):
                twice.append(pairs)
            return dict(pairs)

        def refuse(_):
            raise ValueError

        try:
            message = json.loads(self.text(line), object_pairs_hook=build, parse_constant=refuse)
        except ValueError:
            return None
        if not isinstance(message, dict):
            return None
        return {**message, "twice": True} if twice else message

    def text(self, line):
        return line.decode()

    def junk(self):
        pass

    def asked(self, message):
        self.send({"id": message["id"], "error": {"code": -32601, "message": "the host offers no such method"}})

    def told(self, message):
        pass

    def is_mine(self, given, request_id):
        return type(given) is int and given == request_id

    def result(self, message):
        """Of a well formed answer."""
        if self.failed(message) or "twice" in message or "result" not in message:
            raise BrokenAnswerError
        if message.get("jsonrpc") != "2.0":
            raise BrokenAnswerError
        return message["result"]

    def failed(self, message):
        return message.get("error") is not None

    # A tool call.

    def call(self, tool, arguments):
        params = {**EVERYWHERE, "tool": tool, "arguments": arguments}
        try:
            decision = self.before_tool(params)
        except BrokenAnswerError:
            decision = {}
        action = decision.get("action", "continue")
        if self.stops(action):
            return
        if action in {"continue", "modify"} or self.takes(action):
            params = self.edited(params, decision)
        if self.approves(params):
            self.after_tool(params)

    def before_tool(self, params):
        return self.ask("before_tool", params)

    def stops(self, action):
        return action in {"deny_tool", "respond"}

    def takes(self, action):
        return False

    def edited(self, params, decision):
        given = {key: value for key, value in decision.get("call", {}).items() if value is not None}
        return merged({**params, **given}, self.patch(decision))

    def patch(self, decision):
        return decision.get("patch", {})

    def approves(self, params):
        try:
            answer = self.ask("approve_tool", params)
        except BrokenAnswerError:
            return False
        return isinstance(answer, dict) and self.is_yes(answer)

    def is_yes(self, answer):
        return answer.get("approved") is True

    def after_tool(self, params):
        self.ask("after_tool", {**params, "result": RESULT, "duration": 5})


def merged(target, patch):
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


class HOST_LINE_1(Host):
    def end(self):
        self.write("[]\n")
        super().end()


class HOST_LINE_2(Host):
    def end(self):
        self.write('{"jsonrpc": "2.0", "method": "hook.ev')
        super().end()


class HOST_LINE_3(Host):
    def event(self, kind, payload):
        super().event(kind, {**payload, "Score": float("nan")})


class HOST_LINE_4(Host):
    def flood(self):
        self.write("x" * 1000 * 200)  # of a line whose rest never comes
        self.event("turn_start", {"UserMessage": "hi", "MediaCount": 0})


class HOST_RPC_1(Host):
    def tell(self, method, params):
        self.write(json.dumps({"method": method, "params": params}) + "\n")


class HOST_RPC_2(Host):
    def end(self):
        self.tell("hook.event", [])
        super().end()


class HOST_ID_1(Host):
    def is_mine(self, given, request_id):
        return given == request_id

    def new_id(self):
        return f"request-{super().new_id()}"


class HOST_ID_2(Host):
    def once(self, stage, params):
        super().once(stage, params)
        self.next_id -= 1


class HOST_ID_3(Host):
    first_id = 100


class HOST_HELLO_1(Host):
    def end(self):
        self.hello()
        super().end()


class HOST_HELLO_2(Host):
    version = "1"


class HOST_HELLO_3(Host):
    def send(self, message):
        super().send(message)
        if message.get("method") == "hook.hello":
            self.event("session_start", {})


class HOST_HELLO_4(Host):
    def give_up(self):
        self.process.wait()


class HOST_CALL_1(Host):
    def end(self):
        try:
            self.ask("before_tomorrow", {})
        except BrokenAnswerError:
            super().end()


class HOST_CALL_2(Host):
    def once(self, stage, params):
        super().once(stage, {key: value for key, value in params.items() if key != "model"})


class HOST_CALL_3(Host):
    def once(self, stage, params):
        super().once(stage, {**params, "meta": {"agent_id": "a"}})


class HOST_CALL_4(Host):
    def after_tool(self, params):
        self.ask("after_tool", {**params, "result": {"output": "done"}, "duration": 5})


class HOST_CALL_5(Host):
    def once(self, stage, params):
        super().once(stage, {**params, "partial": True} if stage == "after_llm" else params)


class HOST_EVENT_1(Host):
    def tell(self, method, params):
        self.send({"id": self.new_id(), "method": method, "params": params})


class HOST_EVENT_2(Host):
    def event(self, kind, payload):
        self.tell("hook.event", {"kind": kind, "meta": META, "payload": payload})


class HOST_EVENT_3(Host):
    def end(self):
        self.tell("hook.cancel", {"id": 1, "reason": "the host stopped waiting"})
        super().end()


class HOST_END_1(Host):
    def end(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


class HOST_FLOW_1(Host):
    def approves(self, params):
        return params["tool"] == "probe_plain" or super().approves(params)


class HOST_EDIT_1(Host):
    def edited(self, params, decision):
        edited = super().edited(params, decision)
        if params["tool"] == "probe_modify":
            edited["arguments"] = json.loads(json.dumps(edited["arguments"]), parse_int=float)
        return edited


class HOST_EDIT_2(Host):
    def edited(self, params, decision):
        emptied = {key: type(params[key])() for key, value in decision.get("call", {}).items() if value is None}
        return {**super().edited(params, decision), **emptied}


class HOST_EDIT_3(Host):
    def patch(self, decision):
        return {}


class HOST_ACTION_1(Host):
    def stops(self, action):
        return action == "respond"


class HOST_ACTION_2(Host):
    def stops(self, action):
        return action == "deny_tool"


class HOST_ACTION_3(Host):
    def takes(self, action):
        return True


class HOST_APPROVE_1(Host):
    def is_yes(self, answer):
        return isinstance(answer.get("approved"), bool)


class HOST_APPROVE_2(Host):
    def is_yes(self, answer):
        return bool(answer.get("approved"))


class HOST_APPROVE_3(Host):
    def result(self, message):
        return message.get("result")


class HOST_REPLY_1(Host):
    def is_mine(self, given, request_id):
        return str(given) == str(request_id)


class HOST_REPLY_2(Host):
    def before_tool(self, params):
        answer = super().before_tool(params)
        if params["tool"] == "probe_repeat":
            return self.read(self.next_id - 1)
        return answer


class HOST_REPLY_3(Host):
    def failed(self, message):
        return "error" in message


class HOST_SIZE_1(Host):
    def next_message(self):
        message = super().next_message()
        return message if len(json.dumps(message)) <= 1 << 20 else self.died()

    def died(self):
        raise BrokenAnswerError


class HOST_JUNK_1(Host):
    spoilt = False

    def junk(self):
        self.spoilt = True

    def result(self, message):
        spoilt, self.spoilt = self.spoilt, False
        if spoilt:
            raise BrokenAnswerError
        return super().result(message)


class HOST_JUNK_2(Host):
    def result(self, message):
        if len(json.dumps(message, ensure_ascii=False).splitlines()) > 1:
            raise BrokenAnswerError
        return super().result(message)


class HOST_ASK_1(Host):
    def asked(self, message):
        pass


class HOST_ASK_2(Host):
    def told(self, message):
        self.send({"id": None, "error": {"code": -32601, "message": "the host offers no such method"}})

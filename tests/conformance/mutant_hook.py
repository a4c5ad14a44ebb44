"""A hook that holds all requirements, and for each of them a hook that breaks this one and no other.

`python -I -S mutant_hook.py` is the good one, `... --break ID` a mutant: the class that is named like the requirement.
"""

# ruff: noqa: N801 - the classes are named like the requirements
import json
import os
import signal
import sys
import threading

STAGES = (
    "before_llm",
    "after_llm",
    "before_tool",
    "after_tool",
    "before_prompt",
    "before_finish",
    "before_compact",
    "after_compact",
)
KINDS = {"turn_start", "tool_exec_start"}


class Hook:
    asked_anything = False

    def run(self):
        rest = b""
        while chunk := os.read(0, 1 << 20):
            if self.swallows(chunk):
                continue
            *lines, rest = self.split(rest + chunk)
            for line in lines:
                self.take(line)
        self.end()

    def swallows(self, chunk):
        return False

    def split(self, data):
        return data.split(b"\n")

    def take(self, line):
        if not line.strip():
            self.blank()
            return
        try:
            message = json.loads(self.text(line))
        except UnicodeDecodeError:
            self.not_text()
            return
        except ValueError:
            self.not_json()
            return
        if not isinstance(message, dict):
            self.not_object()
        elif not isinstance(message.get("method"), str):
            self.no_method(message)
        elif message.get("id") is None:
            self.told(message["method"], message["params"])
        elif message["id"] == 0:
            self.told_with_0(message)
        else:
            self.asked(message["id"], message["method"], message["params"])

    def text(self, line):
        return line.decode()

    def blank(self):
        pass

    def not_text(self):
        pass

    def not_json(self):
        pass

    def not_object(self):
        pass

    def no_method(self, message):
        pass

    def told_with_0(self, message):
        pass

    def told(self, method, params):
        pass

    def asked(self, request_id, method, params):
        stage = method.removeprefix("hook.")
        if stage == "hello":
            self.hello(request_id, params)
            return
        self.asked_anything = True
        if stage == "approve_tool":
            self.result(request_id, self.approve(params))
        elif stage in STAGES:
            self.result(request_id, self.decide(stage, params))
        elif stage == "ping":
            self.ping(request_id)
        else:
            self.unknown(request_id)

    def hello(self, request_id, params):
        capabilities = {"cancel": True, "ping": True, "progress": False, "stream": True}
        self.result(request_id, {"ok": True, "name": "mutant", "capabilities": capabilities})

    def approve(self, params):
        return {"approved": params["tool"] != "bash", "reason": "no shells"}

    def decide(self, stage, params):
        if stage == "before_tool" and params["tool"] == "write_file":
            return {"action": "modify", "call": params}
        return {"action": "continue"}

    def unknown(self, request_id):
        self.write({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601, "message": "no such method"}})

    def ping(self, request_id):
        self.result(request_id, {})

    def result(self, request_id, result):
        self.write({"jsonrpc": "2.0", "id": request_id, "result": result})

    def write(self, message):
        self.write_text(json.dumps(message) + "\n")

    def write_text(self, text):
        data = text.encode("utf-8", "surrogateescape")
        while data:
            data = data[os.write(1, data) :]

    def refuse_answer(self, request_id):
        self.write({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32600, "message": "what?"}})

    def end(self):
        pass


def crash(*_):
    os._exit(1)


class HELLO_1(Hook):
    def hello(self, request_id, params):
        self.unknown(request_id)


class HELLO_2(Hook):
    def hello(self, request_id, params):
        self.result(request_id, {"ok": False, "name": "mutant", "reason": "not today"})


class HELLO_3(Hook):
    def hello(self, request_id, params):
        self.refuse_answer(None)
        super().hello(request_id, params)


class HELLO_4(Hook):
    def hello(self, request_id, params):
        self.result(request_id, {"capabilities": {"cancel": True, "ping": True}})


class HELLO_5(Hook):
    def hello(self, request_id, params):
        if "tomorrow" in params["modes"]:
            self.refuse_answer(request_id)
        else:
            super().hello(request_id, params)


class HELLO_6(Hook):
    def hello(self, request_id, params):
        self.result(request_id, {"ok": True, "name": "mutant", "capabilities": ["cancel"]})


class ID_1(Hook):
    def asked(self, request_id, method, params):
        if request_id >= 1 << 31:
            crash()
        super().asked(request_id, method, params)


class ID_2(Hook):
    def result(self, request_id, result):
        super().result(request_id, result)
        super().result(request_id, result)


class ID_3(Hook):
    def decide(self, stage, params):
        if stage == "before_finish":
            self.result("2", {})
        return super().decide(stage, params)


class REPLY_1(Hook):
    def write(self, message):
        del message["jsonrpc"]
        super().write(message)


class REPLY_2(Hook):
    def unknown(self, request_id):
        self.write({"jsonrpc": "2.0", "id": request_id, "result": None, "error": {"code": -32601, "message": "none"}})


class REPLY_3(Hook):
    def unknown(self, request_id):
        self.write({"jsonrpc": "2.0", "id": request_id, "error": {"code": -32601}})


class REPLY_4(Hook):
    def approve(self, params):
        return {"approved": False}

    def write(self, message):
        self.write_text(json.dumps(message).replace('"approved"', '"approved": true, "approved"') + "\n")


class REPLY_5(Hook):
    def decide(self, stage, params):
        if stage == "after_compact":
            self.write({"jsonrpc": "2.0", "id": "h1", "method": "host.help", "params": {}})
        return super().decide(stage, params)


class STDOUT_1(Hook):
    def result(self, request_id, result):
        super().result(request_id, result)
        self.write_text(f"answered {request_id}\n")


class STDOUT_2(Hook):
    def hello(self, request_id, params):
        self.write_text(
            json.dumps(
                {"jsonrpc": "2.0", "id": request_id, "result": {"ok": True, "name": "m?", "capabilities": {}}}
            ).replace("?", "\udcff")
            + "\n"
        )


class STDOUT_3(Hook):
    def decide(self, stage, params):
        return {**super().decide(stage, params), "score": float("nan")}


class STDOUT_4(Hook):
    def end(self):
        self.write_text('{"jsonrpc": "2.0", "method": "bye"}')


class STDOUT_5(Hook):
    def approve(self, params):
        return {"approved": False, "reason": "no" * (8 << 20)}


class LINE_1(Hook):
    def split(self, data):
        lines = super().split(data)
        if len(lines[-1]) > 1 << 16:
            crash()
        return lines


class LINE_2(Hook):
    def split(self, data):
        lines = super().split(data)
        if any(len(line.decode().splitlines()) > 1 for line in lines if b"echo one" in line):
            crash()
        return lines


class LINE_3(Hook):
    blank = crash


class CALL_1(Hook):
    count = 0
    most = 100

    def asked(self, request_id, method, params):
        self.count += 1
        if self.count > self.most:
            crash()
        super().asked(request_id, method, params)


class CALL_2(Hook):
    unknown = crash


class CALL_3(Hook):
    def unknown(self, request_id):
        self.result(request_id, {})


class CALL_4(Hook):
    def ping(self, request_id):
        self.unknown(request_id)


class EVENT_1(Hook):
    def told(self, method, params):
        if method == "hook.event" and params["Kind"] in KINDS:
            self.refuse_answer(None)


class EVENT_2(Hook):
    def told(self, method, params):
        if method == "hook.runtime_event":
            self.refuse_answer(None)


class EVENT_3(Hook):
    def told(self, method, params):
        if not method.endswith("event"):
            crash()


class EVENT_4(Hook):
    def told(self, method, params):
        if method == "hook.event" and params["Kind"] not in KINDS:
            crash()


class EVENT_5(Hook):
    def told_with_0(self, message):
        self.result(0, {})


def _undecided(stage):
    class Undecided(Hook):
        def decide(self, asked, params):
            return {"action": "explode"} if asked == stage else super().decide(asked, params)

    return Undecided


STAGE_1 = _undecided("before_prompt")
STAGE_2 = _undecided("before_llm")


class STAGE_3(_undecided("after_llm")):
    def decide(self, stage, params):
        return {"action": "continue"} if "partial" in params else super().decide(stage, params)


STAGE_4 = _undecided("before_tool")


class STAGE_5(Hook):
    def approve(self, params):
        return {"approved": "yes"}


STAGE_6 = _undecided("after_tool")
STAGE_7 = _undecided("before_finish")
STAGE_8 = _undecided("before_compact")
STAGE_9 = _undecided("after_compact")


class STAGE_10(Hook):
    def decide(self, stage, params):
        if not isinstance((params.get("arguments") or {}).get("command", ""), str):
            return {"error": "a command is a text"}
        return super().decide(stage, params)


class STAGE_11(Hook):
    def decide(self, stage, params):
        decision = super().decide(stage, params)
        return {"Action": decision["action"]} if stage == "after_compact" else decision


class STAGE_12(Hook):
    def decide(self, stage, params):
        if params.get("released"):
            return {"action": "modify", "response": {"content": "gone"}}
        return super().decide(stage, params)


class PAYLOAD_1(Hook):
    def text(self, line):
        if b"\\u0000" in line:
            crash()
        return super().text(line)


class PAYLOAD_2(Hook):
    def decide(self, stage, params):
        if "tomorrow" in params:
            crash()
        return super().decide(stage, params)


class PAYLOAD_3(Hook):
    def decide(self, stage, params):
        arguments = params.get("arguments") or {}
        if stage == "before_tool" and "big_integer" in arguments:
            return {
                "action": "modify",
                "call": {"arguments": {**arguments, "big_integer": int(float(arguments["big_integer"]))}},
            }
        return super().decide(stage, params)


class PAYLOAD_4(Hook):
    def text(self, line):
        if b"[" * 64 in line:
            crash()
        return super().text(line)


class PAYLOAD_5(Hook):
    def decide(self, stage, params):
        if not isinstance((params.get("arguments") or {}).get("command", ""), str):
            crash()
        return super().decide(stage, params)


class PAYLOAD_6(Hook):
    def decide(self, stage, params):
        if "arguments" in params and params["arguments"] is None:
            crash()
        return super().decide(stage, params)


class JUNK_1(Hook):
    not_json = crash


class JUNK_2(Hook):
    not_text = crash


class JUNK_3(Hook):
    not_object = crash


class JUNK_4(Hook):
    def no_method(self, message):
        if "error" in message:
            crash()


class END_1(Hook):
    def end(self):
        while not self.asked_anything:
            signal.pause()


class END_2(Hook):
    def end(self):
        sys.exit(3)


class END_3(Hook):
    def swallows(self, chunk):
        """Two of the same together: only here are they followed by the end of the input."""
        return chunk.count(b'"method":"hook.before_tool"') == 2 and chunk.count(b'"command":"ls notes"') == 2


class END_4(Hook):
    def run(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        super().run()


class END_5(Hook):
    def run(self):
        # A handler of Python's would not run when the signal comes just before a read that waits.
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        threading.Thread(target=self.end_at_a_signal, daemon=True).start()
        super().run()

    def end_at_a_signal(self):
        signal.sigwait({signal.SIGTERM})
        os._exit(7)


# Hooks with a fault that depends on more than one requirement.


class EndsEarly(CALL_1):
    most = 20


class Mixed(Hook):
    def __init__(self):
        self.seen = set()

    def decide(self, stage, params):
        self.seen.add(stage)
        if {"before_finish", "before_compact"} <= self.seen:
            self.write_text("both\n")
        return super().decide(stage, params)


def main():
    broken = globals()[sys.argv[2].replace("-", "_")] if sys.argv[1:2] == ["--break"] else Hook
    broken().run()


if __name__ == "__main__":
    main()

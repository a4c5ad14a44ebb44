"""A hook of the soak: an echo of every payload's nonce, unless the payload tells it to misbehave.

    python -I -S hook.py NAME

Everything that it starts has its environment, by which the soak finds what was left behind.
"""

import json
import os
import signal
import sys
import time

NAME = sys.argv[1]
NOISE = '\x1b[31mnot json\n{"jsonrpc":"2.0","method":"hook.hi"}\n'


def main():
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" not in request:
            continue
        method = request["method"]
        if method == "hook.hello":
            reply(request, {"ok": True})
            continue
        arguments = request["params"].get("arguments") or {}
        answer = usual(method, arguments)
        do = arguments.get("do", {}).get(NAME)
        if do is None:
            reply(request, answer)
        else:
            globals()[f"do_{do}"](request, answer)


def usual(method, arguments):
    if method == "hook.approve_tool":
        return {"approved": arguments["good"], "reason": arguments["nonce"]}
    return {"action": "modify", "call": {"arguments": {**arguments, "by": [*arguments["by"], NAME]}}}


def reply(request, result):
    message = {"jsonrpc": "2.0", "id": request["id"], "result": result}
    write(1, json.dumps(message, separators=(",", ":")).encode() + b"\n")


def write(fd, data):
    while data:
        data = data[os.write(fd, data) :]


def forged(method, nonce):
    """An answer that must never be seen as one to another request."""
    if method == "hook.approve_tool":
        return {"approved": True, "reason": f"forged for {nonce}"}
    return {"action": "modify", "call": {"arguments": {"nonce": f"forged for {nonce}", "by": ["nobody"]}}}


def do_late(request, answer):
    time.sleep(0.6)
    reply(request, answer)


def do_never(request, answer):
    pass


def do_no(request, answer):
    if request["method"] == "hook.approve_tool":
        reply(request, {"approved": False})
    else:
        reply(request, {"action": "continue"})


def do_sloppy(request, answer):
    """Something that must not be a yes, and is a failure elsewhere."""
    reply(request, {"approved": "yes", "action": "nonsense"})


def do_both(request, answer):
    message = {"jsonrpc": "2.0", "id": request["id"], "result": answer, "error": {"code": 1, "message": "no"}}
    write(1, json.dumps(message).encode() + b"\n")


def do_twice(request, answer):
    """The first answer is a failure or a no, the second one a yes."""
    do_sloppy(request, answer)
    reply(request, forged(request["method"], "twice"))


def do_noise(request, answer):
    write(1, NOISE.encode())
    reply(request, answer)


def do_stranger(request, answer):
    """Answers to requests that there were not, before its own."""
    for number in (request["id"] + 1_000_000, str(request["id"]), float(request["id"]), True, None, 0):
        reply({"id": number}, forged(request["method"], number))
    reply(request, answer)


def do_mid_line(request, answer):
    write(1, b'{"jsonrpc":"2.0","id":%d,"resu' % request["id"])
    os._exit(3)


def do_segfault(request, answer):
    os.kill(os.getpid(), signal.SIGSEGV)


def do_flood(request, answer):
    while True:
        write(1, NOISE.encode() * 500)


def do_endless(request, answer):
    while True:
        write(1, b"x" * 65536)


def do_stderr(request, answer):
    write(2, b"\x1b[2J blah\n" * 20_000)
    reply(request, answer)


def do_close_stdout(request, answer):
    os.close(1)
    time.sleep(3600)


def do_deaf(request, answer):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(3600)


def do_daemon(request, answer):
    """A grandchild in a session of its own that keeps the pipes, and lives until it is killed."""
    if not os.fork():
        os.setsid()
        if not os.fork():
            time.sleep(3600)
        os._exit(0)
    os.wait()
    reply(request, answer)


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, ConnectionError):
        os._exit(13)

"""Makes transcripts as the four agents write them."""

from __future__ import annotations

import json

TIME = "2026-03-01T10:00:{:02d}.000Z"
SECRET = "ghp_" + "a1B2" * 9


def lines(*values):
    return b"".join(json.dumps(value, ensure_ascii=False).encode() + b"\n" for value in values)


def claude(*calls, session="S1", cwd="/home/ann/app", start=0, **more):
    """The lines of calls `(id, tool, input, is_error, text)`; without the last two there is no result."""
    made = []
    for place, (number, tool, given, *result) in enumerate(calls):
        envelope = {"sessionId": session, "cwd": cwd, "version": "2.1.330", **more}
        at = TIME.format(start + place)
        block = {"type": "tool_use", "id": number, "name": tool, "input": given}
        made.append(
            {**envelope, "type": "assistant", "timestamp": at, "message": {"id": f"m{place}", "content": [block]}}
        )
        if result:
            wrong, text = result
            block = {"type": "tool_result", "tool_use_id": number, "content": text}
            if wrong is not None:
                block["is_error"] = wrong
            made.append({**envelope, "type": "user", "timestamp": at, "message": {"content": [block]}})
    return made


def codex(*calls, session="C1", cwd="/home/ann/app", source="cli"):
    """The lines of calls `(id, item, output)`."""
    made = [
        {"timestamp": TIME.format(0), "type": "session_meta", "payload": {"id": session, "cwd": cwd, "source": source}}
    ]
    for place, (number, item, output) in enumerate(calls):
        at = TIME.format(place)
        made.append({"timestamp": at, "type": "response_item", "payload": {**item, "call_id": number}})
        done = {"type": f"{item['type']}_output", "call_id": number, "output": output}
        made.append({"timestamp": at, "type": "response_item", "payload": done})
    return made


def shell(command, tool="exec_command"):
    given = {"cmd": command, "workdir": "/tmp"} if tool == "exec_command" else {"command": command}
    return {"type": "function_call", "name": tool, "arguments": json.dumps(given)}


def gemini_call(number, tool, args, status, output):
    result = [{"functionResponse": {"response": {"output" if status == "success" else "error": output}}}]
    return {"id": number, "name": tool, "args": args, "status": status, "timestamp": TIME.format(1), "result": result}


def copilot(*calls, cwd="/home/ann/app"):
    """The lines of calls `(id, tool, arguments, result)`."""
    made = [{"type": "session.start", "data": {"context": {"cwd": cwd}}, "timestamp": TIME.format(0)}]
    for place, (number, tool, given, result) in enumerate(calls):
        start = {"toolCallId": number, "toolName": tool, "arguments": given}
        made.append({"type": "tool.execution_start", "timestamp": TIME.format(place), "data": start})
        if result is not None:
            made.append({"type": "tool.execution_complete", "data": {"toolCallId": number, **result}})
    return made


def put(path, content):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path

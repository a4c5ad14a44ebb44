"""Keeps a log of requests and events that reveals every change: each record has the hash of the one before it.

Run it with:     python3 audit_log.py FILE
Verify it with:  python3 audit_log.py --verify FILE [--head HASH]

A record is on the disk before its call is answered. With the variable AUDIT_KEY the hashes are keyed, and a valid chain needs
the key. To detect missing records at the end, keep HASH elsewhere: it is the head that the hook writes to stderr when it ends.
The format is that of a host's own audit log: `picohook audit verify` reads both.
"""

from __future__ import annotations

import argparse
import fcntl
import hmac
import json
import os
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    from collections.abc import Callable

KEY = os.environ.get("AUDIT_KEY", "").encode()
NOTHING = "0" * 64


class BrokenError(Exception):
    """The chain is broken."""


def digest(record: dict[str, Any]) -> str:
    data = json.dumps(record, sort_keys=True, separators=(",", ":"))
    return hmac.new(KEY, data.encode(), "sha256").hexdigest()


def verify(file: BinaryIO) -> tuple[int, str, int]:
    """Return the number of records, the hash of the last, and the offset of their end. Ignores an unfinished last line."""
    count, head, end = 0, NOTHING, 0
    for line in file:
        if not line.endswith(b"\n"):
            break
        try:
            record = json.loads(line)
            found = record.pop("hash")
        except (ValueError, LookupError, TypeError, AttributeError):
            raise BrokenError(f"record {count + 1} cannot be read") from None
        if (record.get("number"), record.get("previous")) != (count + 1, head):
            raise BrokenError(f"record {count + 1} does not follow the one before it")
        if not hmac.compare_digest(str(found), digest(record)):
            raise BrokenError(f"record {count + 1} was changed")
        count, head, end = count + 1, found, end + len(line)
    return count, head, end


class Log:
    """The log, locked for this process."""

    def __init__(self, path: str) -> None:
        self.file = open(path, "a+b", buffering=0)  # noqa: SIM115 - as long as the process lives
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BrokenError("another process writes this log") from None
        self.file.seek(0)
        self.count, self.head, end = verify(self.file)
        cut = self.file.seek(0, os.SEEK_END) - end
        if cut:
            self.file.truncate(end)
            self.add("audit.cut", {"bytes": cut})

    def add(self, method: str, params: Any) -> None:
        record = {
            "number": self.count + 1,
            "time": datetime.now(UTC).isoformat(),
            "method": method,
            "params": params,
            "previous": self.head,
        }
        head = digest(record)
        self.file.write(json.dumps({**record, "hash": head}).encode() + b"\n")
        os.fsync(self.file.fileno())
        self.count, self.head = self.count + 1, head

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        self.add(method, params)
        match method:
            case "hook.hello":
                return {"ok": True, "name": "audit_log"}
            case "hook.approve_tool":
                return {"approved": True}  # it objects to nothing
        return {"action": "continue"} if method.startswith(("hook.before_", "hook.after_")) else None


def serve(answer: Callable[[str, dict[str, Any]], dict[str, Any] | None]) -> None:
    """Answer each line of the host. A line that is not a message is skipped; a method without an answer is refused."""
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            print(f"not JSON: {error}", file=sys.stderr)
            continue
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            continue
        result = answer(message["method"], message.get("params") or {})
        if message.get("id"):  # 0 or none: an event, which has no answer
            refusal = {"error": {"code": -32601, "message": "no such method"}}
            said = refusal if result is None else {"result": result}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **said}), flush=True)


def check(path: str, head: str | None) -> None:
    with open(path, "rb") as file:
        count, found, end = verify(file)
        if end != os.fstat(file.fileno()).st_size:
            raise BrokenError(f"the record after record {count} is incomplete")
    if head and head != found:
        raise BrokenError(f"the last record, number {count}, does not have this head")
    print(f"{count} records, head {found}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--verify", action="store_true")
    parser.add_argument("--head", metavar="HASH")
    parser.add_argument("file", metavar="FILE")
    given = parser.parse_args()
    try:
        if given.verify:
            check(given.file, given.head)
        else:
            log = Log(given.file)
            serve(log.answer)
            print(f"{log.count} records, head {log.head}", file=sys.stderr)
    except BrokenError as error:
        print(f"{given.file}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Sends events while the server and the host are killed, and counts what arrives: `python tests/soak/events.py --events 10000`.

Prints a line of JSON for each part, and fails if an event that was kept is lost, or if one is in the log twice.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import nats

sys.path.append(str(Path(__file__).parents[1] / "nats"))

from server import Server

HOST = """
import sys, anyio
from picohook import FunctionHook, Host

async def main(config, first, count):
    async with Host.from_config(config) as host:
        await host.mount(FunctionHook("look", {"before_tool": lambda _: None}))
        spool = host._listeners.all[-1].spool
        for number in range(first, first + count):
            await host.before_tool({"tool": "t", "tool_call_id": str(number)})
            if number % 50 == 49:
                await anyio.to_thread.run_sync(spool.wait_kept, spool.put_count, 60)
                print(number, flush=True)
    print("end", flush=True)

anyio.run(main, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), backend=sys.argv[4])
"""


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=10_000)
    parser.add_argument("--backend", default="asyncio")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        server = Server("-js", "-sd", f"{place}/js")
        try:
            return kill_both(Path(place), server, given.events, given.backend)
        finally:
            server.kill()


def kill_both(place: Path, server, events: int, backend: str) -> int:
    config = place / "picohook.toml"
    config.write_text(f'[nats]\nservers = ["{server.url}"]\ntenant = "t"\n[nats.events]\nspool = "spool"\n[hooks]\n')
    picohook = [sys.executable, "-m", "picohook", "nats"]
    subprocess.run([*picohook, "create", "--config", config], check=True, stdout=subprocess.DEVNULL)
    began, kept, server_kills, host_kills = time.monotonic(), {}, 0, 0
    quarter = events // 4
    for run in range(4):
        first = run * events
        command = [sys.executable, "-c", HOST, config, str(first), str(quarter), backend]
        host = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert host.stdout is not None
        kept[first] = first
        for line in host.stdout:
            if line == "end\n":
                break
            kept[first] = int(line) + 1
            done = kept[first] - first
            if done in {quarter // 5 // 50 * 50, quarter // 2 // 50 * 50}:
                server.kill()
                server_kills += 1
                if run != 2:  # in one run, the server is away until the host has ended
                    server.start()
            if run % 2 and done >= quarter * 4 // 5:
                host.send_signal(signal.SIGKILL)
                host_kills += 1
                break
        host.stdout.close()
        host.wait()
        if server.process.poll() is not None:
            server.start()
    produced = time.monotonic() - began
    # A last host sends what the others have left, while a consumer is killed.
    subprocess.run(
        [sys.executable, "-c", HOST, config, str(9 * events), "50", backend], check=True, stdout=subprocess.DEVNULL
    )
    kept[9 * events] = 9 * events + 50
    consume = [*picohook, "consume", "--config", config, "--to-audit", place / "all.jsonl"]
    wait_until_sent(place / "spool", config, backend, events)
    consumer = subprocess.Popen(consume, stderr=subprocess.DEVNULL)
    while not (place / "all.jsonl").exists() or (place / "all.jsonl").stat().st_size < 200_000:
        time.sleep(0.02)
    consumer.kill()
    consumer.wait()
    subprocess.run([*consume, "--until-empty"], check=True)
    in_stream, ids = stream_counts(server.url)
    subprocess.run([sys.executable, "-m", "picohook", "audit", "verify", place / "all.jsonl"], check=True)
    calls, events_seen = Counter(), Counter()
    for line in (place / "all.jsonl").read_text().splitlines():
        record = json.loads(line)
        events_seen[record.get("event")] += 1
        if record["method"] == "hook.before_tool":
            calls[int(record["call"])] += 1
    expected = {number for first, end in kept.items() for number in range(first, end)}
    result = {
        "backend": backend,
        "kept": len(expected),
        "lost": len(expected - calls.keys()),
        "double": sum(count > 1 for count in calls.values())
        + sum(count > 1 for id_, count in events_seen.items() if id_),
        "in_log": sum(events_seen.values()),
        "in_stream": in_stream,
        "double_in_stream": in_stream - ids,
        "server_kills": server_kills,
        "host_kills": host_kills,
        "seconds": round(produced, 1),
        "left_in_spool": len([name for name in os.listdir(place / "spool") if name.endswith(".events")]),
    }
    print(json.dumps(result))
    return 1 if result["lost"] or result["double"] else 0


def wait_until_sent(spool: Path, config: Path, backend: str, events: int) -> None:
    """Start hosts until all events have left the spool: each sends what the one before has left."""
    for run in range(20):
        if not any(name.endswith(".events") for name in os.listdir(spool)):
            return
        command = [sys.executable, "-c", HOST, config, str((10 + run) * events), "0", backend]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    raise RuntimeError("events stay in the spool")


def stream_counts(url: str) -> tuple[int, int]:
    """How many messages the stream has, and how many ids they have."""

    async def count() -> tuple[int, int]:
        client = await nats.connect(url)
        js = client.jetstream()
        subscription = await js.subscribe("picohook.v1.evt.>", ordered_consumer=True)
        total = (await js.stream_info("PICOHOOK_EVENTS_t")).state.messages
        ids = {(await subscription.next_msg(timeout=10)).headers["ce-id"] for _ in range(total)}
        await client.close()
        return total, len(ids)

    return asyncio.run(count())


if __name__ == "__main__":
    raise SystemExit(main())

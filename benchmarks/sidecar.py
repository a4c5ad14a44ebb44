"""The host as a sidecar, against a host of the same configuration, embedded."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from picohook import Host, Meta

from .clients import CHUNK, line
from .given import CALL, Given, on
from .measure import Row, Timed, Times, alternate, blocking, each, micros, on_one_core, p50

AT_ONCE = 64
TIMEOUTS = "interceptor_timeout = 60\nhello_timeout = 60\nchain_budget = 300"


class Sidecar:
    """`picohook serve` at a socket, and the least that a client can do: lines that are ready, answers that are counted."""

    def __init__(self, config: Path) -> None:
        path = config.with_name("s")
        command = [sys.executable, "-m", "picohook", "serve", "--config", str(config), "--socket", str(path)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE)
        assert self._process.stderr is not None
        said = self._process.stderr.readline()
        assert said.startswith(b"Serving"), said
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(str(path))

    def ask(self, requests: bytes, count: int) -> bytes:
        """The answers to so many requests."""
        self._connection.sendall(requests)
        data = self._connection.recv(CHUNK)
        parts, seen = [data], data.count(b"\n")
        while seen < count:
            parts.append(data := self._connection.recv(CHUNK))
            seen += data.count(b"\n")
        return b"".join(parts)

    def each(self, count: int, at_once: int) -> Timed:
        """The time of one of `count`, so many of them at once."""
        requests = b"".join(line(number, "before_tool", CALL.wire()) for number in range(1, at_once + 1))

        async def timed() -> float:
            begun = time.perf_counter()
            for _ in range(count // at_once):
                self.ask(requests, at_once)
            return (time.perf_counter() - begun) / (count // at_once * at_once)

        return timed

    def close(self) -> None:
        """End it."""
        self._connection.sendall(line(1, "shutdown", {}))
        self._process.communicate()
        self._connection.close()


def configuration(directory: Path, echo: str) -> Path:
    """A configuration with one hook, for both sides."""
    config = directory / "picohook.toml"
    config.write_text(f"[defaults]\n{TIMEOUTS}\n[hooks.h]\ncommand = {json.dumps([echo])}\nstages = ['before_tool']\n")
    return config


async def _against_embedded(given: Given) -> Times:
    count = given.times(4096)
    with tempfile.TemporaryDirectory() as directory:
        config = configuration(Path(directory), given.echo)
        sidecar = Sidecar(config)
        answer = json.loads(sidecar.ask(line(1, "before_tool", CALL.wire()), 1))
        assert [entry["error"] for entry in answer["result"]["trail"]] == [None], answer
        # What was read or encoded for one call helps no other.
        new = [CALL.model_copy(update={"meta": Meta(iteration=number)}) for number in range(given.rounds * count // 4)]
        lines = [line(1, "before_tool", call.wire()) for call in new]
        try:
            async with Host.from_config(config) as host:
                return await alternate(
                    given.rounds,
                    embedded=each(count, AT_ONCE, partial(host.before_tool, CALL)),
                    sidecar=sidecar.each(count, AT_ONCE),
                    embedded_alone=p50(count // 4, partial(host.before_tool, CALL)),
                    sidecar_alone=blocking(partial(sidecar.ask, line(1, "before_tool", CALL.wire()), 1), count // 4),
                    embedded_new=p50(count // 4, lambda: host.before_tool(new.pop())),
                    sidecar_new=blocking(lambda: sidecar.ask(lines.pop(), 1), count // 4),
                )
        finally:
            sidecar.close()


def sidecar(given: Given) -> list[Row]:
    """Questions through `picohook serve`."""
    with on_one_core():
        at = on("uvloop", partial(_against_embedded, given))  # which the sidecar takes where it is there
    detail = {f"{name}_per_s": round(1 / at[name]) for name in ("embedded", "sidecar")}
    alone, new = (
        {f"{name}_us": micros(at[f"{name}_{what}"]) for name in ("embedded", "sidecar")} for what in ("alone", "new")
    )
    return [
        Row(
            f"throughput of the sidecar, {AT_ONCE} in flight, uvloop, against embedded",
            at.ratio("embedded", "sidecar"),
            must=0.286,
            more_is_better=True,
            detail=detail,
        ),
        Row(
            "round trip through the sidecar, uvloop, against embedded",
            at.ratio("sidecar_alone", "embedded_alone"),
            must=3.5,
            detail=alone,
        ),
        Row(
            "round trip through the sidecar, a new meta each call, uvloop, against embedded",
            at.ratio("sidecar_new", "embedded_new"),
            must=3.5,
            detail=new,
        ),
    ]

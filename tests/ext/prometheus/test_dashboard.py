"""The Grafana dashboard: a real Prometheus scrapes two hosts, and answers each of its queries."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import urllib.parse
import urllib.request
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from picohook import Continue, Deny, FunctionHook, Host
from picohook.ext.prometheus.endpoint import metrics_endpoint

DASHBOARD = json.loads((Path(__file__).parents[3] / "docs/how-to/grafana.json").read_text())
QUERIES = {
    f"{panel['title']} {target['refId']}": target["expr"]
    for panel in DASHBOARD["panels"]
    for target in panel["targets"]
}
VARIABLES = {"$__rate_interval": "1m", "$hook": ".*", "$instance": ".*"}

CONFIG = """
scrape_configs:
- job_name: picohook
  scrape_interval: 200ms
  scrape_timeout: 200ms
  static_configs: [{{targets: ["127.0.0.1:{first}", "127.0.0.1:{second}"]}}]
"""


class ScrapedHost(Host):
    """A host that knows when it was scraped."""

    def __init__(self, *hooks):
        super().__init__(hooks)
        self.awaited = []

    async def scraped(self, times):
        """Wait until the host is asked for its figures so many times more."""
        for _ in range(times):
            self.awaited.append(anyio.Event())
            await self.awaited[-1].wait()

    def status(self):
        while self.awaited:
            self.awaited.pop().set()
        return super().status()


def fail(_):
    raise ValueError("broken")


def hooks():
    yield FunctionHook("broken", {"before_tool": fail})
    yield FunctionHook("sound", {"before_tool": lambda call: Continue() if call.tool == "read" else Deny("no")})


async def answers_of_prometheus(path):
    """What Prometheus answers to each query about two hosts whose hooks continued, denied and failed."""
    async with (
        ScrapedHost(*hooks()) as first,
        ScrapedHost(*hooks()) as second,
        metrics_endpoint(first, "127.0.0.1:0") as first_endpoint,
        metrics_endpoint(second, "127.0.0.1:0") as second_endpoint,
        anyio.create_task_group() as tasks,
    ):
        await ask(first, second)
        config = path / "prometheus.yml"
        config.write_text(CONFIG.format(first=first_endpoint.server_port, second=second_endpoint.server_port))
        command = [
            "prometheus",
            f"--config.file={config}",
            f"--storage.tsdb.path={path / 'data'}",
            "--web.listen-address=127.0.0.1:0",
        ]
        process = await anyio.open_process(command, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        try:
            address = await listening(process.stderr)
            tasks.start_soon(drain, process.stderr)
            await scraped(1, first, second)
            await ask(first, second)
            await scraped(2, first, second)  # when the second begins, Prometheus has stored the first
            return {
                name: await anyio.to_thread.run_sync(query, address, expression)
                for name, expression in {
                    **QUERIES,
                    "": "sum by (hook, stage, action) (picohook_decisions_total)",
                }.items()
            }
        finally:
            process.terminate()
            with anyio.CancelScope(shield=True):
                await process.wait()
            tasks.cancel_scope.cancel()


async def ask(*hosts):
    for host in hosts:
        await host.prove_life()
        for tool in ("read", "write", "read"):
            await host.before_tool({"tool": tool})


async def scraped(times, *hosts):
    async with anyio.create_task_group() as tasks:
        for host in hosts:
            tasks.start_soon(host.scraped, times)


async def listening(stderr):
    """The address at which Prometheus listens. It logs the address when it is ready for requests."""
    log = b""
    async for part in stderr:
        log += part
        ready = b"ready to receive web requests" in log
        if ready and (found := re.search(rb'msg="Listening on" address=(\S+)', log)):
            return found[1].decode()
    raise AssertionError(log.decode())


async def drain(stream):
    async for _ in stream:
        pass


def query(address, expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    asked = urllib.parse.urlencode({"query": expression})
    with urllib.request.urlopen(f"http://{address}/api/v1/query?{asked}", timeout=60) as response:
        return json.load(response)["data"]["result"]


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    if shutil.which("prometheus") is None:
        pytest.skip("there is no prometheus: apt-get install --no-install-recommends prometheus")
    return anyio.run(answers_of_prometheus, tmp_path_factory.mktemp("prometheus"))


@pytest.mark.one_worker("prometheus")
def test_each_query_of_the_dashboard_has_an_answer(answers):
    useless = [name for name in QUERIES if not answers[name] or answers[name][0]["value"][1] == "NaN"]
    assert not useless, [QUERIES[name] for name in useless]


@pytest.mark.one_worker("prometheus")
def test_each_query_for_hosts_names_each_host(answers):
    per_host = [name for name, expression in QUERIES.items() if "by (instance" in expression]
    assert len(per_host) == 4
    assert [len({series["metric"]["instance"] for series in answers[name]}) for name in per_host] == [2] * 4


@pytest.mark.one_worker("prometheus")
def test_prometheus_has_the_decisions_by_hook_stage_and_action(answers):
    counts = {
        tuple(series["metric"][label] for label in ("hook", "stage", "action")): series["value"][1]
        for series in answers[""]
    }
    assert counts == {
        ("sound", "before_tool", "continue"): "8",
        ("sound", "before_tool", "deny_tool"): "4",
        ("broken", "before_tool", "continue"): "12",
    }


def test_all_queries_and_variables_name_a_metric_of_picohook():
    variables = [one["query"]["query"] for one in DASHBOARD["templating"]["list"] if one["type"] == "query"]
    assert all("picohook_" in expression for expression in (*QUERIES.values(), *variables))

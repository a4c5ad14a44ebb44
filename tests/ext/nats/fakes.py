"""Workers in the host's own event loop, which answer as they are told, and the connections that they have."""

from __future__ import annotations

import json

import anyio

from picohook.ext.nats import headers, subjects
from picohook.ext.nats.connection import NatsConnection
from picohook.observe.log import Log
from picohook.transport.event_loop import current_reactor


class FakeWorker:
    """Serves the hook `policy`. `answer` is called with each question, and returns the messages to answer with."""

    def __init__(self, connection, settings, answer):
        self.connection = connection
        self.settings = settings
        self.answer = answer
        self.questions = []
        self.cancelled = []

    async def __aenter__(self):
        tenant = self.settings.tenant
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        self.listening = [
            await self.connection.listen(subjects.rpc(tenant, "policy", "*", "*"), self._asked, queue="policy"),
            await self.connection.listen(subjects.cancel(tenant, "policy", "*"), self._cancelled),
        ]
        await self.connection.flush()
        self.changed = anyio.Event()
        return self

    async def __aexit__(self, *error):
        for listening in self.listening:
            await listening.stop()
        self.tasks.cancel_scope.cancel()
        return await self.tasks.__aexit__(*error)

    def _asked(self, message):
        self.questions.append(message)
        self._changed()
        self.tasks.start_soon(self._answer, message)

    async def _answer(self, message):
        question = json.loads(message.data)
        for result in self.answer(question):
            body = result if "jsonrpc" in result else {"jsonrpc": "2.0", "id": question["id"], "result": result}
            digest = body.pop("digest", message.headers[headers.NAME].split(" ")[0])
            await self.connection.publish(message.reply, json.dumps(body).encode(), headers={headers.NAME: digest})

    def _cancelled(self, message):
        self.cancelled.append(json.loads(message.data))
        self._changed()

    def _changed(self):
        self.changed.set()
        self.changed = anyio.Event()


class Connected:
    def __init__(self, settings):
        self.settings = settings

    async def __aenter__(self):
        self.connection = NatsConnection(self.settings, current_reactor(), Log(None))
        assert await self.connection.connected(20)
        return self.connection

    async def __aexit__(self, *error):
        with anyio.CancelScope(shield=True):
            await self.connection.aclose()

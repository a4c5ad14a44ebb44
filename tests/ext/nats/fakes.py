"""Workers in the host's own event loop, which answer as they are told, and the connections that they have."""

from __future__ import annotations

import hashlib
import json
import secrets

import anyio

from picohook.ext.nats import subjects
from picohook.ext.nats.connection import NatsConnection
from picohook.observe.log import Log
from picohook.transport.event_loop import current_reactor


class FakeWorker:
    """Serves the hook `policy`. `answer` is called with each question, and returns the messages to answer with."""

    def __init__(self, connection, settings, answer):
        self.connection = connection
        self.settings = settings
        self.answer = answer
        self.name = secrets.token_hex(4)
        self.questions = []
        self.cancelled = []

    async def __aenter__(self):
        tenant = self.settings.tenant
        self.tasks = anyio.create_task_group()
        await self.tasks.__aenter__()
        self.listening = [
            await self.connection.listen(subjects.rpc(tenant, "policy", "*", "*", name), self._asked, queue="policy")
            for name in (subjects.ANY, self.name)
        ]
        self.listening += [
            await self.connection.listen(subjects.cancel(tenant, "policy", "*"), self._cancelled),
        ]
        await self.connection.flush()
        self.changed = anyio.Event()
        return self

    async def __aexit__(self, *error):
        for listening in self.listening:
            await self.connection.unlisten(listening, drain=True)
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
            digest = body.pop("digest", hashlib.sha256(message.data).hexdigest())
            await self.connection.publish(f"{message.reply}.{digest}.{self.name}", json.dumps(body).encode())

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

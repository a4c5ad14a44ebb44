"""A bare NATS responder: answers each request at once, and reads nothing of it."""

import asyncio
import sys

import nats


async def main(url: str) -> None:
    client = await nats.connect(url)

    async def answer(message: object) -> None:
        await message.respond(b'{"jsonrpc":"2.0","id":1,"result":{"action":"continue"}}')

    await client.subscribe("bare", queue="bare", cb=answer)
    await client.flush()
    print("ready", flush=True)
    await asyncio.Event().wait()


if sys.argv[2] == "uvloop":
    import uvloop

    uvloop.run(main(sys.argv[1]))
else:
    asyncio.run(main(sys.argv[1]))

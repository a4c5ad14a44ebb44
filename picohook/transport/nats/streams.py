"""The stream that has the events of a tenant, and the bucket that has its bundles."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ...errors import NatsError
from . import subjects

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.js import JetStreamContext
    from nats.js.api import StreamConfig

DUPLICATE_WINDOW = 120.0
"""Seconds in which the server recognises an event that is sent again."""
MAX_AGE = 30 * 86400.0
MAX_BYTES = 1 << 30
BUNDLES = "PICOHOOK_BUNDLES"


def events_stream(tenant: str) -> str:
    """The name of the stream with the events of a tenant."""
    return f"PICOHOOK_EVENTS_{subjects.token(tenant)}"


def dead_letters(tenant: str) -> str:
    """The subject of events that a consumer could not take."""
    return f"{subjects.PREFIX}.dead.{subjects.token(tenant)}"


def stream_config(
    tenant: str, name: str | None = None, *, max_age: float = MAX_AGE, max_bytes: int = MAX_BYTES, replicas: int = 1
) -> StreamConfig:
    """The settings of the stream. At a limit, the server removes the oldest events."""
    from nats.js import api  # noqa: PLC0415 - an extra

    return api.StreamConfig(
        name=name or events_stream(tenant),
        subjects=[f"{subjects.PREFIX}.evt.{subjects.token(tenant)}.>", f"{dead_letters(tenant)}.>"],
        storage=api.StorageType.FILE,
        retention=api.RetentionPolicy.LIMITS,
        discard=api.DiscardPolicy.OLD,
        max_age=max_age,
        max_bytes=max_bytes,
        duplicate_window=DUPLICATE_WINDOW,
        num_replicas=replicas,
        deny_delete=True,
    )


async def define(js: JetStreamContext, config: StreamConfig) -> bool:
    """Make the stream, or give it these settings. Returns whether it is new."""
    from nats.js.errors import NotFoundError  # noqa: PLC0415 - an extra

    try:
        await js.stream_info(str(config.name))
    except NotFoundError:
        await js.add_stream(config)
        return True
    await js.update_stream(config)
    return False


async def define_all(client: Client, config: StreamConfig, bucket: str, *, replicas: int) -> tuple[bool, bool]:
    """Make the stream and the bucket. Returns which of them are new. Raises `NatsError`."""
    js = client.jetstream()
    try:
        return await define(js, config), await define_bucket(js, bucket, replicas=replicas)
    except Exception as error:  # noqa: BLE001 - raised as a `NatsError`
        raise NatsError(str(error) or type(error).__name__, cause="unreachable") from None


async def define_bucket(js: JetStreamContext, bucket: str = BUNDLES, *, replicas: int = 1) -> bool:
    """Make the bucket for bundles, unless it is there. Returns whether it is new."""
    from nats.js.errors import NotFoundError  # noqa: PLC0415 - an extra

    try:
        await js.key_value(bucket)
    except NotFoundError:
        settings: dict[str, Any] = {"bucket": bucket, "history": 16, "replicas": replicas}
        await js.create_key_value(**settings)
        return True
    return False


async def read_bundle(client: Client, bucket: str, name: str) -> bytes | None:
    """The newest bundle of this name; None if there is none. Raises `NatsError`."""
    from nats.js.errors import KeyNotFoundError  # noqa: PLC0415 - an extra

    try:
        store = await client.jetstream().key_value(bucket)
        return (await store.get(subjects.token(name))).value
    except KeyNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - raised as a `NatsError`
        raise _failed(f"the bucket {bucket} cannot be read", error) from None


async def write_bundle(client: Client, bucket: str, name: str, data: bytes) -> int:
    """Put a bundle into the bucket. Returns its revision there. Raises `NatsError`."""
    try:
        store = await client.jetstream().key_value(bucket)
        return await store.put(subjects.token(name), data)
    except Exception as error:  # noqa: BLE001 - raised as a `NatsError`
        raise _failed(f"the bucket {bucket} cannot be written", error) from None


def _failed(what: str, error: Exception) -> NatsError:
    from nats.js.errors import BucketNotFoundError, NotFoundError  # noqa: PLC0415 - an extra

    if isinstance(error, BucketNotFoundError | NotFoundError):
        return NatsError(f"{what}: there is none (picohook nats create makes it)", cause="unreachable")
    return NatsError(f"{what}: {str(error) or type(error).__name__}", cause="unreachable")

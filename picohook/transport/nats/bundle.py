"""Bundles: a central configuration, with a version that rises, signed with an Ed25519 key.

A bundle is JSON with the fields of `_FIELDS`. The signature covers the other fields, as sorted, compact JSON after the line
`picohook bundle`. Keys are written as NATS writes them: a public key begins with U, and a secret seed with SU.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import ConfigError, PicohookError, Problem
from ...protocol.codec import decode_value
from ...wire.text import cut, escape

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

FORMAT = 1
MOST = 1 << 20
"""Bytes of the largest bundle. A server's limit for one message is the same, by default."""
LARGEST_VERSION = (1 << 53) - 1
_PURPOSE = b"picohook bundle\n"
_FIELDS = {
    "format": int,
    "tenant": str,
    "name": str,
    "version": int,
    "config": dict,
    "hashes": dict,
    "key": str,
    "signature": str,
}
_USER, _SEED = 20 << 3, 18 << 3
"""The first bytes of a user's public key, and of a seed."""
_KEY_LENGTH = 35
"""Bytes of a public key: its kind, the key, and a checksum."""


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was read. Only `verify` returns one whose signature is known to be right."""

    tenant: str
    name: str
    version: int
    config: dict[str, Any]
    hash: str
    """SHA-256 of the configuration."""
    key: str
    """The public key that it names as its signer's."""
    data: bytes
    """Its own bytes."""

    def __str__(self) -> str:
        return f"bundle {escape(self.name)} version {self.version}"


def new_key() -> tuple[str, str]:
    """Returns a new key: its seed, which is secret, and its public key."""
    nkeys, signing = _libraries()
    seed = nkeys.encode_seed(bytes(signing.SigningKey.generate()), _USER)
    return seed.decode(), nkeys.from_seed(seed).public_key.decode()


def public_key(seed: str) -> str:
    """Returns the public key of a seed. Raises `PicohookError` if it is not a seed of a user's key."""
    return str(_pair(seed).public_key.decode())


def sign(config: Mapping[str, Any], *, tenant: str, name: str, version: int, seed: str) -> bytes:
    """Returns a signed bundle. The configuration is not checked. Raises `PicohookError`."""
    if not 1 <= version <= LARGEST_VERSION:
        raise PicohookError(f"the version of a bundle is a whole number from 1 on, not {version}")
    document: dict[str, Any] = {
        "format": FORMAT,
        "tenant": tenant,
        "name": name,
        "version": version,
        "config": dict(config),
        "hashes": {"config": hash_of(config)},
        "key": public_key(seed),
    }
    document["signature"] = base64.b64encode(_pair(seed).sign(_PURPOSE + canonical(document))).decode()
    data = canonical(document)
    if len(data) > MOST:
        raise PicohookError(f"the bundle has {len(data)} bytes, and {MOST} are allowed")
    return data


def read(data: bytes, place: str) -> Bundle:
    """Read a bundle without checking its signature. Raises `ConfigError`. `place` says where it comes from."""
    if len(data) > MOST:
        raise refused(place, "", f"has {len(data)} bytes, and {MOST} are allowed")
    try:
        document = decode_value(data)
    except ValueError as error:
        raise refused(place, "", f"is not JSON: {cut(escape(str(error)), 200)}") from None
    if not isinstance(document, dict):
        raise refused(place, "", "is not a bundle: it must be an object")
    if document.get("format", FORMAT) != FORMAT:
        raise refused(place, "format", f"this picohook knows format {FORMAT}", "update picohook")
    for field, kind in _FIELDS.items():
        if type(document.get(field)) is not kind:
            raise refused(place, field, "is missing" if field not in document else "is of a wrong type")
    if len(document) != len(_FIELDS):
        raise refused(place, "", "has fields that no bundle has")
    if not 1 <= document["version"] <= LARGEST_VERSION:
        raise refused(place, "version", "must be a whole number from 1 on")
    digest = hash_of(document["config"])
    if document["hashes"] != {"config": digest}:
        raise refused(place, "hashes.config", "is not the hash of the configuration")
    return Bundle(
        tenant=document["tenant"],
        name=document["name"],
        version=document["version"],
        config=document["config"],
        hash=digest,
        key=document["key"],
        data=data,
    )


def verify(data: bytes, place: str, *, keys: Collection[str], tenant: str, name: str) -> Bundle:
    """Read a bundle, and check that one of these keys signed it for this tenant and name. Raises `ConfigError`."""
    bundle = read(data, place)
    if bundle.key not in keys:
        raise refused(place, "key", f"{escape(bundle.key)} is not trusted here", "add it to nats.bundle.keys")
    document = decode_value(data)
    signature = document.pop("signature")
    _, signing = _libraries()
    from nacl.exceptions import BadSignatureError  # noqa: PLC0415 - an extra

    try:
        key = signing.VerifyKey(_raw_public(bundle.key))
        key.verify(_PURPOSE + canonical(document), base64.b64decode(signature, validate=True))
    except (BadSignatureError, ValueError):
        raise refused(place, "signature", "is wrong: the bundle was changed after it was signed") from None
    for what, expected, given in (("tenant", tenant, bundle.tenant), ("name", name, bundle.name)):
        if given != expected:
            raise refused(place, what, f"is {json.dumps(given)}, and this host takes bundles of {json.dumps(expected)}")
    return bundle


def require_newer(bundle: Bundle, kept: Bundle | None, place: str) -> None:
    """Raise `ConfigError` if the bundle is older than the one that is kept, or another one with its version."""
    if kept is None or bundle.version > kept.version:
        return
    hint = "sign it with a higher version"
    if bundle.version < kept.version:
        raise refused(place, "version", f"is {bundle.version}, and {kept.version} was taken over before", hint)
    if bundle.hash != kept.hash:
        raise refused(place, "version", f"is {bundle.version}, as that of another bundle taken over before", hint)


def check_public(key: str) -> str:
    """Returns the key. Raises `ValueError` if it is not a public key."""
    if key.startswith("S"):
        raise ValueError("is a secret seed: give the public key, which begins with U")
    _raw_public(key)
    return key


def hash_of(config: Any) -> str:
    """The hash of a configuration."""
    return hashlib.sha256(canonical(config)).hexdigest()


def canonical(value: Any) -> bytes:
    """A JSON value as the bytes that are signed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def refused(place: str, where: str, message: str, hint: str = "") -> ConfigError:
    """The error for a bundle that cannot be used."""
    return ConfigError([Problem(escape(place), where, message, hint)])


def _pair(seed: str) -> Any:
    nkeys, _ = _libraries()
    text = seed.strip().encode()
    try:
        prefix, raw = nkeys.decode_seed(text)
        whole = prefix == _USER and nkeys.encode_seed(raw, prefix) == text  # which also compares the checksum
    except Exception:  # noqa: BLE001 - the library raises what it likes
        whole = False
    if not whole:
        raise PicohookError("this is not the seed of a key, which begins with SU: make one with `picohook nats key`")
    return nkeys.from_seed(text)


def _raw_public(key: str) -> bytes:
    """The 32 bytes of a public key. Raises `ValueError`."""
    nkeys, _ = _libraries()
    try:
        raw = base64.b32decode(key.encode() + b"=" * (-len(key) % 8))
    except ValueError:
        raw = b""
    if len(raw) != _KEY_LENGTH or raw[0] != _USER or nkeys.crc16(raw[:-2]) != int.from_bytes(raw[-2:], "little"):
        raise ValueError("is not a public key, which begins with U: `picohook nats key` shows it")
    return raw[1:-2]


def _libraries() -> tuple[Any, Any]:
    """The modules `nkeys` and `nacl.signing`. Raises `PicohookError` if they are not installed."""
    try:
        import nkeys  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
        from nacl import signing  # noqa: PLC0415
    except ImportError:
        raise PicohookError("signed bundles need the NATS extra: pip install 'picohook[nats]'") from None
    return nkeys, signing

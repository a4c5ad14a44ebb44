"""A configuration of the NATS server for a trial on one machine: an account a tenant, a key a user, least permissions, TLS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...errors import PicohookError
from . import subjects

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

ADMIN = "admin"
"""The user who makes streams and buckets, and may use every subject of the tenant."""
ANSWERS = 1000
"""How many messages a worker may answer a question with: the answer, and progress before it."""
ANSWERED_WITHIN = "15m"
"""How long a worker may answer a question. Questions that show progress, and those of people, may take ten minutes."""
DAYS = 365


@dataclass(frozen=True, slots=True)
class User:
    """A host, a worker or the administrator of a tenant: its name, and the subjects that it may publish and listen to."""

    name: str
    publish: tuple[str, ...]
    subscribe: tuple[str, ...]
    answers: bool = False
    """Whether it may answer questions, and publish nothing else."""

    @property
    def permissions(self) -> dict[str, Any]:
        """The permissions, as the server's configuration has them."""
        publish = {"allow": list(self.publish)} if self.publish else {"deny": [">"]}
        given: dict[str, Any] = {"publish": publish, "subscribe": {"allow": list(self.subscribe)}}
        if self.answers:
            del given["publish"]
            given["allow_responses"] = {"max": ANSWERS, "expires": ANSWERED_WITHIN}
        return given


def host(tenant: str, name: str, bucket: str = "PICOHOOK_BUNDLES") -> User:
    """What a host needs: to ask, to cancel, to publish its own events and state, to read bundles, and its own inbox."""
    group, store = subjects.token(tenant), f"KV_{bucket}"
    asks = (f"{subjects.PREFIX}.{kind}.{group}.>" for kind in ("rpc", "cancel"))
    tells = subjects.events_of(tenant, name), subjects.host(tenant, name)
    api = ("STREAM.INFO.{}", "STREAM.MSG.GET.{}", "DIRECT.GET.{}.>", "CONSUMER.CREATE.{}", "CONSUMER.CREATE.{}.>")
    reads = (f"$JS.API.{call.format(store)}" for call in (*api, "CONSUMER.DELETE.{}.*", "CONSUMER.INFO.{}.*"))
    return User(name, (*asks, *tells, "$SRV.PING.>", *reads), (f"{subjects.inbox(name)}.>", f"$KV.{bucket}.>"))


def worker(tenant: str, name: str) -> User:
    """What a worker needs: to be asked, and to answer."""
    group = subjects.token(tenant)
    asked = (f"{subjects.PREFIX}.{kind}.{group}.>" for kind in ("rpc", "cancel", "ctl"))
    return User(name, (), (*asked, "$SRV.>", f"{subjects.inbox(name)}.>"), answers=True)


def admin(name: str = ADMIN) -> User:
    """The administrator of a tenant, who may use every subject of its account."""
    return User(name, (">",), (">",))


class Trial:
    """A directory with all that a server, its hosts and its workers need. `write` makes it."""

    def __init__(
        self, directory: Path, *, tenant: str, hosts: Sequence[str], workers: Sequence[str], port: int, tls: bool
    ) -> None:
        """Makes a new key for each user. Raises `PicohookError` if nats-py is not installed."""
        self.directory = directory
        self.tenant = tenant
        self.port = port
        self.tls = tls
        users = (*(host(tenant, name) for name in hosts), *(worker(tenant, name) for name in workers), admin())
        self.keys = {user: _new_key() for user in users}
        """For each user, the seed and the public key."""

    @property
    def url(self) -> str:
        """The server's address."""
        return f"{'tls' if self.tls else 'nats'}://localhost:{self.port}"

    def write(self) -> None:
        """Write all files. Only their owner can read them. Raises `PicohookError`, also if the directory is not empty."""
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            if any(self.directory.iterdir()):
                raise PicohookError(f"{self.directory} is not empty: name a new directory")
            self.directory.chmod(0o700)
            if self.tls:
                _make_certificates(self.directory)
            files = {"server.conf": self.server_conf(), "policy.py": POLICY}
            files |= {f"{user.name}.nk": seed for user, (seed, _) in self.keys.items()}
            files |= {f"{user.name}.toml": self.client_toml(user) for user in self.keys}
            for name, text in files.items():
                with open(os.open(self.directory / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                    file.write(text)
        except OSError as error:
            raise PicohookError(f"{error.filename or self.directory} cannot be written: {error.strerror}") from None

    def server_conf(self) -> str:
        """The configuration of the server."""
        here = self.directory.absolute()
        users = [{"nkey": public, "permissions": user.permissions} for user, (_, public) in self.keys.items()]
        accounts = {subjects.token(self.tenant): {"jetstream": "enabled", "users": users}}
        parts = [
            "# For a trial on one machine. `picohook nats init` wrote it.",
            f'listen: "127.0.0.1:{self.port}"',
            f"jetstream {{ store_dir: {json.dumps(str(here / 'jetstream'))} }}",
            f"accounts {json.dumps(accounts, indent=2)}",
        ]
        if self.tls:
            files = {"cert_file": "server.pem", "key_file": "server.key", "ca_file": "ca.pem"}
            parts.append(f"tls {json.dumps({name: str(here / file) for name, file in files.items()})}")
        return "\n".join([*parts, ""])

    def client_toml(self, user: User) -> str:
        """The configuration of a host, of a worker or of the administrator."""
        parts = [
            "[nats]",
            f"servers = [{json.dumps(self.url)}]",
            f"tenant = {json.dumps(self.tenant)}",
            f"host = {json.dumps(user.name)}",
            f"nkey = {json.dumps(f'{user.name}.nk')}",
            *(['tls = { ca = "ca.pem" }'] if self.tls else []),
            "",
            "[hooks.policy]",
            'python = "policy:check"' if user.answers else 'nats = "policy"',
            'stages = ["before_tool"]',
        ]
        return "\n".join([*parts, ""])

    def commands(self) -> list[tuple[str, str]]:
        """What to run, each with what it does."""
        here, users = self.directory, tuple(self.keys)
        asking, serving = users[0].name, next(user.name for user in users if user.answers)
        call = """picohook call before_tool --params '{"tool": "bash", "arguments": {"command": "rm -rf /"}}'"""
        return [
            ("start the server", f"nats-server -c {here / 'server.conf'}"),
            ("serve a hook", f"picohook worker --config {here / serving}.toml"),
            ("ask it, as a host does", f"{call} --config {here / asking}.toml"),
            ("make the stream and the bucket", f"picohook nats create --config {here / ADMIN}.toml"),
        ]

    def operator_commands(self) -> list[str]:
        """The same users for servers of a company, with an operator and credentials that end, by NATS's own tool `nsc`.

        The configuration that it generates is for every server. The last command needs servers that run with it.
        """
        account = subjects.token(self.tenant)
        commands = [
            f"nsc add operator --generate-signing-key --sys {OPERATOR}",
            f"nsc add account {account}",
            f"nsc edit account {account} --js-mem-storage -1 --js-disk-storage -1",  # without it, it has no JetStream
        ]
        for user in self.keys:
            allowed = "".join(f" --allow-pub '{subject}'" for subject in user.publish)
            allowed += "".join(f" --allow-sub '{subject}'" for subject in user.subscribe)
            answers = f" --allow-pub-response={ANSWERS} --response-ttl {ANSWERED_WITHIN}" if user.answers else ""
            commands.append(f"nsc add user --account {account} {user.name} --expiry {DAYS}d{allowed}{answers}")
            commands.append(f"nsc generate creds --account {account} --name {user.name} > {user.name}.creds")
        push = f"nsc push -A -u nats://127.0.0.1:{self.port}"
        return [*commands, "nsc generate config --nats-resolver > resolver.conf", push]


OPERATOR = "company"
POLICY = '''"""The policy that workers serve."""

import re

HARMFUL = re.compile(r"\\brm\\s+-[a-z]*[rf]|\\bmkfs|>\\s*/dev/sd")


def check(call):
    if HARMFUL.search(str(call.arguments)):
        return {"action": "deny_tool", "reason": "the policy forbids this command"}
    return None
'''


def _new_key() -> tuple[str, str]:
    """A seed and its public key."""
    try:
        import nkeys  # type: ignore[import-untyped]  # noqa: PLC0415 - an extra
    except ImportError:
        raise PicohookError("NATS needs the package nats-py: pip install 'picohook[nats]'") from None
    seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
    return seed.decode(), nkeys.from_seed(bytearray(seed)).public_key.decode()


def _make_certificates(directory: Path) -> None:
    """An authority, and a certificate of the server for this machine. Raises `PicohookError` if openssl is missing or fails."""
    program = shutil.which("openssl")
    if program is None:
        raise PicohookError("there is no openssl, which makes certificates: install it, or use --no-tls")
    new = ["-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", str(DAYS), "-subj"]
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    authority = ["-CA", "ca.pem", "-CAkey", "ca.key"]
    server = ["-addext", names, "-addext", "basicConstraints=critical,CA:FALSE"]
    for arguments in (
        [*new, "/CN=picohook trial", "-keyout", "ca.key", "-out", "ca.pem"],
        [*new, "/CN=localhost", "-keyout", "server.key", "-out", "server.pem", *server, *authority],
    ):
        ran = subprocess.run([program, "req", *arguments], cwd=directory, capture_output=True, check=False)  # noqa: S603 - no shell
        if ran.returncode:
            raise PicohookError(f"openssl failed: {ran.stderr.decode(errors='replace').strip()}")
    for name in ("ca.key", "server.key"):
        (directory / name).chmod(0o600)

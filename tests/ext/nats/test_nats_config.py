"""The table `[nats]`, and hooks over NATS in a configuration."""

from __future__ import annotations

import pytest

from picohook import ConfigError, OnFailure
from picohook.config import load

HOOK = '[hooks.p]\nnats = "policy"\nstages = ["before_tool"]\n'


@pytest.fixture
def read(tmp_path):
    def read(text):
        file = tmp_path / "picohook.toml"
        file.write_text(text)
        return load(file)

    return read


def mistakes(read, text):
    with pytest.raises(ConfigError) as raised:
        read(text)
    return [f"{problem.where}: {problem.message}" for problem in raised.value.problems]


def test_files_are_relative_to_the_configuration(read, tmp_path):
    config = read(
        '[nats]\nservers = ["tls://hub:4222"]\nnkey = "a.nk"\ntls = { ca = "/etc/ca.pem", cert = "c.pem" }\n' + HOOK
    )
    (hook,) = config.hooks
    assert hook.connection == config.tables["nats"]
    assert config.tables["nats"].nkey == str(tmp_path / "a.nk")
    assert (config.tables["nats"].tls.ca, config.tables["nats"].tls.cert) == ("/etc/ca.pem", str(tmp_path / "c.pem"))


def test_a_failure_denies_unless_the_hook_itself_says_otherwise(read):
    general = '[defaults]\non_failure = "continue"\n'
    assert read(general + HOOK).hooks[0].on_failure is OnFailure.DENY
    assert read(general + HOOK + 'on_failure = "continue"\n').hooks[0].on_failure is OnFailure.CONTINUE


def test_another_connection_is_another_hook_at_a_reload(read):
    first = read('[nats]\ntenant = "a"\n' + HOOK).hooks[0]
    assert first.fingerprint != read('[nats]\ntenant = "b"\n' + HOOK).hooks[0].fingerprint
    assert first.fingerprint == read('[nats]\ntenant = "a"\n' + HOOK).hooks[0].fingerprint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            '[nats]\nservers = ["http://a"]\n' + HOOK,
            'nats.servers: must be URLs of servers, such as "nats://127.0.0.1:4222"',
        ),
        (
            '[nats]\nservers = ["nats://me:secret@a"]\n' + HOOK,
            "nats.servers: have a user or a password in them: name a file in `creds` or `nkey`",
        ),
        ('[nats]\ncreds = "a"\nnkey = "b"\n' + HOOK, "nats: has creds and nkey: a user has one of them"),
        (HOOK + 'observe = ["*"]\n', "hooks.p: observes events, and a hook that is served over NATS gets none"),
        (HOOK + "connection = {}\n", "hooks.p.connection: cannot be set in a file: it is the table [nats]"),
    ],
)
def test_one_mistake_is_one_message(read, text, message):
    assert mistakes(read, text) == [message]

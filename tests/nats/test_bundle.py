"""Bundles: whose signature counts, and for which tenant, name and version."""

from __future__ import annotations

import json

import pytest

from picohook import ConfigError, PicohookError
from picohook.transport.nats import bundle
from picohook.transport.nats.bundle import check_public, new_key, public_key, require_newer, sign, verify

CONFIG = {"hooks": {}}
SEED, KEY = new_key()
OTHER_SEED, OTHER_KEY = new_key()


def signed(version=1, *, config=CONFIG, seed=SEED, tenant="acme", name="default"):
    return sign(config, tenant=tenant, name=name, version=version, seed=seed)


def verified(data, keys=(KEY,)):
    return verify(data, "bundle", keys=keys, tenant="acme", name="default")


def changed(data, **fields):
    return json.dumps({**json.loads(data), **fields}).encode()


def misspelled(key):
    """The key with another letter in its middle."""
    return key[:20] + ("B" if key[20] == "A" else "A") + key[21:]


def refusal(data, **settings):
    with pytest.raises(ConfigError) as refused:
        verified(data, **settings)
    (problem,) = refused.value.problems
    return str(problem)


def test_a_signed_bundle_is_read_as_it_was_signed():
    found = verified(signed(7, config={"hooks": {}, "x": [1.0, "ä"]}))
    assert (found.version, found.config, found.key) == (7, {"hooks": {}, "x": [1.0, "ä"]}, KEY)


def test_the_order_and_the_space_in_its_text_do_not_matter():
    data = json.dumps(dict(reversed(json.loads(signed()).items())), indent=3).encode()
    assert verified(data).hash == verified(signed()).hash


def test_any_of_the_trusted_keys_may_sign():
    assert verified(signed(seed=OTHER_SEED), keys=[KEY, OTHER_KEY]).key == OTHER_KEY


@pytest.mark.parametrize("field", ["tenant", "name", "version"])
def test_a_field_that_was_changed_breaks_the_signature(field):
    value = 2 if field == "version" else "other"
    assert refusal(changed(signed(), **{field: value})) == (
        "bundle: signature: is wrong: the bundle was changed after it was signed"
    )


def test_a_configuration_that_was_changed_is_refused():
    assert "hashes.config: is not the hash" in refusal(changed(signed(), config={"hooks": {"a": {}}}))
    config = {"hooks": {"a": {}}}
    data = changed(signed(), config=config, hashes={"config": bundle.hash_of(config)})
    assert "signature: is wrong" in refusal(data)


def test_a_key_that_is_not_trusted_is_named():
    assert refusal(signed(seed=OTHER_SEED)) == (
        f"bundle: key: {OTHER_KEY} is not trusted here (add it to nats.bundle.keys)"
    )


def test_a_trusted_key_over_another_keys_signature_is_refused():
    assert "signature: is wrong" in refusal(changed(signed(seed=OTHER_SEED), key=KEY))


@pytest.mark.parametrize(("what", "value"), [("tenant", "other"), ("name", "canary")])
def test_a_bundle_of_another_tenant_or_name_is_refused(what, value):
    expected = {"tenant": "acme", "name": "default"}[what]
    assert refusal(signed(**{what: value})) == (
        f'bundle: {what}: is "{value}", and this host takes bundles of "{expected}"'
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not JSON"),
        (b"[]", "is not a bundle"),
        (b'{"version": 1, "version": 2}', "is not JSON: Detected duplicate key"),
        (changed(signed(), format=2), "format: this picohook knows format 1"),
        (changed(signed(), version=True), "version: is of a wrong type"),
        (changed(signed(), version=0), "version: must be a whole number"),
        (changed(signed(), more=1), "has fields that no bundle has"),
        (changed(signed(), signature="!"), "signature: is wrong"),
        (changed(signed(), signature=""), "signature: is wrong"),
        (b" " * (bundle.MOST + 1), "bytes, and 1048576 are allowed"),
    ],
)
def test_what_is_not_a_bundle_is_refused(data, message):
    assert message in refusal(data)


def test_a_version_only_rises():
    three, other_three, four = verified(signed(3)), verified(signed(3, config={"hooks": {"a": 1}})), verified(signed(4))
    require_newer(three, None, "bundle")
    require_newer(four, three, "bundle")
    require_newer(three, three, "bundle")
    with pytest.raises(ConfigError, match="version: is 3, and 4 was taken over before"):
        require_newer(three, four, "bundle")
    with pytest.raises(ConfigError, match="version: is 3, as that of another bundle"):
        require_newer(other_three, three, "bundle")


def test_a_seed_shows_its_public_key():
    assert public_key(SEED + "\n") == KEY
    assert check_public(KEY) == KEY


@pytest.mark.parametrize("seed", ["", "x", KEY, misspelled(SEED), SEED[:10], "SÄ"])
def test_a_text_that_is_no_seed_is_refused(seed):
    with pytest.raises(PicohookError, match="not the seed of a key"):
        public_key(seed)


@pytest.mark.parametrize(("key", "message"), [(SEED, "secret seed"), ("U", "not a public"), (misspelled(KEY), "not a")])
def test_a_text_that_is_no_public_key_is_refused(key, message):
    with pytest.raises(ValueError, match=message):
        check_public(key)


def test_a_version_below_one_cannot_be_signed():
    with pytest.raises(PicohookError, match="from 1 on, not 0"):
        signed(0)

"""The difference between the hooks that run and those of a new configuration."""

from picohook.reload.difference import difference

RUNNING = {"kept": 1, "changed": 1, "removed": 1}
WANTED = {"added": 1, "changed": 2, "kept": 1}


def test_hooks_are_added_changed_kept_or_removed_by_their_fingerprints():
    done = difference(RUNNING, WANTED).reloaded(WANTED, {})
    assert (done.added, done.changed, done.kept, done.removed) == (("added",), ("changed",), ("kept",), ("removed",))


def test_a_hook_that_did_not_start_is_neither_added_nor_changed():
    done = difference(RUNNING, WANTED).reloaded(WANTED, {"added": "no program", "changed": "no hello"})
    assert (done.added, done.changed, done.failed) == ((), (), {"added": "no program", "changed": "no hello"})


def test_a_hook_that_code_unmounted_meanwhile_is_removed_and_not_kept():
    done = difference(RUNNING, WANTED).reloaded({"added", "changed"}, {})
    assert (done.kept, done.removed) == ((), ("kept", "removed"))

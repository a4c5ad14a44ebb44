"""Tables, keywords and parts of an extension, tried with a package of somebody else."""

from __future__ import annotations

import logging

import needs
import pytest

from picohook import ConfigError, HookCrashedError, Host, Part, extensions
from picohook.config import load
from picohook.config.native import schema

PACKAGE = '''
from picohook import Consent, Extension, Keyword, Lazy, Listener, Part, Table
said = []

class Seen(Listener):
    def __init__(self, name): self.name = name
    def opened(self): said.append(f"{self.name} listens")
    def closed(self): said.append(f"{self.name} listened")

class GreetPart(Part):
    def __init__(self, names):
        self.names = names
        self.listeners = [Seen(name) for name in names]
    async def open(self, host):
        said.append(f"open {self.names}")
        if "bad" in self.names: raise OSError("no")
    async def started(self): said.append("started")
    def follow(self, tables): said.append(f"follow {[table.name for table in tables]}")
    def status(self): return {"greets": self.names}
    async def aclose(self):
        said.append(f"closed {self.names}")
        if "stuck" in self.names: raise OSError("stuck")

class Greet(Table):
    """Whom to greet."""
    name: str
    where: str = "."
    def placed(self, directory): return self.model_copy(update={"where": str(directory / self.where)})
    def apply(self, config, problems):
        if self.name == "nobody": problems.add("greet.name", "is nobody")
        return config
    def consent(self): yield Consent(f"picohook greets {self.name}")
    @classmethod
    def part(cls, tables): return GreetPart([table.name for table in tables])

class Mine(Table):
    user_only = True
    bare = "words"
    words: tuple[str, ...]

def also(name): return Greet(name=name)
def once(name): return GreetPart([name])

extension = Extension(
    name="greet",
    tables={"greet": Lazy("greet:Greet"), "mine": Lazy("greet:Mine")},
    keywords={"greet": Keyword(Lazy("greet:also")), "greet_once": Keyword(Lazy("greet:once"), "NAME", "Greet.")},
)
'''
pytestmark = pytest.mark.anyio


@pytest.fixture
def greet(install):
    """The module of somebody else's package, with what its parts said."""
    install("greet", text=PACKAGE)
    import greet

    return greet


@pytest.fixture
def config(tmp_path):
    def write(text: str):
        (tmp_path / "picohook.toml").write_text(text)
        return tmp_path / "picohook.toml"

    return write


def complaints(path, **settings) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(path, **settings)
    return [f"{problem.where}: {problem.message}" for problem in caught.value.problems]


@needs.other_rooms
async def test_a_table_makes_a_part_that_lives_as_long_as_the_host(greet, config):
    async with Host.from_config(config('[greet]\nname = "Ada"\n')) as host:
        assert greet.said == ["Ada listens", "open ['Ada']", "started"]
        assert host.status().parts == {"greets": ["Ada"]}
        assert host.parts.find(greet.GreetPart).names == ["Ada"]
    assert greet.said[3:] == ["Ada listened", "closed ['Ada']"]


@needs.other_rooms
async def test_a_keyword_adds_a_table_to_those_of_the_configuration_or_makes_a_part_of_its_own(greet, config):
    path = config('[greet]\nname = "Ada"\n')
    async with Host.from_config(path, greet="Bob", greet_once="Eve") as host:
        assert [part.names for part in host.parts.all] == [["Eve"], ["Ada", "Bob"]]
    async with Host(greet=None, greet_once=False) as host:
        assert host.parts.all == []


async def test_a_part_that_is_given_needs_no_extension():
    class Quiet(Part):
        pass

    async with Host(parts=[Quiet()]) as host:
        assert host.parts.find(Quiet) is host.parts.all[0]
        assert host.parts.find(dict) is None


def test_an_unknown_keyword_names_the_one_that_was_meant(greet):
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'gret': did you mean 'greet'\?"):
        Host(gret="Ada")


async def test_a_part_that_cannot_be_opened_keeps_the_host_from_starting_and_the_others_are_closed(greet):
    with pytest.raises(OSError, match="no"):
        await Host(greet_once="Eve", greet="bad").__aenter__()
    assert greet.said[-2:] == ["Eve listened", "closed ['Eve']"]


async def test_a_part_that_cannot_be_closed_is_logged_and_the_others_are_closed(greet, caplog):
    async with Host(greet_once="Eve", greet="stuck", logger=logging.getLogger("greet")):
        pass
    assert greet.said[-1] == "closed ['Eve']"
    assert "OSError('stuck')" in caplog.text


@needs.other_rooms
async def test_a_reload_makes_parts_and_the_others_follow_it(greet, config):
    path = config("[hooks]\n")
    async with Host.from_config(path) as host:
        config('[greet]\nname = "Ada"\n')
        await host.reload()
        assert greet.said == ["Ada listens", "open ['Ada']", "started"]
        config('[greet]\nname = "Bob"\n')
        await host.reload()
        config("[hooks]\n")
        await host.reload()
        assert greet.said[3:] == ["follow ['Bob']", "follow []"]
    assert greet.said[5:] == ["Ada listened", "closed ['Ada']"]


@needs.other_rooms
async def test_a_reload_that_fails_makes_no_part(greet, config):
    broken = '[hooks.a]\npython = "not_there:f"\nstages = ["before_tool"]\nrequired = true\n'
    async with Host.from_config(config("[hooks]\n")) as host:
        for text, error in (
            ('[greet]\nname = "bad"\n', OSError),
            (f'[greet]\nname = "Ada"\n{broken}', HookCrashedError),
        ):
            config(text)
            with pytest.raises(error):
                await host.reload()
            assert host.parts.all == []
    assert greet.said[:3] == ["bad listens", "open ['bad']", "bad listened"]
    assert greet.said[3:] == ["Ada listens", "open ['Ada']", "Ada listened", "closed ['Ada']"]


def test_a_table_is_placed_checked_and_shown_by_the_schema(greet, config, tmp_path):
    found = load(config('mine = ["a"]\n[greet]\nname = "Ada"\nwhere = "here"\n'))
    assert found.tables["greet"].where == str(tmp_path / "here")
    assert found.tables["mine"].words == ("a",)
    assert complaints(config('mine = [1]\n[greet]\nnam = "Ada"\n')) == [
        "greet.name: is missing",
        "greet.nam: unknown key",
        "mine[0]: must be text, not 1",
    ]
    assert complaints(config('[greet]\nname = "nobody"\n')) == ["greet.name: is nobody"]
    properties = schema()["properties"]
    assert properties["greet"]["description"] == "Whom to greet."
    assert properties["mine"]["anyOf"][0]["items"] == {"type": "string"}


def test_a_projects_file_cannot_have_a_table_for_users_alone(greet, config):
    path = config('mine = ["a"]\n')
    assert complaints(path, found=True) == ["mine: is not for a project's file"]


def test_an_unknown_table_names_the_one_that_was_meant_and_each_package_that_cannot_be_used(greet, install, config):
    install("broken", text="import not_there")
    path = config('[gret]\nname = "Ada"\n')
    with pytest.raises(ConfigError) as caught:
        load(path)
    first, second = caught.value.problems
    assert (first.where, second.where) == ("gret", "gret")
    assert first.message.startswith("may be a table of broken 1.2, which cannot be used: broken:extension cannot be")
    assert second.hint == 'did you mean "greet"?'


@needs.other_rooms
def test_a_table_of_picohooks_own_does_not_look_at_other_packages(install, config):
    install("greet", text="raise SystemExit('imported')")
    load(config('[audit]\npath = "log"\n'))
    assert extensions.others.cache_info().currsize == 0

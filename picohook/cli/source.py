"""What commands have in common: which configuration, and a host that runs its hooks until the work is done."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import anyio
import typer

from ..config import layers
from ..config.document import PicoClaw
from ..config.layers import Layers
from ..config.model_endpoints import model_clients
from ..model.spec import Timeouts
from . import output
from .listeners import hide_key, listeners
from .logged import verbose

if TYPE_CHECKING:
    from ..host import Host
    from ..listeners.listener import Listener

T = TypeVar("T")

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose", "-v", callback=verbose, help="Show the host's log on stderr, with what hooks say on theirs."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, one value a line.")]
Named = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="The configuration, alone. Without it: your own, and that of this directory if you trust it.",
        show_default=False,
    ),
]
Positional = Annotated[
    Path | None,
    typer.Argument(metavar="[CONFIG]", help="Without it: what is found.", show_default=False),
]
AlsoNamed = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The same as CONFIG.", show_default=False),
]
AsPicoClaw = Annotated[
    PicoClaw | None,
    typer.Option(
        "--picoclaw",
        help="The PicoClaw that hooks run as with; 0.2.9 is every newer one too. Wins over what the file says.",
        show_default=False,
    ),
]


def require_file(named: Path) -> Path:
    """The file that the user named."""
    if not named.is_symlink() and not named.exists():
        raise typer.BadParameter(f"there is no file {named}")
    return named


def either(positional: Path | None, named: Path | None) -> Path | None:
    """What is given as an argument, or with --config."""
    if positional is not None and named is not None:
        raise typer.BadParameter(f"give one of {positional} and --config {named}")
    return positional or named


def read(named: Path | None, picoclaw: PicoClaw | None = None, way_out: str = "name one with --config FILE") -> Layers:
    """The configuration that the user named, or all that are found. Nothing is said about trust in them."""
    if named is not None:
        return layers.named(require_file(named), picoclaw=picoclaw)
    found = layers.discover(picoclaw=picoclaw)
    if not found.configs:
        nowhere = "there is no picohook.toml, picohook.yaml or picohook.json here, and none of your own"
        raise typer.BadParameter(f"{nowhere}: {way_out}")
    return found


def configured(named: Path | None, picoclaw: PicoClaw | None = None) -> Layers:
    """What a command works with: named by the user, or found and trusted."""
    found = read(named, picoclaw)
    found.require_trust()
    for warning in found.warnings:
        output.warn(str(warning))
    return found


def with_hooks(
    config: Layers,
    work: Callable[["Host"], Awaitable[T]],
    *,
    timeouts: Timeouts | None = None,
    seen_by: "Sequence[Listener]" = (),
    **wanted: Any,
) -> T:
    """What `work` returns, with the hooks running. A signal that ends this program stops them first.

    `wanted`: the options of `listeners`.
    """

    async def serve() -> T:
        from ..host import Host  # noqa: PLC0415 - most commands start nothing

        with listeners(config.configs, **wanted) as chosen:
            hide_key()
            seen = [*chosen, *seen_by]
            timing = timeouts or config.timeouts
            async with Host(
                config.hooks, timeouts=timing, verify=config.verify, model_of=model_of, listeners=seen
            ) as host:
                return await work(host)

    model_of = model_clients(config)  # before the loop: it may read certificates
    return in_loop(serve)


def in_loop(work: Callable[[], Awaitable[T]]) -> T:
    """What `work` returns, in an event loop. A signal that ends this program cancels it first."""
    with contextlib.redirect_stdout(sys.stderr):  # hooks in this process may print
        return anyio.run(_until_signalled, work)


async def _until_signalled(work: Callable[[], Awaitable[T]]) -> T:
    with ended_by_signals():
        done = await work()
    return done  # noqa: RET504 - inside, and type checkers hold that the block may end without one


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """A signal that ends this program cancels this block first."""
    received: list[int] = []
    with anyio.CancelScope() as scope:

        def end(number: int) -> None:
            received.append(number)
            scope.cancel()

        on_endings(end)
        yield
        return
    raise typer.Exit(128 + received[0])


def on_endings(end: Callable[[int], None]) -> None:
    """Have every signal that ends a program do this instead."""
    for number in _ENDINGS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # under nohup, or in a script's background
            asyncio.get_running_loop().add_signal_handler(number, end, number)

"""Moves bytes to and from processes, on asyncio and on trio.

`Reactor` is the interface of an event loop. `LinePipe` moves bytes over two file descriptors. `Channel` turns a pipe and a
`protocol.Peer` into calls that can be awaited.
"""

from ..wire.platforms import require_posix

require_posix()

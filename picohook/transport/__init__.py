"""Bytes in, bytes out, on asyncio and on trio.

`Reactor` is the seam: what differs between the two event loops, and nothing else. `LinePipe` moves bytes over two file
descriptors, `Channel` joins a pipe and a `protocol.Peer` to calls that can be awaited.
"""

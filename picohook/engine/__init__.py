"""The hooks that are mounted, the order in which they are asked, and the loop that asks them."""

from ..wire.platforms import require_posix

require_posix()

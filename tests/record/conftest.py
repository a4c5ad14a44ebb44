from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "hooks"))

from fixtures import _no_process_is_left, board, journal  # noqa: F401

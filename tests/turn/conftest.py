from __future__ import annotations

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "hooks")]

from fixtures import board, journal  # noqa: F401

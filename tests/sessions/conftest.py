from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

sys.path.append(str(Path(__file__).parent))

collect_ignore = [] if find_spec("picohook.ext") else ["test_rounds.py", "test_session_hooks.py"]
"""These files are about extensions, too."""

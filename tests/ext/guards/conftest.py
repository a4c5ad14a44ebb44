"""What the tests of guards share: their helpers are beside them."""

import sys
from pathlib import Path

sys.path += [str(Path(__file__).parent)]

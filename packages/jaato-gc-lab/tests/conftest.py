"""What several tests share is in modules beside them; no test is a race against the clock."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).parent))  # pytest's import mode does not
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

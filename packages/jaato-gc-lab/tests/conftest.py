"""Makes the shared test modules importable and disables Hypothesis deadlines."""

import sys
from pathlib import Path

from hypothesis import settings

sys.path.append(str(Path(__file__).parent))  # --import-mode=importlib does not add it
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

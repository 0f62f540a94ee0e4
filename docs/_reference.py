"""Writes the parts of the reference that come from the code.

python docs/_reference.py   # write the pages in docs/reference again
"""

import os
from pathlib import Path

from _api import ApiTables
from _sections import with_sections

PAGES = sorted((Path(__file__).parent / "reference").glob("*.md"))


def written() -> dict[Path, str]:
    """Returns the text of every page as it should be."""
    tables = ApiTables()
    return {path: tables.page(with_sections(path.read_text(encoding="utf-8"))) for path in PAGES}


if __name__ == "__main__":
    for variable in [name for name in os.environ if name.startswith("JAATO_GC_")]:
        del os.environ[variable]  # it could change a default
    for path, text in written().items():
        path.write_text(text, encoding="utf-8")

"""Prints the installed distributions, and fails if they are not the expected ones.

Each argument is a distribution, its version and the URL of its wheel, separated by spaces. Uses
only the standard library, since it runs in the environments under test.
"""

import importlib.metadata
import json
import platform
import sys


def check(name: str, version: str, url: str) -> None:
    """Compare an installed distribution with the expected version and wheel."""
    distribution = importlib.metadata.distribution(name)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "an index")
    got = distribution.version
    print(f"  {name} {got} from {origin.rpartition('/')[0].rpartition('/')[2]}/")
    assert got == version, f"{name}: expected {version}, got {got}"
    assert origin == url, f"{name}: expected {url}, got {origin}"


if __name__ == "__main__":
    print(f"Python {platform.python_version()} with")
    for each in sys.argv[1:]:
        check(*each.split(" "))
    for name in ("pluggy", "pydantic"):
        print(f"  {name} {importlib.metadata.version(name)}")

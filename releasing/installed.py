"""Print what is installed here, and fail if it is not what should be.

Each argument is a distribution, its version and the address of its wheel, with spaces between.
Needs nothing but Python, since it runs in the environments that are tested.
"""

import importlib.metadata
import json
import platform
import sys


def check(name: str, version: str, url: str) -> None:
    """Compare one distribution with what should be installed."""
    distribution = importlib.metadata.distribution(name)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}").get("url", "an index")
    print(f"  {name} {distribution.version} from {origin.rpartition('/')[0].rpartition('/')[2]}/")
    assert distribution.version == version, f"{name} {distribution.version}, not {version}"
    assert origin == url, f"{name} from {origin}, not from {url}"


if __name__ == "__main__":
    print(f"Python {platform.python_version()} with")
    for each in sys.argv[1:]:
        check(*each.split(" "))
    for name in ("pluggy", "pydantic"):
        print(f"  {name} {importlib.metadata.version(name)}")

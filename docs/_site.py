"""Prepares the documentation site: collects the pages, and checks what was built from them.

    python docs/_site.py stage FOLDER          # write the input of the site builder
    python docs/_site.py check-offline FOLDER  # check its output

READMEs and the documents in the root of the repository become pages too. Links to files that are
not on the site are replaced by their text. A line ``<!-- ::: jaato_gc.GCSession -->`` is replaced
by the docstrings of that object.
"""

import os
import re
import shutil
import sys
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PICTURES = (".png", ".svg")

DOCSTRINGS = re.compile(r"^<!-- (::: \S+) -->$", re.MULTILINE)
FENCED = re.compile(r"^( *)(`{3,}|~{3,}).*?^\1\2`*$", re.MULTILINE | re.DOTALL)
TABLE_ROW = re.compile(r"^ *\|.*\|$", re.MULTILINE)
CODE_SPAN = re.compile(r"(?<!`)(?P<marks>`+)(?!`)(?P<code>.+?)(?<!`)(?P=marks)(?!`)")
LONG_CODE = 24
"""Longer code, in characters, may wrap at its spaces."""
LINK = re.compile(r"\[(?P<text>[^\]]*)\]\((?P<target>[^)\s#]*)(?P<anchor>#[^)\s]*)?\)")


def mirrored() -> dict[str, str]:
    """Returns the pages that come from other folders, by their path in the repository."""
    names = ("CHANGELOG", "ARCHITECTURE", "CONTRIBUTING", "CODE_OF_CONDUCT", "SECURITY")
    pages = {f"{name}.md": f"project/{name.lower().replace('_', '-')}.md" for name in names}
    for readme in sorted(ROOT.glob("packages/*/README.md")):
        pages[readme.relative_to(ROOT).as_posix()] = f"packages/{readme.parent.name}.md"
    return {path: page for path, page in pages.items() if (ROOT / path).exists()}


def stage(folder: Path) -> None:
    """Writes the configuration and the pages for the site builder into an empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "pages").mkdir(parents=True)
    (folder / "mkdocs.yml").write_text(configuration(), encoding="utf-8")
    sources = {path.relative_to(DOCS).as_posix(): path for path in sorted(DOCS.rglob("*.md"))}
    sources |= {page: ROOT / path for path, page in mirrored().items()}
    for page, path in sources.items():
        target = folder / "pages" / page
        target.parent.mkdir(parents=True, exist_ok=True)
        text = relink(with_docstrings(path.read_text(encoding="utf-8")), page)
        target.write_text(wrap_long_code(text), encoding="utf-8")
    pictures = (path for kind in PICTURES for path in DOCS.rglob(f"*{kind}"))
    for file in sorted([*pictures, DOCS / "_site.css"]):
        target = folder / "pages" / file.relative_to(DOCS)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, target)


def with_docstrings(markdown: str) -> str:
    """Returns a page with directives of mkdocstrings in place of its names."""
    return DOCSTRINGS.sub(r"\1\n", markdown)


def configuration() -> str:
    """Returns the configuration of the site builder."""
    text = (DOCS / "_site.yml").read_text(encoding="utf-8")
    sources = sorted(map(str, ROOT.glob("packages/*/src")))
    pages = mirrored().values()
    for title, kind in (("Packages", "packages"), ("Project", "project")):
        text += f"  - {title}:\n"
        text += "".join(f"      - {page}\n" for page in pages if page.startswith(f"{kind}/"))
    return text.replace("{sources}", ", ".join(sources))


def relink(markdown: str, page: str) -> str:
    """Returns the text of a page with the links of the site, and without markers for tests."""
    pages = mirrored()
    source = {target: path for path, target in pages.items()}.get(page, f"docs/{page}")

    def link(match: re.Match[str]) -> str:
        target = match["target"]
        if not target or re.match(r"[a-z][a-z0-9+.-]*:", target, re.IGNORECASE):
            return match[0]
        path = os.path.normpath(f"{Path(source).parent.as_posix()}/{target}").replace(os.sep, "/")
        in_docs = path.startswith("docs/") and path.endswith((".md", *PICTURES))
        on_site = pages.get(path) or (path.removeprefix("docs/") if in_docs else "")
        if not on_site:
            return match["text"]
        relative = os.path.relpath(on_site, Path(page).parent).replace(os.sep, "/")
        return f"[{match['text']}]({relative}{match['anchor'] or ''})"

    shown = FENCED.sub(lambda block: block[0].replace(" no-run", "", 1), markdown)
    return outside_of_blocks(shown, lambda text: LINK.sub(link, text))


def outside_of_blocks(markdown: str, change: Callable[[str], str]) -> str:
    """Returns a page with its prose and tables changed, and its fenced blocks as they are."""
    out, end = [], 0
    for block in FENCED.finditer(markdown):
        out += [change(markdown[end : block.start()]), block[0]]
        end = block.end()
    return "".join([*out, change(markdown[end:])])


def wrap_long_code(markdown: str) -> str:
    """Returns a page on which long code in tables can wrap at its spaces. Other code does not."""

    def code(match: re.Match[str]) -> str:
        long = len(match["code"]) > LONG_CODE and " " in match["code"]
        return f"{match[0]}{{ .wraps }}" if long else match[0]

    return outside_of_blocks(
        markdown, lambda text: TABLE_ROW.sub(lambda row: CODE_SPAN.sub(code, row[0]), text)
    )


def check_offline(site: Path) -> None:
    """Raises an error if a page loads anything from another host."""
    foreign = [
        f"{page.relative_to(site)}: {address}"
        for page in sorted(site.rglob("*.html"))
        for address in foreign_resources(page.read_text(encoding="utf-8"))
    ] + [
        f"{sheet.relative_to(site)}: {address}"
        for sheet in sorted(site.rglob("*.css"))
        for address in re.findall(
            r"(?:url\(|@import )[\"']?((?:https?:)?//[^\"')]+)", sheet.read_text(encoding="utf-8")
        )
    ]
    if foreign:
        raise SystemExit("the site loads files from other hosts:\n" + "\n".join(foreign))


class _Resources(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get("href") if tag == "link" else given.get("src")
        if re.match(r"(https?:)?//", address or "") and given.get("rel") != "canonical":
            self.found.append(address or "")


def foreign_resources(html: str) -> list[str]:
    """Returns the addresses of other hosts that a page loads files from."""
    parser = _Resources()
    parser.feed(html)
    return parser.found


if __name__ == "__main__":
    {"stage": stage, "check-offline": check_offline}[sys.argv[1]](Path(sys.argv[2]))

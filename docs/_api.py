"""Writes the tables of the API reference: names, what they are, and signatures.

A line ``<!-- ::: jaato_gc.GCSession -->`` names an object. The table above such lines has a row for
each of them, and for the methods and properties of classes. The site has the whole docstrings below
the table: there the line becomes a directive of mkdocstrings.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import griffe

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(?:(?:^\|.*\n)+\n)?(?P<marks>(?:^<!-- ::: \S+ -->\n)+)", re.MULTILINE)
MARK = re.compile(r"^<!-- ::: (\S+) -->$", re.MULTILINE)
HEADER = ("| name | description |", "|---|---|")
POSITIONAL = {
    griffe.ParameterKind.positional_only,
    griffe.ParameterKind.positional_or_keyword,
}
DESCRIBES_FIELDS = (griffe.DocstringSectionAttributes, griffe.DocstringSectionParameters)
STARS = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}


class ApiTables:
    """The tables of the API, from the sources of all packages. Nothing is imported."""

    def __init__(self) -> None:
        sources = sorted(ROOT.glob("packages/*/src"))
        loader = griffe.GriffeLoader(search_paths=sources, allow_inspection=False)
        for init in sorted(ROOT.glob("packages/*/src/*/__init__.py")):
            loader.load(init.parent.name, try_relative_path=False)
        loader.resolve_aliases()
        self._modules = loader.modules_collection

    def page(self, markdown: str) -> str:
        """Returns a page with its tables as they are in the code."""

        def block(found: re.Match[str]) -> str:
            names = MARK.findall(found["marks"])
            rows = [row for name in names for row in rows_of(self._modules[name])]
            return "\n".join([*HEADER, *rows, "", found["marks"]])

        return BLOCK.sub(block, markdown)


def rows_of(found: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yields the row of an object, and of a class those of its own members.

    Fields are in the signature, except for those of named tuples and typed dictionaries.
    """
    yield row(found.name, found)
    if found.is_class:
        if not signature(found):
            yield from field_rows(found)
        for name, member in found.members.items():
            is_field = member.is_attribute and "property" not in member.labels
            if member.is_public and not name.startswith("__") and not is_field:
                yield row(f".{name}", member)


def field_rows(found: griffe.Object | griffe.Alias) -> Iterator[str]:
    """Yields the rows of the fields that a class describes, one by one or in its docstring."""
    if found.docstring:
        for section in found.docstring.parse("google", warnings=False):
            if isinstance(section, DESCRIBES_FIELDS):
                for field in section.value:
                    text = " ".join(field.description.split()).replace("``", "`")
                    yield f"| `.{field.name}` | {text} |"
    bases = " ".join(map(str, getattr(found, "bases", ())))
    for name, member in found.members.items():
        is_field = member.is_attribute and "property" not in member.labels
        if is_field and member.docstring and "Enum" not in bases:
            yield row(f".{name}", member)


def row(name: str, found: griffe.Object | griffe.Alias) -> str:
    """Returns a row: a name, the first paragraph of its docstring, and its signature."""
    if not found.docstring:
        raise SystemExit(f"{found.path} has no docstring: add one for the reference")
    paragraph = found.docstring.value.strip().partition("\n\n")[0]
    summary = " ".join(paragraph.split()).replace("``", "`")
    summary = re.sub(":+$", ".", summary)  # it introduced an example
    below = f"<br>`{shown}`" if (shown := signature(found)) else ""
    return f"| `{name}` | {summary}{below} |"


def signature(found: griffe.Object | griffe.Alias) -> str:
    """Returns the arguments and the result of a function, or the arguments of a class."""
    match found.final_target if isinstance(found, griffe.Alias) else found:
        case griffe.Function(parameters=parameters, returns=returns):
            result = str(returns).replace(" | ", " or ")
            return f"({', '.join(arguments(parameters))}) -> {result}"
        case griffe.Class(parameters=parameters) if given := ", ".join(arguments(parameters)):
            return f"({given})"
    return ""


def arguments(parameters: griffe.Parameters) -> Iterator[str]:
    """Yields arguments as they are written in a definition, without their types."""
    only_by_keyword = False
    for parameter in parameters:
        kind = parameter.kind
        if parameter.name in ("self", "cls"):
            continue
        if kind is griffe.ParameterKind.keyword_only and not only_by_keyword:
            yield "*"
        only_by_keyword = kind not in POSITIONAL
        if kind in STARS:
            yield f"{STARS[kind]}{parameter.name}"
        else:
            yield parameter.name + (f"={parameter.default}" if parameter.default else "")

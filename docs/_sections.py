"""Writes the sections of the reference that come from the code: hooks, errors, options, results.

A line ``<!-- from the code: fields GCResult -->`` in a page names a section. Its content follows,
up to ``<!-- end -->``.
"""

import ast
import dataclasses
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import jaato_gc
from jaato_gc import GCConfig, GCError, PluginRegistry
from jaato_gc.collecting import outcome
from jaato_gc.history import invariants as history_rules
from jaato_gc.plugin import ENVIRONMENT_VARIABLES
from jaato_gc.plugins import hookspecs

ROOT = Path(__file__).parents[1]

SECTION = re.compile(
    r"^(?P<mark><!-- from the code: (?P<what>\w+)(?: (?P<name>\w+))? -->)\n"
    r"(?:(?:(?!<!-- from the code).*\n)*?<!-- end -->\n)?",
    re.MULTILINE,
)
"""A mark, and the content below it unless the mark is new."""
IN_WORDS = {
    "Count": "int",
    "EditAction": "str",
    "Flag": "bool",
    "NonNegativeInt": "int ≥ 0",
    "Percent": "0 to 100",
    "PositiveFloat": "float > 0",
    "PositiveInt": "int ≥ 1",
    "PositivePercent": "above 0 to 100",
    "SummarizerFunction": "callable",
    "SignedCount": "int",
}
"""Names of types, with a description for readers of the tables."""


def with_sections(markdown: str) -> str:
    """Returns a page with its sections as they are in the code."""

    def section(found: re.Match[str]) -> str:
        arguments = [found["name"]] if found["name"] else []
        content = SECTIONS[found["what"]](*arguments)
        return f"{found['mark']}\n\n{content}\n\n<!-- end -->\n"

    return SECTION.sub(section, markdown)


def hooks() -> str:
    """Returns a section for every hook, with its exact arguments."""
    return "\n\n".join(
        f"### `{name}({', '.join(inspect.signature(hook).parameters)})`\n\n"
        + ("The first result that is not `None` is used.\n\n" if is_first_result(hook) else "")
        + docstring_to_markdown(inspect.getdoc(hook) or "")
        for name, hook in vars(hookspecs).items()
        if hasattr(hook, f"{hookspecs.PROJECT_NAME}_spec")
    )


def is_first_result(hook: Callable[..., Any]) -> bool:
    """Returns whether only the first result of a hook is used."""
    return bool(getattr(hook, f"{hookspecs.PROJECT_NAME}_spec")["firstresult"])


def errors() -> str:
    """Returns a section for every public error."""
    found = [
        value
        for package in packages()
        for name in package.__all__
        if isinstance(value := getattr(package, name), type) and issubclass(value, GCError)
    ]
    return "\n\n".join(
        f"### `{each.__name__}`\n\n{docstring_to_markdown(inspect.getdoc(each) or '')}"
        for each in sorted(found, key=lambda each: (each is not GCError, each.__name__))
    )


def packages() -> list[ModuleType]:
    """Returns every package of this repository."""
    inits = sorted(ROOT.glob("packages/*/src/*/__init__.py"))
    return [importlib.import_module(init.parent.name) for init in inits]


def keys(model_name: str = "GCConfig") -> str:
    """Returns a table of the keys of a configuration."""
    return settings_table(getattr(jaato_gc, model_name))


def fields(class_name: str) -> str:
    """Returns a table of the fields and properties of a dataclass, with their descriptions."""
    cls = getattr(jaato_gc, class_name)
    described = Described(cls)
    described |= arguments_of(inspect.getdoc(cls) or "")
    types = annotations_of(cls)
    rows = [
        field_row(
            field.name,
            described[field.name],
            types[field.name],
            default_of(field, types[field.name]),
        )
        for field in dataclasses.fields(cls)
    ]
    for name, value in vars(cls).items():
        if isinstance(value, property) and value.fget:
            kind = value.fget.__annotations__["return"].__name__
            rows.append(field_row(name, inspect.getdoc(value) or "", kind))
    return table(("field", "meaning"), rows)


def values(enum_name: str) -> str:
    """Returns a table of the values of an enumeration."""
    enum: type[Enum] = getattr(jaato_gc, enum_name)
    described = attribute_docstrings(enum)
    rows = [(f"`{each.name}`", f"`{each.value}`", described[each.name]) for each in enum]
    return table(("name", "value", "meaning"), rows)


def strategies() -> str:
    """Returns a section for every installed strategy, with its options."""
    registry = PluginRegistry()
    distributions = {
        info.name: plugin.distribution
        for plugin in registry.plugins()
        for info in plugin.strategies
    }
    sections = []
    for name, info in registry.strategies().items():
        strategy = type(info.factory())
        section = [
            f"### `{name}`",
            f"`pip install {distributions[name]}`. {info.summary}",
            docstring_to_markdown(inspect.getdoc(strategy) or ""),
        ]
        if info.config_model:
            section.append(settings_table(info.config_model))
        sections.append("\n\n".join(section))
    return "\n\n".join(sections)


def invariants(subject: str) -> str:
    """Returns a table of the rules for a ``history`` or for a ``collection``."""
    rules: Sequence[Callable[..., Any]] = history_rules.HISTORY_INVARIANTS
    if subject == "collection":
        rules = (*outcome.OUTCOME_INVARIANTS, outcome.removal_list_is_true)
    described: dict[str, str] = {}
    for rule in rules:
        sentence = " ".join((inspect.getdoc(rule) or "").split())
        for name in re.findall(r'Violation\("(\w+)"', inspect.getsource(rule)):
            if name not in described or name == rule.__name__:
                described[name] = sentence
    return table(("invariant", "rule"), [(f"`{name}`", text) for name, text in described.items()])


SECTIONS: dict[str, Callable[..., str]] = {
    function.__name__: function
    for function in (errors, fields, hooks, invariants, keys, strategies, values)
}


# --- reading code ---


def settings_table(model: Any) -> str:
    """Returns a table of the fields of a pydantic model, with the docstrings below them."""
    described, types = attribute_docstrings(model), annotations_of(model)
    rows = []
    for name, field in model.model_fields.items():
        default = field.default_factory() if field.default_factory else field.default
        if name in ENVIRONMENT_VARIABLES and issubclass(model, GCConfig):
            described[name] += f" From the environment: `{ENVIRONMENT_VARIABLES[name]}`."
        rows.append(field_row(name, described[name], types[name], as_default(default)))
        if hasattr(default, "model_fields_set"):  # settings within settings
            inner, inner_types = attribute_docstrings(type(default)), annotations_of(type(default))
            rows += [
                field_row(f"{name}.{key}", inner[key], inner_types[key], as_default(value))
                for key, value in default
            ]
    return table(("key", "meaning"), rows)


def field_row(name: str, meaning: str, kind: str, default: str = "") -> tuple[str, str]:
    """Returns the row of a field: two columns, because more of them do not fit on a phone."""
    return f"`{name}`", f"{meaning}<br>`{kind}`" + (f", default: {default}" if default else "")


def default_of(field: Any, annotation: str) -> str:
    """Returns the default of a dataclass field, as a reader would write it."""
    if field.default_factory is not dataclasses.MISSING:
        return as_default(field.default_factory())
    if field.default is None and "None" not in annotation:
        return "derived"  # replaced when the object is created
    return "" if field.default is dataclasses.MISSING else as_default(field.default)


def as_default(value: Any) -> str:
    """Returns a default as a reader would write it."""
    if hasattr(value, "model_fields_set"):
        return "the keys below"
    if isinstance(value, Enum):
        return f"`{value.name}`"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list | tuple) and value:
        return " ".join(f"`{each}`" for each in value)
    return f"`{value!r}`"


class Described(dict[str, str]):
    """The descriptions of the members of a class. A missing description is an error."""

    def __init__(self, cls: type) -> None:
        super().__init__()
        self.owner = cls.__qualname__

    def __missing__(self, name: str) -> str:
        raise SystemExit(f"{self.owner}.{name} has no docstring: add one for the reference")


def attribute_docstrings(cls: type) -> Described:
    """Returns the docstrings below the attributes of a class and its bases, in one line each."""
    found = Described(cls)
    for each in class_bodies(cls):
        for statement, following in pairwise(each):
            name = assigned_name(statement)
            if (
                name
                and isinstance(following, ast.Expr)
                and isinstance(following.value, ast.Constant)
            ):
                found[name] = " ".join(str(following.value.value).split())
    return found


def annotations_of(cls: type) -> dict[str, str]:
    """Returns the annotations of a class and its bases, in the words of `IN_WORDS`."""
    names = re.compile(rf"\b(?:{'|'.join(IN_WORDS)})\b")
    return {
        name: names.sub(
            lambda match: IN_WORDS[match[0]],
            ast.unparse(_WithoutMetadata().visit(statement.annotation)).replace(" | ", " or "),
        )
        for body in class_bodies(cls)
        for statement in body
        if isinstance(statement, ast.AnnAssign) and (name := assigned_name(statement))
    }


class _WithoutMetadata(ast.NodeTransformer):
    """Replaces each ``Annotated[...]`` by the type in it."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        match node:
            case ast.Subscript(value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[inner, *_])):
                return inner
        return self.generic_visit(node)


def class_bodies(cls: type) -> Iterator[list[ast.stmt]]:
    """Yields the body of every base of a class in this project, and of the class itself."""
    for each in reversed(cls.__mro__):
        if each.__module__.partition(".")[0].startswith("jaato_gc"):
            [definition] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
            assert isinstance(definition, ast.ClassDef)
            yield definition.body


def assigned_name(statement: ast.stmt) -> str | None:
    """Returns the name that a statement assigns to, if it is exactly one."""
    match statement:
        case ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]):
            return name
    return None


def arguments_of(docstring: str) -> dict[str, str]:
    """Returns the description of each argument in a docstring."""
    _, _, rest = docstring.partition("Args:\n")
    section = re.match(r"(?:(?: .*)?\n?)*", rest)
    body = textwrap.dedent(section[0] if section else "")
    items = re.split(r"^(\w+): ", body, flags=re.MULTILINE)[1:]
    return {
        name: " ".join(text.split()) for name, text in zip(items[::2], items[1::2], strict=True)
    }


def docstring_to_markdown(docstring: str) -> str:
    """Returns the prose, arguments and examples of a docstring as Markdown."""
    prose, _, _ = docstring.partition("\nArgs:\n")
    prose, _, _ = prose.partition("\nExample::\n")
    parts = [prose.strip()]
    if arguments := arguments_of(docstring):
        parts.append("\n".join(f"- `{name}`: {text}" for name, text in arguments.items()))
    _, _, example = docstring.partition("\nExample::\n")
    if example:
        parts.append(f"```python no-run\n{textwrap.dedent(example).strip()}\n```")
    return "\n\n".join(parts)


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Returns a table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)

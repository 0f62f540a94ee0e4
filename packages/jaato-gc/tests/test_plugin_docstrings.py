"""Everything that an author of plugins uses has a description, which editors and docs show."""

import ast
import dataclasses
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, is_typeddict

import pytest

import jaato_gc
from jaato_gc import plugin

PACKAGE = Path(jaato_gc.__file__).parent

CLASSES = {
    name: value
    for module in (plugin, jaato_gc)
    for name in module.__all__
    if isinstance(value := getattr(module, name), type) and not is_typeddict(value)
}
FUNCTIONS = {
    name: value for name in plugin.__all__ if inspect.isfunction(value := getattr(plugin, name))
}


def own_classes(cls: type) -> list[type]:
    return [each for each in cls.__mro__ if each.__module__.startswith("jaato_gc")]


def attributes(cls: Any) -> Iterator[str]:
    """Yields the public attributes, fields, properties and methods of a class."""
    kinds = (property, cached_property, classmethod, staticmethod)
    if dataclasses.is_dataclass(cls):
        yield from (field.name for field in dataclasses.fields(cls))
    if issubclass(cls, Enum):
        yield from cls.__members__
    yield from getattr(cls, "_fields", ())
    yield from getattr(cls, "model_fields", ())
    for each in own_classes(cls):
        yield from vars(each).get("__annotations__", ())
        for name, value in vars(each).items():
            if inspect.isfunction(value) or isinstance(value, kinds):
                yield name


def documented_names(body: list[ast.stmt]) -> set[str]:
    """Returns the names that are assigned in a body and have a docstring below."""
    found: set[str] = set()
    for statement, following in pairwise(body):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str())),
            ):
                found.add(name)
    return found


def described(cls: type) -> set[str]:
    """Returns the attributes with a docstring, or with a line in the docstring of the class."""
    found: set[str] = set()
    for each in own_classes(cls):
        found |= set(re.findall(r"^ +\*{0,2}(\w+): \S", each.__doc__ or "", re.MULTILINE))
        [definition] = ast.parse(textwrap.dedent(inspect.getsource(each))).body
        assert isinstance(definition, ast.ClassDef)
        found |= documented_names(definition.body)
        for name, value in vars(each).items():
            if not isinstance(value, str | int | float | tuple) and getattr(value, "__doc__", None):
                found.add(name)
    return found


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_attribute_of_a_public_class_is_described(name: str) -> None:
    cls = CLASSES[name]
    public = {each for each in attributes(cls) if not each.startswith("_")} - {"model_config"}

    assert inspect.getdoc(cls)
    assert sorted(public - described(cls)) == []


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_every_function_for_authors_is_described(name: str) -> None:
    assert FUNCTIONS[name].__doc__


def documented_constants() -> set[str]:
    return {
        name
        for path in PACKAGE.rglob("*.py")
        for name in documented_names(ast.parse(path.read_text(encoding="utf-8")).body)
    }


def test_every_constant_for_authors_is_described() -> None:
    constants = set(plugin.__all__) - CLASSES.keys() - FUNCTIONS.keys()
    typed_dicts = {name for name in constants if is_typeddict(getattr(plugin, name))}

    assert constants - typed_dicts - documented_constants() == set()

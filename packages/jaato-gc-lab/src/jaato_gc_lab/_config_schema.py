"""The JSON schema of ``gc.json``, for editors and for tools that write one.

It comes from the models that read the file: `GCProfileConfig` and the options of each installed
strategy. Keys depend on the strategy, so every strategy has a definition of its own.
"""

import ast
import inspect
import textwrap
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from jaato_gc import GCConfig, GCProfileConfig, PluginRegistry
from jaato_gc.plugin import MEDIA_KEYS, StrategyInfo

DIALECT = "https://json-schema.org/draft/2020-12/schema"
DEFAULT = str(GCProfileConfig.model_fields["type"].default)

Schema = dict[str, Any]


def config_schema(registry: PluginRegistry | None = None) -> Schema:
    """Returns the JSON schema of ``gc.json`` in both of its shapes.

    Args:
        registry: Registry of strategies; by default all installed ones.
    """
    infos = list((registry or PluginRegistry()).strategies().values())
    models: set[type[BaseModel]] = {GCConfig, GCProfileConfig}
    models |= {info.config_model for info in infos if info.config_model}
    references, generated = models_json_schema(
        [(model, "validation") for model in sorted(models, key=lambda each: each.__qualname__)],
        schema_generator=_SchemaOfFiles,
    )
    definitions = generated["$defs"]
    properties: dict[type[BaseModel], Schema] = {}
    for model in models:
        name = references[model, "validation"]["$ref"].removeprefix("#/$defs/")
        properties[model] = definitions.pop(name).get("properties", {})
        for key, text in _descriptions(model):
            if key in properties[model]:
                properties[model][key]["description"] = text
    for info in infos:
        definitions |= _definitions_of(info, properties)
    names = [spelling for info in infos for spelling in _spellings(info)]
    return {
        "$schema": DIALECT,
        "title": "Configuration of jaato-gc (gc.json)",
        "type": "object",
        "properties": {"type": {"enum": names}, "plugin": {"enum": names}},
        "allOf": [{"if": _names(info), "then": {"$ref": f"#/$defs/{info.name}"}} for info in infos],
        "$defs": definitions,
    }


def _definitions_of(
    info: StrategyInfo, properties: dict[type[BaseModel], Schema]
) -> dict[str, Schema]:
    """Returns the definitions of a document, its settings and its options, for one strategy."""
    in_files = properties[GCProfileConfig].copy()
    own = properties[info.config_model].copy() if info.config_model else {}
    options = {**properties[GCConfig], **own}
    del in_files["type"], options["plugin_config"]
    settings = {
        **{key: {"deprecated": True, "description": "Has no effect."} for key in MEDIA_KEYS},
        **in_files,
        **own,
        "notify_on_gc": in_files["notify_on_gc"],  # with the default of files
        "plugin_config": {"$ref": f"#/$defs/{info.name}.options"},
    }
    spelling = {"enum": _spellings(info), "description": info.summary}
    document = {
        "$schema": {"type": "string"},
        "type": spelling,
        "plugin": spelling,
        "config": {"$ref": f"#/$defs/{info.name}.settings"},
        **settings,
    }
    parts = {"": document, ".settings": settings, ".options": options}
    # Without a model, a strategy may have any option.
    rest = info.config_model is None
    return {
        f"{info.name}{part}": {"type": "object", "properties": keys, "additionalProperties": rest}
        for part, keys in parts.items()
    }


def _names(info: StrategyInfo) -> Schema:
    """Returns the schema of documents that name a strategy, or get it by default."""
    spelled = {"enum": _spellings(info)}
    ways: list[Schema] = [
        {"properties": {key: spelled}, "required": [key]} for key in ("type", "plugin")
    ]
    if DEFAULT in spelled["enum"]:
        named = [{"required": [key]} for key in ("type", "plugin")]
        ways.append({"not": {"anyOf": named}})
    return {"anyOf": ways}


def _spellings(info: StrategyInfo) -> list[str]:
    return sorted({info.name.removeprefix("gc_"), info.name})


def _descriptions(model: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """Yields the fields of a model that have a docstring, and that docstring."""
    for cls in reversed(model.__mro__):
        if not issubclass(cls, BaseModel) or cls is BaseModel:
            continue
        try:
            tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
        except (OSError, TypeError, SyntaxError):  # made at runtime, or without its source
            continue
        [definition] = tree.body
        assert isinstance(definition, ast.ClassDef)
        for field, text in zip(definition.body, definition.body[1:], strict=False):
            match field, text:
                case (
                    ast.AnnAssign(target=ast.Name(id=name)),
                    ast.Expr(value=ast.Constant(value=str(docstring))),
                ):
                    yield name, " ".join(docstring.split())


class _SchemaOfFiles(GenerateJsonSchema):
    """Describes values as a JSON file has them."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    def callable_schema(self, schema: Any) -> Schema:  # noqa: ARG002
        """A file names a function, such as a registered summarizer."""
        return {"type": "string"}

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> Schema:  # noqa: ARG002
        """An option of a type that JSON schema doesn't know is not described."""
        return {}

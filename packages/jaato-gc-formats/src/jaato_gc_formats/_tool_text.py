"""Renders tool schemas the way models see them."""

import json
from typing import Any

from jaato_gc.plugin import as_text

NAMES = {"integer": "number"}


def as_typescript(schema: Any) -> str:
    """Renders a function schema as a commented TypeScript type, as OpenAI's models see it.

    OpenAI published this format ("Harmony") with its open models.
    """
    if not isinstance(schema, dict):
        return as_text(schema)
    function = schema.get("function", schema)
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        return as_text(schema)  # a built-in tool of the provider
    parameters = function.get("parameters")
    try:
        arguments = _type(parameters)
    except RecursionError:
        return as_text(schema)
    comment = _comment(parameters)
    given = f"_: {comment}{arguments}" if comment or arguments.startswith("{") else ""
    return f"{_comment(function)}type {function['name']} = ({given}) => any;\n\n"


def _type(schema: Any) -> str:
    if not isinstance(schema, dict):
        return "any"
    if isinstance(schema.get("enum"), list):
        return " | ".join(json.dumps(value, default=str) for value in schema["enum"])
    for name in ("anyOf", "oneOf", "allOf"):
        if isinstance(schema.get(name), list):
            return " | ".join(map(_type, schema[name]))
    if isinstance(schema.get("properties"), dict) and schema["properties"]:
        return f"{{\n{_fields(schema)}}}"
    kind = schema.get("type")
    if kind == "array":
        return f"{_type(schema.get('items'))}[]"
    kinds = kind if isinstance(kind, list) else [kind or "any"]
    return " | ".join(NAMES.get(str(each), str(each)) for each in kinds)


def _fields(schema: dict[str, Any]) -> str:
    required = schema.get("required") or ()
    lines = [
        f"{_comment(field)}{name}{'' if name in required else '?'}: {_type(field)},\n"
        for name, field in schema["properties"].items()
    ]
    return "".join(lines)


def _comment(fields: Any) -> str:
    said = fields.get("description") if isinstance(fields, dict) else None
    return "".join(f"// {line}\n" for line in said.splitlines()) if isinstance(said, str) else ""

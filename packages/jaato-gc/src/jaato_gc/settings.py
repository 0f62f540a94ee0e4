"""What a user configures: validated once, with errors that say what is wrong and what to do."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic_core import ErrorDetails

from jaato_gc.errors import GCConfigError

ModelT = TypeVar("ModelT", bound=BaseModel)


class Settings(BaseModel):
    """Base class of everything that a user configures: strict, immutable, one clear error."""

    # Built on first use: a program may import this and never configure anything.
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, defer_build=True)

    if not TYPE_CHECKING:  # for a type checker, the fields are the arguments

        def __init__(self, **values: Any) -> None:
            with _explained(type(self)):
                super().__init__(**values)

        # For pydantic this is its own constructor: settings within settings are validated directly,
        # so that an error has the whole path of a key, and JSON is read as JSON.
        __init__.__pydantic_base_init__ = True

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """Returns settings from a dict.

        Raises:
            GCConfigError: A key is unknown, or a value is invalid.
        """
        with _explained(cls):
            return super().model_validate(obj, **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """Returns settings from JSON: a list can be a tuple or a set, a text an enum or a path.

        Raises:
            GCConfigError: A key is unknown, or a value is invalid.
        """
        with _explained(cls):
            return super().model_validate_json(json_data, **options)


@contextmanager
def _explained(model: type[BaseModel], where: str = "") -> Iterator[None]:
    try:
        yield
    except ValidationError as error:
        raise GCConfigError(f"{where}{explain(error, model)}") from None


def read_settings(
    model: type[ModelT], values: Mapping[str, Any], where: str = "", *, from_json: bool = False
) -> ModelT:
    """Returns values in a model.

    Args:
        model: The model.
        values: The values of its fields.
        where: The beginning of the error, unless the model explains its errors itself.
        from_json: They are from a JSON document.

    Raises:
        GCConfigError: A key is unknown, or a value is invalid.
    """
    with _explained(model, where):
        return model.model_validate_json(json.dumps(values)) if from_json else model(**values)


def options_from_json(
    name: str, options: Mapping[str, Any], model: type[BaseModel]
) -> dict[str, Any]:
    """Returns options from a JSON document, with values of the types that the model has.

    JSON has no tuples, sets, enums, paths and durations: these are lists and texts there. From here
    on, options are the same as from code. A function is not from the document and stays.

    Raises:
        GCConfigError: A value is invalid.
    """
    own = {
        key: value
        for key, value in options.items()
        if key in model.model_fields and not callable(value)
    }
    settings = read_settings(model, own, f"{name}: ", from_json=True)
    return {**options, **{key: getattr(settings, key) for key in own}}


def explain(error: ValidationError, model: type[BaseModel] | None = None) -> str:
    """Returns one line with everything that is wrong with the data for a model."""
    fields = model.model_fields if model else {}
    problems = []
    for item in error.errors():
        key = ".".join(str(step) for step in item["loc"])
        if item["type"] == "json_invalid":  # it was valid when it was read: pydantic has limits
            problems.append(item["ctx"]["error"].partition(" at line ")[0])
        elif item["type"] == "extra_forbidden":
            *outer, last = map(str, item["loc"])
            problems.append(unknown_key(last, _keys_at(outer, model), outer))
        else:
            field = fields.get(key)
            is_null = item["input"] is None and field is not None and not field.is_required()
            hint = "; leave the key out to use its default" if is_null else ""
            problems.append(f"{key}={item['input']!r:.80}: {message_of(item)}{hint}")
    return "; ".join(problems)


def message_of(problem: ErrorDetails) -> str:
    """Returns what is wrong with one value."""
    return problem["msg"][0].lower() + problem["msg"][1:]


def _keys_at(path: Sequence[str], model: type[BaseModel] | None) -> list[str]:
    """Returns the valid keys at a path from the outermost model."""
    models = [model] if model else []
    for step in path:
        fields = [found.model_fields[step] for found in models if step in found.model_fields]
        inner = [found for field in fields for found in _models_in(field.annotation)]
        models = inner or models  # or it is an index, a key of a dict, or a member of a union
    return [name for found in models for name in found.model_fields]


def _models_in(annotation: object) -> list[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for argument in get_args(annotation) for found in _models_in(argument)]


def unknown_key(key: str, known_keys: Iterable[str], path: Sequence[str] = ()) -> str:
    """Returns the message for an unknown key, with the closest valid one.

    Args:
        key: The key.
        known_keys: The valid ones.
        path: Where they are, if they are within an option.
    """
    known = sorted(known_keys)
    near = closest(key, known)
    shown = [".".join([*path, name]) for name in (known if near is None else [near])]
    hint = f"did you mean {shown[0]!r}?" if near else f"valid keys are {', '.join(shown)}"
    return f"unknown key {'.'.join([*path, key])!r}: {hint}"


def closest(word: str, known: Sequence[str]) -> str | None:
    """Returns the known word that is most like a misspelled one, if there is any."""
    import difflib  # here, because only mistakes need it

    return next(iter(difflib.get_close_matches(word, known, n=1)), None)

"""The rules by which Google's Gemini API refuses requests.

Sources: the API reference of ``models.generateContent``, the page on thought signatures of the same
documentation, and errors of the live API quoted in public issue threads. Each rule names its
sources. A part with an empty text is accepted, as recorded requests show.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from jaato_gc_formats._refusals import INVALID_TYPE, Refusal, invalid_type
from jaato_gc_formats._wire import Fields, plain

SNAKE_CASE = {
    "functionCall": "function_call",
    "functionResponse": "function_response",
    "inlineData": "inline_data",
    "fileData": "file_data",
    "mimeType": "mime_type",
    "fileUri": "file_uri",
    "thoughtSignature": "thought_signature",
}
"""Names of fields in snake_case, as the Python SDK writes them. The API accepts both spellings."""
METADATA_FIELDS = {
    "thought", "videoMetadata", "video_metadata", "partMetadata", "part_metadata",
    "mediaResolution", "media_resolution",
}  # fmt: skip
"""Fields that describe a part and are not its content."""
ROLES = ("user", "model", "function", "tool")
FOREIGN_FIELDS = ("content", "type", "tool_calls", "tool_call_id")
"""Fields of messages that only other APIs have."""
SIGNED_MODELS = re.compile(r"gemini-(?:[3-9]|\d{2,})(?!.*image)")


class Content(NamedTuple):
    """A content with its position in the request."""

    position: int
    role: str
    parts: list[Fields]

    @property
    def where(self) -> str:
        return f"contents[{self.position}]"

    @property
    def calls(self) -> list[Fields]:
        return [part for part in self.parts if spelling(part, "functionCall")]

    @property
    def responses(self) -> list[Fields]:
        return [part for part in self.parts if spelling(part, "functionResponse")]


def refusals(request: Fields) -> Iterator[Refusal]:
    """Yields the rules that a request breaks."""
    given = request.get("contents")
    if not given:
        said = "* GenerateContentRequest.contents: contents is not specified"
        yield Refusal("no_contents", "contents", said)
        return
    if isinstance(given, str):
        return
    wrong = list(_shape_refusals(given))
    yield from wrong
    if any(refusal.rule == INVALID_TYPE for refusal in wrong):
        return
    contents = _contents(given)
    yield from _content_refusals(contents)
    yield from _calls_are_answered(contents)
    yield from _calls_follow_users(contents)
    yield from _responses_follow_calls(contents)
    yield from _calls_are_signed(request, contents)


def item_refusals(given: Sequence[Any]) -> Iterator[Refusal]:
    """Yields the rules that contents break by themselves."""
    wrong = list(_shape_refusals(given))
    yield from wrong
    if all(refusal.rule != INVALID_TYPE for refusal in wrong):
        yield from _content_refusals(_contents(given))


def _shape_refusals(given: Sequence[Any]) -> Iterator[Refusal]:
    for position, content in enumerate(given):
        yield from _types_are_right(f"contents[{position}]", content)


def _content_refusals(contents: list[Content]) -> Iterator[Refusal]:
    yield from _roles_are_known(contents)
    yield from _parts_have_content(contents)
    yield from _roles_fit_parts(contents)
    yield from _functions_have_names(contents)


def _contents(given: Sequence[Any]) -> list[Content]:
    return [
        Content(position, content.get("role") or "user", content_parts(content))
        for position, content in enumerate(given)
    ]


def spelling(fields: Fields, name: str) -> str | None:
    """Returns the spelling of a field that has a value; ``None`` if it has none.

    Args:
        fields: The fields.
        name: The name of the field in camelCase.
    """
    for spelled in (name, SNAKE_CASE[name]):
        if fields.get(spelled) is not None:
            return spelled
    return None


def content_parts(content: Fields) -> list[Any]:
    """Returns the parts of a content, without fields that are ``None``."""
    given = content.get("parts") or ()
    # The API takes an object in place of a list with it.
    parts = [plain(part) for part in ([given] if isinstance(given, dict) else given)]
    return [
        {name: value for name, value in part.items() if value is not None}
        if isinstance(part, dict)
        else part
        for part in parts
    ]


def _types_are_right(where: str, content: Any) -> Iterator[Refusal]:
    """A content and its parts are objects with fields of this API.

    Only fields of other APIs are refused: Google adds fields.

    Source: the messages are those of Google's parsers.
    """
    if not isinstance(content, dict):
        yield invalid_type(where)
        return
    if not isinstance(content.get("role"), str | None):
        yield invalid_type(f"{where}.role")
    if not isinstance(content.get("parts"), list | tuple | dict | None):
        yield invalid_type(f"{where}.parts")
        return
    yield from _unknown_names(where, content, FOREIGN_FIELDS)
    for index, part in enumerate(content_parts(content)):
        place = f"{where}.parts[{index}]"
        if not isinstance(part, dict):
            yield invalid_type(place)
            continue
        yield from _unknown_names(place, part, ("type",))
        if not isinstance(part.get("text"), str | None):
            yield invalid_type(f"{place}.text")
        for name, given in (("functionCall", "args"), ("functionResponse", "response")):
            spelled = spelling(part, name)
            if not spelled:
                continue
            function = plain(part[spelled])
            if not isinstance(function, dict):
                yield invalid_type(f"{place}.{spelled}")
            elif not isinstance(plain(function.get(given)), dict | None):
                yield invalid_type(f"{place}.{spelled}.{given}")


def _unknown_names(where: str, fields: Fields, names: Iterable[str]) -> Iterator[Refusal]:
    for name in names:
        if name in fields:
            said = (
                f"Invalid JSON payload received. Unknown name \"{name}\" at '{where}': Cannot find "
            )
            yield Refusal("unknown_field", f"{where}.{name}", f"{said}field.")


def _roles_are_known(contents: list[Content]) -> Iterator[Refusal]:
    """The role is user or model; function and tool are accepted for responses.

    Source: https://github.com/songquanpeng/one-api/issues/1385.
    """
    for content in contents:
        if content.role not in ROLES:
            said = "Please use a valid role: user, model."
            yield Refusal("unknown_role", f"{content.where}.role", said)


def _functions_have_names(contents: list[Content]) -> Iterator[Refusal]:
    """Function calls and function responses have a name.

    Source: https://github.com/langflow-ai/langflow/issues/9437.
    """
    for content in contents:
        for index, part in enumerate(content.parts):
            for name in ("functionCall", "functionResponse"):
                spelled = spelling(part, name)
                if spelled and not plain(part[spelled]).get("name"):
                    where = f"{content.where}.parts[{index}].{SNAKE_CASE[name]}.name"
                    said = f"* GenerateContentRequest.{where}: Name cannot be empty."
                    yield Refusal("missing_name", where, said)


def _parts_have_content(contents: list[Content]) -> Iterator[Refusal]:
    """Each content has parts, and each part has content.

    Sources: https://github.com/vercel/ai/issues/3775 (no parts),
    https://github.com/router-for-me/CLIProxyAPI/issues/1293 (a part without content).
    """
    for content in contents:
        if not content.parts:
            where = f"{content.where}.parts"
            said = f"* GenerateContentRequest.{where}: contents.parts must not be empty."
            yield Refusal("empty_parts", where, said)
        for index, part in enumerate(content.parts):
            if set(part) <= METADATA_FIELDS:
                where = f"{content.where}.parts[{index}]"
                yield Refusal(
                    "empty_part",
                    where,
                    f"* GenerateContentRequest.{where}.data: required oneof field 'data' must have "
                    "one initialized field",
                )


def _roles_fit_parts(contents: list[Content]) -> Iterator[Refusal]:
    """Function calls have the role model, and function responses the role user.

    Source: exploratory notes on the live API, in HiddenDeveloper/symagenic.com.
    """
    for content in contents:
        wrong = "functionResponse" if content.role == "model" else "functionCall"
        if content.responses if content.role == "model" else content.calls:
            yield Refusal(
                "wrong_role",
                content.where,
                f"Content with role '{content.role}' can't contain '{wrong}' part",
            )


def _calls_are_answered(contents: list[Content]) -> Iterator[Refusal]:
    """The content after a turn of calls has as many responses as there are calls.

    Source: https://github.com/google-gemini/gemini-cli/issues/5443.
    """
    for content, following in zip(contents, [*contents[1:], None], strict=True):
        responses = following.responses if following else []
        if content.role == "model" and content.calls and len(responses) != len(content.calls):
            yield Refusal(
                "unanswered_calls" if len(responses) < len(content.calls) else "extra_responses",
                content.where,
                "Please ensure that the number of function response parts is equal to the number "
                "of function call parts of the function call turn.",
            )


def _calls_follow_users(contents: list[Content]) -> Iterator[Refusal]:
    """A turn of calls follows a user turn or a turn of responses.

    Source: https://github.com/google-gemini/gemini-cli/issues/11814.
    """
    for before, content in zip([None, *contents], contents, strict=False):
        if content.role != "model" or not content.calls:
            continue
        if before is None or before.role == "model":
            yield Refusal(
                "misplaced_calls",
                content.where,
                "Please ensure that function call turn comes immediately after a user turn or "
                "after a function response turn.",
            )


def _responses_follow_calls(contents: list[Content]) -> Iterator[Refusal]:
    """Responses follow a turn of calls.

    Source: https://github.com/langchain-ai/langchain/issues/27799.
    """
    for before, content in zip([None, *contents], contents, strict=False):
        if content.role == "model" or not content.responses:
            continue
        if before is None or not before.calls:
            yield Refusal(
                "orphaned_response",
                content.where,
                "Please ensure that function response turn comes immediately after a function "
                "call turn.",
            )


def _calls_are_signed(request: Fields, contents: list[Content]) -> Iterator[Refusal]:
    """Since Gemini 3, the first call of each step in the current turn has a thought signature.

    Image models do not enforce it. Checked only if the request names its model.

    Sources: https://ai.google.dev/gemini-api/docs/thought-signatures,
    https://github.com/nanbingxyz/5ire/issues/405.
    """
    if not SIGNED_MODELS.search(str(request.get("model") or "")):
        return
    prompts = [
        content.position
        for content in contents
        if content.role != "model" and len(content.responses) < len(content.parts)
    ]
    for content in contents[prompts[-1] if prompts else 0 :]:
        if content.role != "model" or not content.calls:
            continue
        first = content.calls[0]
        if not spelling(first, "thoughtSignature"):
            call = plain(first[spelling(first, "functionCall") or ""])
            yield Refusal(
                "unsigned_call",
                content.where,
                "Function call is missing a thought_signature in functionCall parts. This is "
                "required for tools to work correctly, and missing thought_signature may lead to "
                "degraded model performance. Additional data, function call "
                f"`default_api:{call.get('name')}` , position {content.position + 1}.",
            )

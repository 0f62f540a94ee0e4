"""Google's generateContent API. Sources: the API reference, and the pages on function calling."""

from collections.abc import Iterator

from loopback_rules import RefusedError, check_gemini

from strict_provider.provider import Fields, StrictProvider

FIELDS = {
    "text", "functionCall", "functionResponse", "inlineData", "fileData", "executableCode",
    "codeExecutionResult",
}  # fmt: skip


class StrictGemini(StrictProvider):
    """Refuses unsigned calls of the newest turn, and calls without as many responses."""

    items_key = "contents"

    def faults(self, request: Fields) -> Iterator[str]:
        for at, content in enumerate(request["contents"]):
            if content.get("role", "user") not in ("user", "model"):
                yield f"contents[{at}]: unknown role {content['role']}"
            for part in content["parts"]:
                if len(FIELDS & part.keys()) != 1:
                    yield f"contents[{at}]: a part with {sorted(part)}"
            yield from _names(at, content)
        try:
            check_gemini(request)
        except RefusedError as refused:
            yield refused.message


def _names(at: int, content: Fields) -> Iterator[str]:
    for part in content["parts"]:
        for kind in ("functionCall", "functionResponse"):
            if kind in part and not part[kind].get("name"):
                yield f"contents[{at}]: {kind} without a name"

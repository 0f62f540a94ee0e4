"""Messages that a collection writes itself: fenced, so that no content can pose as one."""

import re
from collections.abc import Iterable, Mapping

from jaato_gc._errors import GCConfigError
from jaato_gc._messages import Message, Role, SyntheticKind

NOTICE_ID = "gc_notice"
"""There is at most one notice in a history, always under this id."""

DEFAULT_NOTICE = "Earlier parts of this conversation were removed to free context space."
"""Says nothing that changes from one collection to the next, so that the prompt cache holds."""

NOTICE_FIELDS = ("turns_removed", "turns_kept", "tokens_freed", "plugin_name", "reason")
"""What a notification template may name in braces."""

_FIELD = re.compile(r"\{([A-Za-z_][^{}]*)\}")
_FENCE = re.compile(r"<(?=/?\s*context-)", re.IGNORECASE)


def fenced(kind: SyntheticKind, content: str) -> str:
    """Content between marks that it can't contain itself."""
    tag = f"context-{kind}"
    return f"<{tag}>\n{_FENCE.sub('&lt;', content)}\n</{tag}>"


def notice_message(text: str) -> Message:
    """The message that tells the model that something was removed."""
    return Message.from_text(
        Role.USER,
        fenced(SyntheticKind.NOTICE, text),
        message_id=NOTICE_ID,
        synthetic=SyntheticKind.NOTICE,
    )


def check_template(template: str, fields: Iterable[str] = NOTICE_FIELDS) -> str:
    """The template itself, if every field it names exists.

    Raises:
        GCConfigError: It names one that does not.
    """
    known = sorted(fields)
    for field in _FIELD.findall(template):
        if field not in known:
            raise GCConfigError(
                f"notification_template={template!r:.80}: unknown field {{{field}}}; "
                f"it may name {', '.join(f'{{{name}}}' for name in known)}"
            )
    return template


def fill_template(template: str, values: Mapping[str, object]) -> str:
    """Put values in place of the fields: plain substitution, no format specs, no attributes."""
    return _FIELD.sub(lambda match: str(values[match[1]]), template)

"""Validation of summaries: summarizers also return nothing, errors, refusals and echoes."""

import re
from typing import Any

from jaato_gc.errors import SummaryError
from jaato_gc.tokens import DEFAULT_COUNTER, TokenCounter, text_tokens

# Only the beginning of a text is checked: a summary may mention errors and apologies. The patterns
# are compiled on first use: most programs that import this never summarise.
_ERROR = r"""(?ix)\W*(?:
    traceback\ \(most\ recent\ call\ last\)
    | (?:(?:type|status|code)\W+)?error["']\s*[:,}]            # JSON
    | (?<=[<!])(?:html|doctype)\b
    | (?:\w+\.)*\w*(?:error|exception)\W*:
    | error\ code\b
    )"""
_SHORT_ERROR = r"""(?ix)\W*(?:
    (?:(?:an?|the|api|internal|http|server|fatal|unexpected|connection|network|unknown)\ )*error
        (?:\ (?:\d+|calling|generating|summari[sz]ing|occurred)\b|\W*(?:[:(.!]|$))
    | (?:https?\S*\ )?(?:status\ )?[45]\d\d\W+(?:bad|too\ many|internal\ server|service|gateway
        |server|client|unauthorized|forbidden|not\ found|payment|payload|request|overloaded)\b
    | (?:rate\ ?limit(?:ed)?|quota|context\ length)\W*(?:error|exceeded|reached|hit\b|$)
    | (?:too\ many\ requests|overloaded|no\ response)\b
    | (?:the\ )?(?:service|model|server)\ (?:is\ )?(?:currently\ )?(?:unavailable|overloaded)
    | (?:the\ )?(?:request|connection|call)\ (?:was\ )?(?:failed|timed\ out|aborted|refused|reset)\b
    | (?:failed|unable)\ to\ (?:generate|summari[sz]e|create|produce|connect|fetch|call)\b
    )"""
_LONGEST_SHORT_ERROR = 300
_REFUSAL = r"""(?ix)\W*(?:
    (?:i(?:['\u2019]?m|\ am)\ (?:very\ |so\ |really\ )?)?sorry\b,?\ (?:but|for|to|i|that\ i)\b
    | i(?:['\u2019]?m|\ am)\ (?:afraid|unable|not\ able|not\ allowed)\b
    | (?:i|my)\ apolog(?:i[sz]e|ies)\b
    | i\ (?:can['\u2019]?t|can\ ?not|won['\u2019]?t|will\ not|must\ decline)\b
    | i\ (?:don['\u2019]?t|do\ not)\ (?:see|have)\ (?:an?y?|the|enough|access)\b
    | as\ an\ ai\b(?:\ \w+){0,3},?\ i\b
    | unfortunately,?\ i\b
    | please\ provide\b
    | there(?:['\u2019]s|\ is)\ (?:no|nothing)\ (?:conversation|text|content|to\ summari[sz]e)\b
    )"""


class NotShorterError(SummaryError):
    """The summarizer returned a text that is not shorter than its input."""


def valid_summary(returned: Any, shown: str, counter: TokenCounter = DEFAULT_COUNTER) -> str:
    """Returns the summary that a summarizer returned for its input.

    Raises:
        SummaryError: It is empty, an error text, a refusal, not text, or not shorter.
    """
    if not isinstance(returned, str):
        raise SummaryError(f"the summarizer returned {type(returned).__name__}, not text")
    summary = returned.strip()
    if not summary:
        raise SummaryError("the summarizer returned nothing")
    if any("\ud800" <= character <= "\udfff" for character in summary):
        raise SummaryError("the summarizer returned text that is not valid Unicode")
    short = summary[: _LONGEST_SHORT_ERROR + 1]
    if re.match(_ERROR, summary) or (short == summary and re.match(_SHORT_ERROR, summary)):
        raise SummaryError(f"the summarizer returned an error text: {summary!r:.80}")
    if re.match(_REFUSAL, summary):
        raise SummaryError(f"the summarizer refused: {summary!r:.80}")
    if summary == shown.strip() or text_tokens(summary, counter) >= text_tokens(shown, counter):
        detail = "the summarizer returned a text that is not shorter than its input"
        raise NotShorterError(detail)
    return summary

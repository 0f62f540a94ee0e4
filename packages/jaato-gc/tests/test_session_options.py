"""The typed options of a session are the arguments of `GCSession`."""

import inspect
from typing import get_type_hints

import pytest

from jaato_gc import GCSession
from jaato_gc.plugin import GCSessionOptions


def test_the_options_are_the_keyword_arguments_of_a_session() -> None:
    types = get_type_hints(GCSession.__init__)
    keywords = [
        name
        for name, parameter in inspect.signature(GCSession).parameters.items()
        if parameter.kind is parameter.KEYWORD_ONLY
    ]

    assert get_type_hints(GCSessionOptions) == {name: types[name] for name in keywords}


def test_an_unknown_option_is_refused() -> None:
    """Type checkers find it too: an unused "type: ignore" is an error."""
    session = GCSession()

    with pytest.raises(TypeError, match="stahs"):
        session.child(stahs=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="stahs"):
        GCSession.restore(session.save(), stahs=None)  # type: ignore[call-arg]

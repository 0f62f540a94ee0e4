"""The window of a session without ``context_limit``."""

import json
from collections.abc import Iterator

import pytest

from jaato_gc import GCSession, PluginRegistry, SavedSessionError
from jaato_gc.plugin import hookimpl
from jaato_gc.session import window


class Acme:
    """A plugin that knows one model."""

    @hookimpl
    def jaato_gc_model_window(self, model: str) -> int | None:
        return 32_000 if model == "acme-1" else None


@pytest.fixture
def registry() -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(Acme(), "acme")
    return registry


@pytest.fixture(autouse=True)
def nothing_logged_yet() -> Iterator[None]:
    window._log_once.cache_clear()
    yield
    window._log_once.cache_clear()


def window_of(session: GCSession) -> int:
    return session.budget.context_limit


def test_a_session_has_the_window_of_its_model(
    registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    assert window_of(GCSession(model="acme-1", registry=registry)) == 32_000
    assert window_of(GCSession(model="acme-1", registry=registry, context_limit=None)) == 32_000
    assert caplog.text == ""


def test_a_window_that_is_given_is_used(
    registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    assert window_of(GCSession(model="acme-1", registry=registry, context_limit=9_000)) == 9_000
    assert window_of(GCSession(model="other", registry=registry, context_limit=9_000)) == 9_000
    assert caplog.text == ""


@pytest.mark.parametrize(
    ("model", "reason"),
    [("other", "no plugin knows the window of model 'other'"), (None, "no model was given")],
)
def test_an_unknown_window_is_assumed_and_logged_once(
    registry: PluginRegistry, caplog: pytest.LogCaptureFixture, model: str | None, reason: str
) -> None:
    for _ in range(3):
        assert window_of(GCSession(model=model, registry=registry)) == 128_000
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert record.getMessage().startswith(f"{reason}: a window of 128,000 tokens is assumed")
    assert "context_limit=" in record.getMessage()


def test_a_restored_session_has_the_saved_window_and_nothing_is_assumed(
    registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    saved = GCSession(registry=registry, context_limit=9_000).save()

    assert window_of(GCSession.restore(saved, registry=registry)) == 9_000
    assert window_of(GCSession.restore(saved, registry=registry, context_limit=None)) == 9_000
    assert window_of(GCSession.restore(saved, registry=registry, context_limit=7_000)) == 7_000
    assert caplog.text == ""


@pytest.mark.parametrize("saved_window", [0, -1])
def test_a_saved_window_that_is_not_positive_is_refused(
    registry: PluginRegistry, saved_window: int
) -> None:
    document = json.loads(GCSession(registry=registry, context_limit=9_000).save())
    document["budget"]["context_limit"] = saved_window

    with pytest.raises(SavedSessionError, match="context_limit"):
        GCSession.restore(json.dumps(document), registry=registry)


def test_a_child_inherits_the_window_unless_it_asks_for_that_of_its_model(
    registry: PluginRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    parent = GCSession(registry=registry, context_limit=9_000)

    assert window_of(parent.child()) == 9_000
    assert window_of(parent.child(model="acme-1", context_limit=None)) == 32_000
    assert caplog.text == ""

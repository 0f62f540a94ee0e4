"""The summarizer of a session: which strategies it serves, and where it can come from."""

import importlib
import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from jaato_gc import (
    GCConfig,
    GCConfigError,
    GCPlugin,
    GCSession,
    PluginRegistry,
    SavedSessionError,
    SyntheticKind,
    load_gc_from_file,
    load_gc_from_profile,
    load_gc_inline,
)
from jaato_gc.plugin import (
    Collection,
    GCStrategy,
    StrategyInfo,
    StrategySettings,
    SummarizerInfo,
    SummarySettings,
    TurnSummarizer,
    hookimpl,
)
from jaato_gc_testing import COUNTER, assert_in_step, speak


class DigestSettings(SummarySettings):
    """Options of a strategy that is not ours."""

    depth: int = 1


class Digest(GCStrategy[DigestSettings]):
    """Summarizes if it can, and does nothing otherwise."""

    name = "gc_digest"
    settings_model = DigestSettings

    def select(self, collection: Collection) -> None:
        if self.settings.can_summarize:
            summarizer = TurnSummarizer(collection, self.settings)
            summarizer.summarize_oldest(collection.turns, "summarized")


class Demanding(Digest):
    """Can't work without a summarizer."""

    name = "gc_demanding"
    needs_summarizer = True


class LooseSettings(StrategySettings):
    summarizer: str = ""
    summary_tokens: int = 0


class Loose(GCStrategy[LooseSettings]):
    """Has an option of the same name with another meaning."""

    name = "gc_loose"
    settings_model = LooseSettings

    def select(self, collection: Collection) -> None:
        raise NotImplementedError


class Strategies:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [
            StrategyInfo(Digest.name, Digest, config_model=DigestSettings),
            StrategyInfo(
                Demanding.name, Demanding, config_model=DigestSettings, needs_summarizer=True
            ),
            StrategyInfo(Loose.name, Loose),
        ]


def first(_text: str) -> str:
    return "The first one wrote this."


def second(_text: str) -> str:
    return "The second one wrote this."


NOT_CALLABLE = "a text"


@pytest.fixture(autouse=True)
def functions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module that files can name functions of."""
    module = ModuleType("team_summaries")
    module.__dict__.update(first=first, NOT_CALLABLE=NOT_CALLABLE, tools=ModuleType("tools"))
    module.tools.second = second
    monkeypatch.setitem(sys.modules, "team_summaries", module)


@pytest.fixture
def registry() -> PluginRegistry:
    made = PluginRegistry(load_installed=False)
    made.register(Strategies(), "strategies")
    return made


@pytest.fixture
def create(registry: PluginRegistry) -> Callable[..., GCSession]:
    def session(**options: Any) -> GCSession:
        return GCSession(counter=COUNTER, registry=registry, context_limit=2_000, **options)

    return session


def digest(**options: Any) -> Digest:
    strategy = Digest()
    strategy.initialize({"summary_tokens": 30, **options})
    return strategy


def summary_of(session: GCSession) -> str:
    """Fills a session, collects, and returns the text of the summary."""
    speak(session, *range(10))
    session.manual_gc(target_percent=30.0)
    assert_in_step(session)
    texts = [each.text for each in session.history if each.synthetic is SyntheticKind.SUMMARY]
    return "".join(texts)


Create = Callable[..., GCSession]

# --- in code ---


def test_the_summarizer_of_a_session_serves_any_strategy_that_summarizes(create: Create) -> None:
    session = create(summarizer=first)
    session.set_gc_plugin(digest())

    assert "The first one" in summary_of(session)


def test_a_summarizer_that_is_given_to_the_strategy_prevails(create: Create) -> None:
    session = create(summarizer=first)
    session.set_gc_plugin(digest(summarizer=second))

    assert "The second one" in summary_of(session)


def test_a_summarizer_in_the_configuration_of_a_strategy_prevails_too(create: Create) -> None:
    session = create(summarizer=first)
    session.set_gc_plugin(digest(), GCConfig(plugin_config={"summarizer": second}))

    assert "The second one" in summary_of(session)


def test_a_strategy_that_extracts_does_not_use_the_summarizer_of_the_session(
    create: Create,
) -> None:
    session = create(summarizer=lambda _text: pytest.fail("not asked for"))
    session.set_gc_plugin(digest(extractive=True))

    assert "- asked: " in summary_of(session)


def test_a_strategy_that_moves_to_another_session_uses_the_summarizer_of_that_one(
    create: Create,
) -> None:
    strategy = digest()
    create(summarizer=first).set_gc_plugin(strategy)
    session = create(summarizer=second)
    session.set_gc_plugin(strategy)
    assert "The second one" in summary_of(session)

    session = create()
    session.set_gc_plugin(strategy)
    assert summary_of(session) == ""


def test_the_options_of_a_strategy_do_not_show_the_summarizer_of_the_session(
    create: Create,
) -> None:
    strategy = digest(depth=3)
    create(summarizer=first).set_gc_plugin(strategy)

    assert strategy.options == {"summary_tokens": 30, "depth": 3}


@pytest.mark.parametrize("wrong", ["team_summaries:first", 5, [first]])
def test_a_summarizer_that_can_not_be_called_is_refused(create: Create, wrong: Any) -> None:
    with pytest.raises(GCConfigError, match=r"^summarizer=.*: expected a function"):
        create(summarizer=wrong)


def test_a_summarizer_and_extracting_contradict_each_other() -> None:
    with pytest.raises(GCConfigError, match="summarizer and extractive=True: keep one"):
        digest(summarizer=first, extractive=True)


# --- a strategy that needs one ---


def test_a_strategy_that_needs_a_summarizer_is_refused_without_one(create: Create) -> None:
    session = create()
    session.set_gc_plugin(digest())
    before = session.strategy
    with pytest.raises(GCConfigError) as caught:
        session.set_gc_plugin(Demanding())

    assert session.strategy is before
    message = str(caught.value)
    assert message.startswith("gc_demanding needs a summarizer: ")
    assert "GCSession(summarizer=…)" in message
    assert "'summarizer'" in message
    assert "extractive=True" in message


@pytest.mark.parametrize("options", [{"summarizer": first}, {"extractive": True}])
def test_a_strategy_that_needs_a_summarizer_is_accepted_with_an_option(
    create: Create, options: dict[str, Any]
) -> None:
    session = create()
    session.set_gc_plugin(Demanding(), GCConfig(plugin_config=options))

    assert isinstance(session.strategy, Demanding)


# --- children ---


@pytest.mark.parametrize(
    ("options", "expected"),
    [({}, "The first one"), ({"summarizer": second}, "The second one"), ({"summarizer": None}, "")],
)
def test_a_child_inherits_the_summarizer_unless_it_has_its_own(
    create: Create, options: dict[str, Any], expected: str
) -> None:
    profile = {"gc": {"type": "digest", "summary_tokens": 30}}
    child = create(summarizer=first).child(profile, **options)

    assert summary_of(child).count(expected or "nothing") == bool(expected)


# --- files ---


@pytest.fixture(params=["file", "nested file", "profile", "inline"])
def load(
    request: pytest.FixtureRequest, tmp_path: Path, registry: PluginRegistry
) -> Callable[..., GCPlugin]:
    """Loads a strategy from the settings of each kind of file."""

    def loaded(*, allow_code: bool = True, summarizers: Any = None, **settings: Any) -> GCPlugin:
        settings = {"type": "digest", "summary_tokens": 30, **settings}
        how: Any = {"allow_code": allow_code, "summarizers": summarizers, "registry": registry}
        path = tmp_path / "gc.json"
        found: tuple[GCPlugin, GCConfig] | None
        if request.param == "inline":
            found = load_gc_inline({"gc": settings}, **how)
        elif request.param == "profile":
            path.write_text(json.dumps({"name": "gc", "gc": settings}))
            found = load_gc_from_profile("gc", tmp_path, **how)
        else:
            if request.param == "nested file":
                settings = {"plugin": settings.pop("type"), "config": settings}
            path.write_text(json.dumps(settings))
            found = load_gc_from_file(path, **how)
        assert found
        return found[0]

    return loaded


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("team_summaries:first", "The first one"),
        ("team_summaries:tools.second", "The second one"),
    ],
)
def test_a_file_names_a_summarizer_by_its_module(
    load: Callable[..., GCPlugin], create: Create, name: str, expected: str
) -> None:
    session = create(summarizer=lambda _text: pytest.fail("the strategy has its own"))
    session.set_gc_plugin(load(summarizer=name))

    assert expected in summary_of(session)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("team_summary:first", "there is no module 'team_summary'"),
        ("team_summaries.more:first", "there is no module 'team_summaries.more'"),
        ("team_summaries:third", "module 'team_summaries' has no 'third'"),
        ("team_summaries:tools.third", "module 'team_summaries' has no 'tools.third'"),
        ("team_summaries:NOT_CALLABLE", "expected a function, found a str"),
        ("first", "no plugin registered it and the host did not give it: summarizers are none"),
        ("team_summaries:", "expected 'module:function'"),
        (":first", "expected 'module:function'"),
        ("..team:first", "expected 'module:function'"),
        ("", "no plugin registered it"),
    ],
)
def test_a_summarizer_that_a_file_can_not_name_is_an_error_with_file_and_key(
    load: Callable[..., GCPlugin], name: str, expected: str
) -> None:
    with pytest.raises(GCConfigError) as caught:
        load(summarizer=name)

    message = str(caught.value)
    assert f"summarizer={name!r}: " in message
    assert expected in message
    assert message.startswith("inline config: gc: ") or "gc.json: " in message


def test_a_project_can_not_name_code(
    load: Callable[..., GCPlugin], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imports {name}"))

    with pytest.raises(GCConfigError, match=r"summarizer='subprocess:getoutput' names code"):
        load(summarizer="subprocess:getoutput", allow_code=False)


def test_a_file_in_the_home_folder_can_name_code(
    create: Create, registry: PluginRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    monkeypatch.setattr(Path, "home", lambda: home)
    block = {"type": "digest", "summary_tokens": 30, "summarizer": "team_summaries:first"}
    for folder in (home / ".jaato", project / ".jaato"):
        folder.mkdir(parents=True)
        (folder / "mine.json").write_text(json.dumps({"gc": block}))
    (home / ".jaato" / "gc.json").write_text(json.dumps(block))

    found = load_gc_from_file(workspace_root=project, registry=registry)
    assert found
    session = create()
    session.set_gc_plugin(*found)
    assert "The first one" in summary_of(session)
    assert load_gc_from_profile("mine", home / ".jaato", registry)
    with pytest.raises(GCConfigError, match="names code"):
        load_gc_from_profile("mine", project / ".jaato", registry)


def test_a_link_to_a_file_of_a_project_is_not_in_the_home_folder_unless_the_user_put_it_there(
    registry: PluginRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    monkeypatch.setattr(Path, "home", lambda: home)
    (home / ".jaato").mkdir(parents=True)
    (project / ".jaato").mkdir(parents=True)
    block = {"type": "digest", "summarizer": "team_summaries:first"}
    (project / ".jaato" / "gc.json").write_text(json.dumps(block))
    (home / ".jaato" / "gc.json").symlink_to(project / ".jaato" / "gc.json")

    assert load_gc_from_file(home / ".jaato" / "gc.json", registry=registry)
    with pytest.raises(GCConfigError, match="names code"):
        load_gc_from_file(
            home / ".jaato" / ".." / ".." / "project/.jaato/gc.json", registry=registry
        )


class Summarizers:
    """A plugin with summarizers."""

    @hookimpl
    def jaato_gc_register_summarizers(self) -> list[SummarizerInfo]:
        return [SummarizerInfo("acme-small", first, "Acme's small model.")]


def test_a_file_names_a_summarizer_that_a_plugin_registered(
    load: Callable[..., GCPlugin], create: Create, registry: PluginRegistry
) -> None:
    registry.register(Summarizers(), "acme")
    session = create()
    session.set_gc_plugin(load(summarizer="acme-small", allow_code=False))

    assert "The first one" in summary_of(session)
    with pytest.raises(GCConfigError, match="did you mean 'acme-small'"):
        load(summarizer="acme_small", allow_code=False)


def test_a_file_names_a_summarizer_that_the_host_gave(
    load: Callable[..., GCPlugin], create: Create, registry: PluginRegistry
) -> None:
    registry.register(Summarizers(), "acme")
    for name in ("acme-small", "mine", "team_summaries:first"):
        session = create()
        loaded = load(summarizer=name, allow_code=False, summarizers={name: second})
        session.set_gc_plugin(loaded)
        assert "The second one" in summary_of(session)


def test_the_profile_of_a_child_names_a_summarizer_that_the_host_gave(create: Create) -> None:
    profile = {"gc": {"type": "digest", "summary_tokens": 30, "summarizer": "mine"}}
    child = create(summarizer=first).child(profile, summarizers={"mine": second})

    assert "The second one" in summary_of(child)
    with pytest.raises(GCConfigError, match="'mine': no plugin registered it"):
        create().child(profile)


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("import missing_dependency", r"ModuleNotFoundError: .*'missing_dependency'"),
        ("import sys; sys.missing_name", r"AttributeError: .*'missing_name'"),
        ("raise SystemExit('not today')", r"SystemExit: not today"),
    ],
)
def test_an_error_while_a_named_module_is_imported_names_file_and_key(
    load: Callable[..., GCPlugin],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    expected: str,
) -> None:
    (tmp_path / "faulty_summaries.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()
    with pytest.raises(GCConfigError, match=rf"summarizer=.*can't be imported: {expected}"):
        load(summarizer="faulty_summaries:first")


def test_a_strategy_of_another_kind_gets_an_option_of_that_name_unchanged(
    load: Callable[..., GCPlugin],
) -> None:
    strategy = load(type="loose", summarizer="team_summaries:first")

    assert isinstance(strategy, Loose)
    assert strategy.settings.summarizer == "team_summaries:first"


# --- saved sessions ---


def restored(session: GCSession, **options: Any) -> GCSession:
    return GCSession.restore(session.save(), counter=COUNTER, registry=session.registry, **options)


@pytest.mark.parametrize("place", ["session", "strategy", "configuration"])
def test_a_session_is_restored_by_giving_its_summarizer_again(create: Create, place: str) -> None:
    session = create(summarizer=first if place == "session" else None)
    options = {"summarizer": first} if place == "configuration" else {}
    config = GCConfig(plugin_config={"depth": 2, **options})
    session.set_gc_plugin(digest(**({"summarizer": first} if place == "strategy" else {})), config)
    speak(session, 50, 51)

    again = restored(session, summarizer=second)
    assert isinstance(again.strategy, Digest)
    assert again.strategy.settings.depth == 2
    assert again.history == session.history
    assert "The second one" in summary_of(again)


@pytest.mark.parametrize("strategy", [Digest, Demanding])
def test_a_session_that_used_a_summarizer_is_not_restored_without_one(
    create: Create, strategy: type[Digest]
) -> None:
    session = create(summarizer=first)
    session.set_gc_plugin(strategy())
    with pytest.raises(SavedSessionError, match=r"used a summarizer: .*restore\(summarizer=…\)"):
        restored(session)

    plugin = digest(summarizer=second)
    assert restored(session, strategy=plugin).strategy is plugin


@pytest.mark.parametrize("options", [{}, {"extractive": True}])
def test_a_session_that_used_no_summarizer_is_restored_without_one(
    create: Create, options: dict[str, Any]
) -> None:
    session = create()
    session.set_gc_plugin(digest(**options))

    again = restored(session)
    assert isinstance(again.strategy, Digest)
    assert again.strategy.settings == digest(**options).settings


@pytest.mark.parametrize("place", ["plugin_options", "config"])
def test_a_saved_session_can_not_name_code(
    create: Create, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    session = create()
    session.set_gc_plugin(digest())
    saved = json.loads(session.save())
    named = {"summarizer": "team_summaries:first"}
    saved[place] = named if place == "plugin_options" else {"plugin_config": named}
    monkeypatch.setattr("importlib.import_module", lambda name: pytest.fail(f"imports {name}"))

    with pytest.raises(SavedSessionError, match="summarizer"):
        GCSession.restore(json.dumps(saved), counter=COUNTER, registry=session.registry)

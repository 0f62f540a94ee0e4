"""The snippets of the seeds (the requirements) run as written after their imports are swapped.

The seeds are not part of this repository. They are read from the folder that JAATO_GC_SEEDS names,
or from ``shared/seeds`` beside the repository.
"""

import contextlib
import dataclasses
import functools
import importlib
import inspect
import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from seed_documents import SNIPPETS, Seeds, run, swap_imports

import jaato_gc
import jaato_gc.plugin
from jaato_gc import (
    ContextUsage,
    EstimateCounter,
    GCConfig,
    GCOutcome,
    GCPlugin,
    GCPluginError,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    GCTriggerReason,
    InstructionBudget,
    InstructionSource,
    Message,
    Part,
    PluginRegistry,
    ReadOnlyError,
    Role,
    UsageReport,
    count_tokens,
    estimate_tokens,
    load_gc_from_file,
    load_gc_from_profile,
    load_gc_inline,
    load_gc_plugin,
    split_into_turns,
)
from jaato_gc.plugin import StrategyInfo, hookimpl
from jaato_gc_lab._config_schema import config_schema
from jaato_gc_truncate import TruncateGCPlugin, create_plugin

ROOT = Path(__file__).parents[1]

NOT_RUN = {
    "items_collected=0, ...": "gc_budget's algorithm, in pseudo-code that does not compile",
    '"target_tokens": 76800': "an example of gc_budget's details, not code to run",
    "def score_segment(": "jaato-gc-marksweep's formula, tested there",
    "class PruningPlan": "jaato-gc-marksweep's type, tested there",
    '"shared.plugins.gc_truncate:create_plugin"': "registers another project's plugins",
}

# Arguments without a default in the seeds, by class.
SEED_CLASSES: dict[str, dict[str, Any]] = {
    "GCConfig": {},
    "GCPlugin": {},
    "GCRemovalItem": {"source": InstructionSource.PLUGIN},
    "GCResult": {
        "success": True,
        "items_collected": 1,
        "tokens_before": 9,
        "tokens_after": 3,
        "plugin_name": "gc_x",
        "trigger_reason": GCTriggerReason.MANUAL,
    },
    "Message": {"role": Role.USER, "parts": [Part(text="hello")]},
    "SourceEntry": {
        "source": InstructionSource.PLUGIN,
        "tokens": 7,
        "gc_policy": GCPolicy.EPHEMERAL,
    },
}


@pytest.fixture(autouse=True)
def _clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))  # which may have a gc.json
    for variable in ("THRESHOLD", "TARGET", "PRESSURE", "LOAD_PLUGINS", "DISABLED_PLUGINS"):
        monkeypatch.delenv(f"JAATO_GC_{variable}", raising=False)


class SeedClient(GCSession):
    """A session with the method ``connect``, which a session leaves to its provider."""

    def connect(self, *place: str) -> None:
        pass

    def set_gc_plugin(self, plugin: GCPlugin | str | None, config: GCConfig | None = None) -> None:
        assert isinstance(plugin, GCPlugin)
        assert isinstance(config, GCConfig)
        super().set_gc_plugin(plugin, config)


def agreeing_model(request: list[Message]) -> tuple[str, UsageReport]:
    return "Yes.", UsageReport(count_tokens(request), estimate_tokens("Yes."))


@pytest.fixture
def make_client() -> Callable[..., SeedClient]:
    """Replaces the seeds' ``JaatoClient``."""
    return functools.partial(SeedClient, agreeing_model, counter=EstimateCounter())


@pytest.fixture
def client(make_client: Callable[..., SeedClient]) -> SeedClient:
    return make_client()


def is_ours(strategy: str) -> bool:
    """Returns whether the workspace has a distribution of this strategy."""
    return (ROOT / "packages" / f"jaato-gc-{strategy}" / "pyproject.toml").is_file()


def require(strategy: str) -> None:
    if not is_ours(strategy):
        pytest.skip(f"there is no packages/jaato-gc-{strategy} yet")


def loading(strategy: str) -> contextlib.AbstractContextManager[object]:
    """Expects the command that installs the strategy as an error, unless the workspace has it."""
    if is_ours(strategy):
        return contextlib.nullcontext()
    return pytest.raises(GCPluginError, match=rf"pip install jaato-gc-{strategy}$")


# --- strategies and their configuration ---


def test_gc_truncate(seeds: Seeds, client: SeedClient) -> None:
    run(seeds["truncate"], client=client)

    assert isinstance(client.strategy, TruncateGCPlugin)
    assert client.config.threshold_percent == 75.0
    assert client.config.preserve_recent_turns == 10


@pytest.mark.parametrize("strategy", ["summarize", "hybrid"])
def test_strategies_with_a_summarizer(strategy: str, seeds: Seeds, client: SeedClient) -> None:
    require(strategy)

    run(seeds[strategy], client=client, my_summarizer=lambda text: text[:20])

    assert client.strategy
    assert client.strategy.name == f"gc_{strategy}"


def test_client_from_connecting_to_history(
    seeds: Seeds, make_client: Callable[..., SeedClient], capsys: pytest.CaptureFixture[str]
) -> None:
    run(seeds["client"], JaatoClient=make_client, project="p", location="l", model="m")

    assert re.fullmatch(
        r"Freed \d+ tokens\ngc_truncate: \d+ items collected\n", capsys.readouterr().out
    )


def test_threshold_callback(
    seeds: Seeds, make_client: Callable[..., SeedClient], capsys: pytest.CaptureFixture[str]
) -> None:
    story = "why? " * 100
    session = make_client(context_limit=int(estimate_tokens(story) / 0.75))
    session.set_gc_plugin(create_plugin(), GCConfig(auto_trigger=False))
    session.append(Message.from_text(Role.USER, "Tell me"))
    session.append(Message.from_text(Role.MODEL, story))

    heard: list[str] = []
    run(seeds["threshold callback"], session=session, prompt="So?", output_callback=heard.append)

    assert heard == ["Yes."]
    assert re.fullmatch(r"Context pressure: \d+\.\d% >= 80\.0%\n", capsys.readouterr().out)


def test_both_modes_of_gc_budget(seeds: Seeds, client: SeedClient) -> None:
    with loading("budget"):
        run(seeds["budget modes"], client=client)
        assert client.config.continuous_mode


def test_loading_without_a_file(seeds: Seeds, client: SeedClient) -> None:
    assert run(seeds["load from file"], client=client)["result"] is None


def test_loading_from_the_default_file(seeds: Seeds, client: SeedClient) -> None:
    write_json(".jaato/gc.json", {"type": "truncate", "threshold_percent": 70.0})

    run(seeds["load from file"], client=client)

    assert isinstance(client.strategy, TruncateGCPlugin)
    assert client.config.threshold_percent == 70.0


class RecordingStrategy(TruncateGCPlugin):
    """Accepts any options and records them."""

    def initialize(self, config: dict[str, Any] | None = None) -> None:
        super().initialize()
        self.options = config or {}


class RecordingStrategies:
    @hookimpl
    def jaato_gc_register_strategies(self) -> list[StrategyInfo]:
        return [StrategyInfo(name, RecordingStrategy) for name in ("gc_hybrid", "gc_budget")]


@pytest.fixture
def recording() -> PluginRegistry:
    registry = PluginRegistry(load_installed=False)
    registry.register(RecordingStrategies(), "recording")
    return registry


def write_json(path: str, document: dict[str, Any]) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(json.dumps(document), encoding="utf-8")


def assert_all_settings_arrived(
    settings: dict[str, Any], loaded: tuple[GCPlugin, GCConfig] | None
) -> None:
    assert loaded
    plugin, config = loaded
    assert isinstance(plugin, RecordingStrategy)
    for key, value in settings.items():
        arrived = getattr(config, key) if hasattr(config, key) else plugin.options[key]
        assert arrived == value, key


@pytest.mark.parametrize(
    ("name", "strategy"), [("gc.json by type", "hybrid"), ("gc.json by plugin", "budget")]
)
def test_gc_json(name: str, strategy: str, seeds: Seeds, recording: PluginRegistry) -> None:
    document = seeds.json(name)
    write_json(".jaato/gc.json", document)
    settings = document.get("config") or {k: v for k, v in document.items() if k != "type"}

    Draft202012Validator(config_schema()).validate(document)
    with loading(strategy):
        assert load_gc_from_file()
    assert_all_settings_arrived(settings, load_gc_from_file(registry=recording))


@pytest.mark.parametrize(("name", "strategy"), [("my-subagent", "hybrid"), ("research", "budget")])
def test_profile(name: str, strategy: str, seeds: Seeds, recording: PluginRegistry) -> None:
    document = seeds.json(f"profile {name}")
    write_json(f".jaato/profiles/{name}.json", document)
    settings = {key: value for key, value in document["gc"].items() if key != "type"}

    Draft202012Validator(config_schema()).validate(document["gc"])
    with loading(strategy):
        assert load_gc_from_profile(name)
    assert_all_settings_arrived(settings, load_gc_from_profile(name, registry=recording))


def test_inline_configuration(seeds: Seeds) -> None:
    spawned: list[tuple[GCPlugin, GCConfig] | None] = []

    def spawn_subagent(task: str, inline_config: dict[str, Any]) -> None:
        assert task
        spawned.append(load_gc_inline(inline_config))

    run(seeds["inline"], spawn_subagent=spawn_subagent)

    assert spawned[0]
    plugin, config = spawned[0]
    assert plugin.name == "gc_truncate"
    assert config.threshold_percent == 5.0
    assert config.preserve_recent_turns == 3
    assert config.target_percent < 5.0, "the default target would be above the threshold"


def test_discovery(seeds: Seeds, capsys: pytest.CaptureFixture[str]) -> None:
    left = run(seeds["discovery"])

    assert isinstance(left["plugin"], TruncateGCPlugin)
    assert left["plugin"].overrides == {"preserve_recent_turns": 10}
    printed = capsys.readouterr().out
    for strategy in filter(is_ours, ("truncate", "summarize", "hybrid", "budget")):
        assert f"'gc_{strategy}'" in printed


# --- a plugin written by the seeds' README ---


def test_custom_plugin_is_a_strategy(seeds: Seeds) -> None:
    plugin = run(seeds["custom plugin"])["create_plugin"]()
    plugin.initialize()

    assert isinstance(plugin, GCPlugin)
    threshold = GCConfig().threshold_percent
    assert plugin.should_collect({"percent_used": threshold}, GCConfig()) == (
        True,
        GCTriggerReason.THRESHOLD,
    )
    assert plugin.should_collect({"percent_used": threshold - 1}, GCConfig()) == (False, None)


def test_custom_plugin_is_found_by_its_entry_point(
    seeds: Seeds,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    [(group, entries)] = tomllib.loads(seeds["entry point"])["project"]["entry-points"].items()
    [(name, reference)] = entries.items()
    module = reference.partition(":")[0]
    (tmp_path / f"{module}.py").write_text(swap_imports(seeds["custom plugin"]), encoding="utf-8")
    metadata = tmp_path / "gc_custom-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: gc-custom\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{group}]\n{name} = {reference}\n")
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop(module, None)
    request.addfinalizer(lambda: sys.modules.pop(module, None))

    assert name in jaato_gc.discover_gc_plugins()
    assert load_gc_plugin(name, {"anything": 1}).name == "gc_custom"


# --- the budget, and what the seeds' session does with it ---


@dataclasses.dataclass
class Conversation:
    """Twelve plain turns that fill nine tenths of a window."""

    history: list[Message]
    budget: InstructionBudget
    config: GCConfig = dataclasses.field(default_factory=GCConfig)

    def collect(self) -> tuple[list[Message], GCResult]:
        usage = ContextUsage(percent_used=self.budget.utilization_percent())
        return create_plugin().collect(
            self.history, usage, self.config, GCTriggerReason.THRESHOLD, self.budget
        )


@pytest.fixture
def conversation() -> Conversation:
    history = [
        Message.from_text(role, f"{role} says something in turn {turn}. " * 9)
        for turn in range(12)
        for role in (Role.USER, Role.MODEL)
    ]
    budget = InstructionBudget.create_default(context_limit=int(count_tokens(history) / 0.9))
    for turn in split_into_turns(history):
        budget.add_child(
            InstructionSource.CONVERSATION,
            turn.key,
            count_tokens(turn.messages),
            GCPolicy.PARTIAL,
            message_ids=[message.message_id for message in turn.messages],
        )
    return Conversation(history, budget)


@pytest.fixture
def session(seeds: Seeds, conversation: Conversation) -> Any:
    """An object whose methods are the seeds' own."""
    emitted: list[dict[str, Any]] = []
    methods = run(seeds["session"]) | run(seeds["context usage"])
    session = type(
        "Session",
        (),
        {
            name: methods[name]
            for name in ("_execute_gc", "_apply_gc_removal_list", "get_context_usage")
        },
    )()
    session._gc_plugin, session._gc_config = create_plugin(), conversation.config
    session._history, session._instruction_budget = conversation.history, conversation.budget
    session._emit_instruction_budget_update = lambda: emitted.append(conversation.budget.snapshot())
    session.emitted = emitted
    return session


def test_context_usage(session: Any, conversation: Conversation) -> None:
    total = count_tokens(conversation.history)
    limit = conversation.budget.context_limit

    assert session.get_context_usage() == {
        "context_limit": limit,
        "total_tokens": total,
        "percent_used": total / limit * 100,
        "tokens_remaining": limit - total,
    }


def test_session_collects_and_syncs_the_budget(session: Any, conversation: Conversation) -> None:
    before = list(conversation.history)

    result = session._execute_gc(GCTriggerReason.THRESHOLD)

    assert result.outcome is GCOutcome.REACHED
    assert session._history == before[-len(session._history) :]
    assert conversation.budget.total_tokens() == count_tokens(session._history)
    assert conversation.budget.total_tokens() == result.tokens_after
    assert session.get_context_usage()["percent_used"] <= conversation.config.target_percent
    assert [snapshot["total_tokens"] for snapshot in session.emitted] == [result.tokens_after]


def test_bulk_clear_is_a_method_of_the_budget(session: Any, conversation: Conversation) -> None:
    # The one deviation from the seeds: they empty a source by assigning to its entry and clearing
    # its children, without the budget, whose totals would then be wrong. Here entries are
    # read-only, and `clear_source`, which the error names, does what those lines mean.
    budget = conversation.budget
    budget.add_child(InstructionSource.ENRICHMENT, "memory", 50, GCPolicy.EPHEMERAL)
    total = budget.total_tokens()

    with pytest.raises(ReadOnlyError, match=r"budget\.clear_source\(source\)"):
        session._apply_gc_removal_list([GCRemovalItem(InstructionSource.ENRICHMENT)])
    assert budget.total_tokens() == total

    budget.clear_source(InstructionSource.ENRICHMENT)
    entry = budget.get_entry(InstructionSource.ENRICHMENT)
    assert entry
    assert (entry.total_tokens(), dict(entry.children)) == (0, {})
    assert entry.gc_policy is GCPolicy.EPHEMERAL
    assert budget.total_tokens() == total - 50


def test_summary_becomes_an_entry(seeds: Seeds, session: Any, conversation: Conversation) -> None:
    _, result = conversation.collect()
    result.details["summary_tokens"] = 40
    total = conversation.budget.total_tokens()

    run(seeds["summary entry"], self=session, result=result)

    entry = conversation.budget.get_child(InstructionSource.CONVERSATION, "gc_summary")
    assert entry
    assert entry.gc_policy is GCPolicy.PRESERVABLE
    assert (entry.label, entry.metadata) == ("Context Summary", {"created_by": "gc_truncate"})
    assert conversation.budget.total_tokens() == total + 40


def test_removal_by_budget_entry(seeds: Seeds, conversation: Conversation) -> None:
    remove = run(seeds["removal by entry"])["_apply_removals_to_history"]
    history, result = conversation.collect()
    items = [*result.removal_list, GCRemovalItem(InstructionSource.ENRICHMENT)]

    assert remove(None, conversation.history, items, conversation.budget) == history


def test_removal_by_message_id(seeds: Seeds, conversation: Conversation) -> None:
    remove = run(seeds["removal by message"])["_apply_removals_to_history"]
    history, result = conversation.collect()

    assert remove(None, conversation.history, result.removal_list) == history


def test_removal_list_of_truncate(seeds: Seeds, conversation: Conversation) -> None:
    """With ``to_target=False``, gc_truncate removes and reports what the seeds' plugin does."""
    plugin = create_plugin()
    plugin.initialize({"to_target": False})
    history, config = conversation.history, conversation.config
    new_history, ours = plugin.collect(history, {}, config, GCTriggerReason.MANUAL)
    turns = split_into_turns(history)

    def seed_result(removal_list: list[GCRemovalItem]) -> GCResult:
        return GCResult(**SEED_CLASSES["GCResult"], removal_list=removal_list)

    collect = run(
        seeds["collect of truncate"],
        turns=turns,
        preserved_indices={turn.index for turn in turns[-5:]},
        new_history=new_history,
        GCResult=seed_result,
    )["collect"]
    _, theirs = collect(plugin, history, {}, config, GCTriggerReason.MANUAL)

    assert theirs.removal_list == [
        dataclasses.replace(i, message_ids=[]) for i in ours.removal_list
    ]


@pytest.mark.parametrize(
    ("strategy", "reasons"),
    [("summarize", ["summarized"]), ("hybrid", ["ancient_truncated", "middle_summarized"])],
)
def test_removal_lists_with_summaries(
    strategy: str, reasons: list[str], seeds: Seeds, conversation: Conversation
) -> None:
    """The names that the snippets use exist. The strategies' own tests cover their results."""
    made: list[GCRemovalItem] = []
    turn = split_into_turns(conversation.history)[3]
    result = GCResult(**SEED_CLASSES["GCResult"])

    def remember(**fields: Any) -> GCRemovalItem:
        made.append(GCRemovalItem(**fields))
        return made[-1]

    collect = run(
        seeds[f"collect of {strategy}"],
        **{kind: [turn] for kind in ("summarized_turns", "ancient_turns", "middle_turns")},
        GCRemovalItem=remember,
        result=result,
        new_history=[],
        summary_text="What happened so far.",
    )["collect"]
    collect(None, [], {}, GCConfig(), GCTriggerReason.MANUAL)

    assert made == [
        GCRemovalItem(InstructionSource.CONVERSATION, turn.key, turn.estimated_tokens, reason)
        for reason in reasons
    ]
    if strategy == "summarize":
        assert result.details["summary_tokens"] == estimate_tokens("What happened so far.")


# --- the types ---


@pytest.mark.parametrize("name", sorted(SEED_CLASSES.keys() - {"GCPlugin"}))
def test_dataclass_has_the_fields_and_defaults_of_the_seeds(name: str, seeds: Seeds) -> None:
    ours = getattr(jaato_gc, name)
    required = SEED_CLASSES[name]
    for theirs in seeds.classes(name):
        fields = dataclasses.fields(theirs)
        defaults = {
            field.name: field.default_factory()
            if field.default_factory is not dataclasses.MISSING
            else field.default
            for field in fields
            if not field.default is field.default_factory is dataclasses.MISSING
        }
        short, spelled_out = ours(**required), ours(**required, **defaults)
        for member in [*(field.name for field in fields), *properties_of(theirs)]:
            assert hasattr(short, member), member
        for key, default in defaults.items():
            for instance in (short, spelled_out):
                value = getattr(instance, key)
                if key in ("created_at", "message_id"):  # None means: now, a new id
                    assert value, key
                else:  # read-only, a list is a tuple
                    assert (list(value) if isinstance(value, tuple) else value) == default, key
        if name != "GCConfig":  # it accepts only keyword arguments
            positional = list(inspect.signature(ours).parameters)
            assert positional[: len(fields)] == [field.name for field in fields]


def properties_of(cls: type) -> list[str]:
    return [name for name, value in vars(cls).items() if isinstance(value, property)]


def test_plugin_protocol_has_the_methods_of_the_seeds(seeds: Seeds) -> None:
    for theirs in seeds.classes("GCPlugin"):
        methods = {
            name: inspect.signature(method)
            for name, method in inspect.getmembers(theirs, inspect.isfunction)
            if not name.startswith("_")
        }
        assert methods
        for name, signature in methods.items():
            ours = inspect.signature(getattr(GCPlugin, name))
            assert [(p.name, p.default, p.kind) for p in ours.parameters.values()] == [
                (p.name, p.default, p.kind) for p in signature.parameters.values()
            ]


def test_every_snippet_is_accounted_for(seeds: Seeds) -> None:
    """Each snippet is run above, or NOT_RUN says why not."""
    for block in seeds.blocks:
        marks = [mark for mark in (*SNIPPETS.values(), *NOT_RUN) if mark in block]
        classes = set(re.findall(r"^class (\w+)", block, re.MULTILINE))
        assert classes & set(jaato_gc.__all__) <= SEED_CLASSES.keys()
        assert len(marks) == 1 or (not marks and classes & SEED_CLASSES.keys()), block


# --- public names ---

DESIGN_NAMES = {
    "Role": "USER MODEL TOOL SYSTEM",
    "Part": "text function_call function_response inline_data thought",
    "FunctionCall": "id name args",
    "ToolResult": "call_id name result is_error",
    "Message": "role parts message_id synthetic",
    "GCPlugin": "name initialize shutdown should_collect collect",
    "GCConfig": "threshold_percent target_percent pressure_percent max_turns auto_trigger "
    "check_before_send preserve_recent_turns pinned_turn_indices plugin_config continuous_mode",
    "GCResult": "success items_collected tokens_before tokens_after tokens_freed plugin_name "
    "trigger_reason notification details error removal_list outcome cache gc_id",
    "GCRemovalItem": "source child_key tokens_freed reason message_ids action stash",
    "GCOutcome": "NOT_NEEDED REACHED SHORT NO_GAIN FAILED REJECTED",
    "GCTriggerReason": "THRESHOLD MANUAL TURN_LIMIT PRE_MESSAGE CONTEXT_LIMIT",
    "GCPolicy": "LOCKED PRESERVABLE PARTIAL EPHEMERAL",
    "InstructionSource": "SYSTEM PLUGIN ENRICHMENT CONVERSATION",
    "SourceEntry": "source tokens gc_policy label children metadata created_at message_ids "
    "total_tokens to_dict",
    "InstructionBudget": "total_tokens utilization_percent available_tokens get_entry get_child "
    "add_child remove_child clear_source snapshot restore_conversation_from_snapshot",
    "ConversationTurnType": (
        "ORIGINAL_REQUEST CLARIFICATION_Q CLARIFICATION_A TURN_SUMMARY WORKING"
    ),
    "PluginToolType": "CORE DISCOVERABLE",
    "SystemChildType": "BASE CLIENT FRAMEWORK",
    "GC_POLICY_INDICATORS": "",
    "estimate_tokens": "",
    "load_gc_plugin": "",
    "discover_gc_plugins": "",
    "load_gc_from_file": "",
    "GCSession": "set_gc_plugin get_context_usage send_message manual_gc plan_gc apply undo "
    "get_gc_history",
    "GCProfileConfig": "type notify_on_gc summarize_middle_turns",
}


@pytest.mark.parametrize("name", DESIGN_NAMES)
def test_name_of_the_design_is_public(name: str) -> None:
    assert name in jaato_gc.__all__
    value = getattr(jaato_gc, name)
    fields = getattr(value, "model_fields", {})  # pydantic has no class attributes for fields
    for member in DESIGN_NAMES[name].split():
        assert hasattr(value, member) or member in fields, member


@pytest.mark.parametrize("kind", ["SOURCE", "TURN", "TOOL", "SYSTEM"])
def test_default_policies_are_public_for_plugins(kind: str) -> None:
    assert f"DEFAULT_{kind}_POLICIES" in jaato_gc.plugin.__all__


def test_policies_have_the_indicators_of_the_design() -> None:
    signs = {str(policy): sign for policy, sign in jaato_gc.GC_POLICY_INDICATORS.items()}

    assert signs.items() >= {
        ("locked", "🔒"), ("preservable", "◑"), ("partial", "◐"), ("ephemeral", "○"),
    }  # fmt: skip


@pytest.mark.parametrize("strategy", ["truncate", "summarize", "hybrid", "budget"])
def test_strategy_package_has_the_names_of_the_design(strategy: str) -> None:
    require(strategy)

    package = importlib.import_module(f"jaato_gc_{strategy}")

    plugin = package.create_plugin()
    assert type(plugin) is getattr(package, f"{strategy.title()}GCPlugin")
    assert plugin.name == f"gc_{strategy}"
    assert type(load_gc_plugin(strategy)) is type(load_gc_plugin(f"gc_{strategy}")) is type(plugin)

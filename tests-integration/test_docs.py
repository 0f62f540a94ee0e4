"""The documentation matches the code: every public name is documented, and nothing else is.

`test_reference.py` tests that the generated parts of pages are up to date.
"""

import ast
import builtins
import dataclasses
import importlib
import importlib.util
import inspect
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args

import pytest
from documents import load_script
from pydantic import ValidationError
from repository import own_strategies

import jaato_gc
from jaato_gc import (
    CacheImpact,
    Confidence,
    FunctionCall,
    GCConfig,
    GCConfigError,
    GCOutcome,
    GCPolicy,
    GCRemovalItem,
    GCResult,
    GCSession,
    GCTriggerReason,
    Message,
    Part,
    PluginRegistry,
    Role,
    Shortfall,
    ToolResult,
    discover_gc_plugins,
    load_gc_plugin,
)
from jaato_gc.collecting.identical_results import IDENTICAL
from jaato_gc.history import EditAction
from jaato_gc.plugin import REMOVABLE_POLICIES, Hold
from jaato_gc_budget._phases import BEFORE_TURNS, reason_of
from jaato_gc_lab._plugin_names import PluginNames
from jaato_gc_lab._plugin_project import project_files

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))

CODE_SPAN = re.compile(r"`([^`\n]+)`")
FENCED = re.compile(r"^( *)```.*?^\1```", re.MULTILINE | re.DOTALL)


site = load_script("docs/_site.py")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("JAATO_GC_") and name != "JAATO_GC_SEEDS":
            monkeypatch.delenv(name)


# --- reading pages ---


def page(name: str) -> str:
    """Returns a page as it is built."""
    text: str = site.with_docstrings((DOCS / name).read_text(encoding="utf-8"))
    return text


def section(text: str, heading: str) -> str:
    """Returns the text under a heading, up to the next heading of its level or above."""
    start = re.search(rf"^(#+) {re.escape(heading)}\n", text, re.MULTILINE)
    assert start, f"missing heading {heading!r}"
    rest = text[start.end() :]
    end = re.search(rf"^#{{1,{len(start[1])}}} ", FENCED.sub("", rest), re.MULTILINE)
    return FENCED.sub("", rest)[: end.start()] if end else rest


def rows(text: str) -> list[list[str]]:
    """Returns the rows of the tables in a text, without their headers."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
    headers = {number - 1 for number, row in enumerate(cells) if set("".join(row)) <= set("- ")}
    return [
        [cell.strip() for cell in row]
        for number, row in enumerate(cells)
        if number not in headers and number - 1 not in headers
    ]


def named(text: str) -> list[str]:
    """Returns the names in the first column of the tables in a text."""
    return [name for row in rows(text) for name in CODE_SPAN.findall(row[0])]


def headings(text: str, level: int) -> list[str]:
    return re.findall(rf"^{'#' * level} (.+)$", FENCED.sub("", text), re.MULTILINE)


def prose_spans(text: str) -> list[str]:
    return CODE_SPAN.findall(FENCED.sub("", text))


# --- reading code ---


def sources(*packages: str) -> Iterator[tuple[Path, str]]:
    for package in packages or ("*",):
        for path in sorted(ROOT.glob(f"packages/{package}/src/**/*.py")):
            yield path, path.read_text(encoding="utf-8")


def trees(*packages: str) -> Iterator[tuple[Path, ast.AST]]:
    for path, text in sources(*packages):
        yield path, ast.parse(text)


def strings_in(nodes: Iterable[ast.expr | None]) -> set[str]:
    return {
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def called(node: ast.Call) -> str:
    match node.func:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return ""


STRATEGY_PACKAGES = {
    info.name: plugin.distribution
    for plugin in PluginRegistry().plugins()
    for info in plugin.strategies
    if info.name in own_strategies()
}


# --- hooks ---


def hooks() -> dict[str, list[str]]:
    module = importlib.import_module("jaato_gc.plugins.hookspecs")
    return {
        name: list(inspect.signature(function).parameters)
        for name, function in vars(module).items()
        if name.startswith("jaato_gc_") and inspect.isfunction(function)
    }


def test_every_hook_is_documented_with_exactly_its_arguments() -> None:
    expected = [f"`{name}({', '.join(arguments)})`" for name, arguments in hooks().items()]

    assert headings(page("reference/hooks.md"), 3) == expected


@pytest.mark.parametrize("hook", hooks())
def test_every_argument_of_a_hook_is_described(hook: str) -> None:
    arguments = hooks()[hook]

    text = section(page("reference/hooks.md"), f"`{hook}({', '.join(arguments)})`")

    assert re.findall(r"^- `(\w+)`: .", text, re.MULTILINE) == arguments


# --- configuration ---


def test_every_key_of_the_configuration_is_documented() -> None:
    assert named(section(page("reference/configuration.md"), "Keys")) == list(GCConfig.model_fields)


def test_every_strategy_is_documented() -> None:
    assert len(STRATEGY_PACKAGES) >= 5
    assert headings(page("reference/strategies.md"), 3) == [
        f"`{name}`" for name in discover_gc_plugins()
    ]


@pytest.mark.parametrize("name", sorted(STRATEGY_PACKAGES))
def test_every_option_of_a_strategy_is_documented(name: str) -> None:
    model: Any = discover_gc_plugins()[name].config_model

    documented = named(section(page("reference/strategies.md"), f"`{name}`"))

    assert [key for key in documented if "." not in key] == list(model.model_fields)
    for key in documented:
        outer, _, inner = key.partition(".")
        assert not inner or inner in model.model_fields[outer].annotation.model_fields


def test_the_readme_of_the_core_has_every_key() -> None:
    readme = (ROOT / "packages/jaato-gc/README.md").read_text(encoding="utf-8")

    assert sorted(named(section(readme, "Configuration"))) == sorted(GCConfig.model_fields)


@pytest.mark.parametrize("name", sorted(STRATEGY_PACKAGES))
def test_options_in_readmes_are_options(name: str) -> None:
    readme = (ROOT / "packages" / STRATEGY_PACKAGES[name] / "README.md").read_text(encoding="utf-8")
    model: Any = discover_gc_plugins()[name].config_model

    # Options that it inherits have a table elsewhere.
    own = vars(model).get("__annotations__", {}).keys()
    listed = set(named(section(readme, "Options")))
    assert own <= listed <= model.model_fields.keys(), "the table of options has them all"


@pytest.mark.parametrize("name", ["core", *sorted(STRATEGY_PACKAGES)])
def test_no_number_among_the_options_may_be_negative(name: str) -> None:
    model: Any = GCConfig if name == "core" else discover_gc_plugins()[name].config_model
    unbounded = []
    for option, field in model.model_fields.items():
        if {int, float} & {field.annotation, *get_args(field.annotation)}:
            try:
                model(**{option: -1})
            except (ValidationError, GCConfigError):
                continue
            unbounded.append(option)

    assert unbounded == [], "give them a type such as NonNegativeInt, or a bound"


IN_WORDS: dict[str, object] = {"none": None, "true": True, "false": False, "[]": [], "{}": {}}
"""Defaults as READMEs write them. Other texts, such as "see above", stand for a longer default."""


def wrong_defaults(readme: str, heading: str, model: Any) -> list[tuple[str, str, Any]]:
    """Returns the options of a README whose default is another one in the code."""
    text = (ROOT / "packages" / readme / "README.md").read_text(encoding="utf-8")
    defaults = {name: field.get_default(call_default_factory=True)
                for name, field in model.model_fields.items()}  # fmt: skip
    wrong = []
    for names, written, *_ in rows(section(text, heading)):
        if written in IN_WORDS:
            value = IN_WORDS[written]
        elif re.fullmatch(r'[\d.]+|`"\w+"`', written):
            value = ast.literal_eval(written.strip("`"))
        else:
            continue
        for name in CODE_SPAN.findall(names):
            default = defaults[name]
            default = list(default) if isinstance(default, tuple) else default
            if name != "notification_template" and default != value:
                wrong.append((name, written, default))
    return wrong


def test_the_readme_of_the_core_has_the_defaults_of_the_code() -> None:
    assert wrong_defaults("jaato-gc", "Configuration", GCConfig) == []


@pytest.mark.parametrize("name", sorted(STRATEGY_PACKAGES))
def test_readmes_of_strategies_have_the_defaults_of_the_code(name: str) -> None:
    model = discover_gc_plugins()[name].config_model

    assert wrong_defaults(STRATEGY_PACKAGES[name], "Options", model) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_defaults_in_brackets_are_those_of_the_code(path: Path) -> None:
    """Prose gives a default as ``preserve_recent_turns`` (5)."""
    config = GCConfig()
    text = path.read_text(encoding="utf-8")
    written = re.findall(r"`(\w+)`\s\((\d+)\)", text)

    assert [
        (name, value, getattr(config, name))
        for name, value in written
        if name in GCConfig.model_fields and getattr(config, name) != int(value)
    ] == []


def test_every_environment_variable_is_documented() -> None:
    used = {
        name for _, text in sources() for name in re.findall(r"\bJAATO_GC_[A-Z_]+", text)
    } - {"JAATO_GC_EDITABLE"}  # fmt: skip

    assert sorted(named(page("reference/environment.md"))) == sorted(used)


# --- results ---


@pytest.mark.parametrize(
    ("heading", "cls"),
    [
        ("GCResult", GCResult),
        ("GCRemovalItem", GCRemovalItem),
        ("Shortfall", Shortfall),
        ("CacheImpact", CacheImpact),
    ],
)
def test_every_field_is_documented(heading: str, cls: Any) -> None:
    fields = [field.name for field in dataclasses.fields(cls)]
    properties = [name for name, value in vars(cls).items() if isinstance(value, property)]

    table = rows(section(page("reference/results.md"), heading))

    assert [row[0].strip("`") for row in table] == fields + properties
    assert all(row[-1] for row in table)


@pytest.mark.parametrize(
    ("heading", "enum"),
    [
        ("Outcomes", GCOutcome),
        ("Trigger reasons", GCTriggerReason),
        ("Confidence", Confidence),
    ],
)
def test_every_value_is_documented(heading: str, enum: Any) -> None:
    table = rows(section(page("reference/results.md"), heading))

    assert [(row[0], row[1]) for row in table] == [(f"`{e.name}`", f"`{e.value}`") for e in enum]
    assert all(row[-1] for row in table)


def test_every_hold_is_documented() -> None:
    table = rows(section(page("reference/results.md"), "Holds"))

    documented = {row[0].strip("`"): row[2] for row in table}
    expected = {hold.value: "yes" if hold.is_fixed else "no" for hold in Hold}
    assert documented == expected | {"strategy": "no"}


def test_the_goal_of_every_trigger_reason_is_documented() -> None:
    documented = named(section(page("reference/results.md"), "Goals"))

    assert sorted(documented) == sorted(reason.name for reason in GCTriggerReason)


def definition(term: str) -> str:
    """Returns what the glossary says about a term."""
    found = re.search(rf"^\*\*{term}\*\*\n((?:.+\n)+)", page("glossary.md"), re.MULTILINE)
    assert found, f"missing term {term!r}"
    return found[1]


def test_the_glossary_names_every_action() -> None:
    assert set(CODE_SPAN.findall(definition("Action"))) == ACTIONS


def test_every_policy_is_explained() -> None:
    explanation = section(page("explanation/plan-and-policy.md"), "Policies")

    for policy in GCPolicy:
        assert f"{policy.name} (" in definition("Policy")
        assert policy.name in explanation


WITH_A_REASON = {
    "Edit", "Garbage", "_of_result", "_remove", "_replace", "drop_repeated_lines",
    "remove", "remove_in_order", "remove_oldest", "remove_source", "shorten", "summarize",
    "summarize_oldest", "force", "_force", "force_shorter"}  # fmt: skip
"""Functions and methods with a reason among their arguments."""
ACTIONS = set(get_args(EditAction))
BY_POLICY = {
    *(reason_of(policy) for policy in (*REMOVABLE_POLICIES, GCPolicy.PRESERVABLE)),
    *(f"{policy}_{what}" for policy in BEFORE_TURNS for what in ("repeated", "shortened")),
}
"""The reasons that gc_budget derives from the policies."""
CORE = ROOT / "packages/jaato-gc/src/jaato_gc"
CORE_WITH_REASONS = (
    "collecting/collection.py", "collecting/fitting.py", "session/host_edits.py",
    "session/repairing.py", "session/returned_history.py", "summaries/placing.py",
)  # fmt: skip


def reasons_in(tree: ast.AST) -> set[str]:
    """Returns the reasons for removals in some code."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Call() if called(node) in WITH_A_REASON:
                found |= strings_in([*node.args, *(keyword.value for keyword in node.keywords)])
            case ast.Assign(targets=[ast.Name(id="reason")], value=ast.BoolOp(values=values)):
                found |= strings_in(values)
            case ast.Assign(targets=[ast.Name(id="reason")], value=value):
                found |= strings_in([value])
            case ast.Assign(
                targets=[ast.Tuple(elts=[ast.Name(id="reason"), *_])],
                value=ast.Tuple(elts=[value, *_]),
            ):
                found |= strings_in([value])
            case ast.Constant(value=str(text)) if re.fullmatch(r"cleared_[a-z]+", text):
                found.add(text)
    return {text for text in found - ACTIONS if re.fullmatch(r"[a-z]+(_[a-z]+)*", text)}


def documented_reasons() -> dict[str, str]:
    table = rows(section(page("reference/results.md"), "Reasons of removal items"))
    return {row[0].strip("`"): row[1] for row in table}


def test_every_reason_is_documented_and_nothing_else() -> None:
    used = {
        name: set().union(*(reasons_in(tree) for _, tree in trees(package)))
        for name, package in STRATEGY_PACKAGES.items()
    }
    used["gc_budget"] |= BY_POLICY
    in_core = {IDENTICAL}.union(
        *(reasons_in(ast.parse((CORE / name).read_text())) for name in CORE_WITH_REASONS)
    )
    documented = documented_reasons()

    given = in_core.union(*used.values())
    missing = sorted(given - documented.keys())
    assert not missing, f"docs/reference/results.md, Reasons of removal items: add {missing}"
    assert sorted(documented) == sorted(given)
    for name, reasons in used.items():
        for reason in reasons:
            assert name in documented[reason] or documented[reason] == "all", (name, reason)


@pytest.mark.parametrize("name", sorted(STRATEGY_PACKAGES))
def test_strategies_give_documented_reasons(name: str) -> None:
    documented = documented_reasons()
    for target in (50.0, 20.0, 1.0):
        session = GCSession(context_limit=4_000, summarizer=lambda _conversation: "They talked.")
        session.set_gc_plugin(load_gc_plugin(name), GCConfig(preserve_recent_turns=1))
        for number in range(14):
            call = FunctionCall(f"c{number}", "bash", {"command": "make"})
            session.append(Message.from_text(Role.USER, f"Request {number}"))
            session.append(Message(Role.MODEL, [Part(function_call=call)]))
            answer = ToolResult(call.id, call.name, f"line {number}\n" * 60)
            session.append(Message(Role.TOOL, [Part(function_response=answer)]))
            session.append(Message.from_text(Role.MODEL, "Done. " * 20))

        reasons = {item.reason for item in session.manual_gc(target_percent=target).removal_list}

        assert reasons
        assert reasons <= documented.keys()
        assert all(name in documented[each] or documented[each] == "all" for each in reasons)


def details_in(tree: ast.AST) -> set[str]:
    """Returns the keys of `details` that some code sets."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(
                targets=[ast.Subscript(value=owner, slice=ast.Constant(value=str(key)))]
            ):
                if isinstance(owner, ast.Name | ast.Attribute) and "details" in ast.unparse(owner):
                    found.add(key)
            case ast.Call(func=ast.Attribute(attr="setdefault", value=owner)):
                if "details" in ast.unparse(owner):
                    found |= strings_in(node.args)
            case ast.Call(func=ast.Attribute(attr="_result_of"), args=[*_, ast.Dict(keys=keys), _]):
                found |= strings_in(keys)
            case ast.Call(func=ast.Attribute(attr="edit" | "_edit"), keywords=given):
                found |= {keyword.arg for keyword in given if keyword.arg}
            case ast.Call(func=ast.Attribute(attr="update", value=owner), keywords=given):
                if "details" in ast.unparse(owner):
                    found |= {keyword.arg for keyword in given if keyword.arg}
            case ast.Call(func=ast.Attribute(attr="_add")):
                found |= strings_in(node.args[:1])
            case ast.Call(func=ast.Name(id="account")):
                for argument in node.args:
                    if isinstance(argument, ast.Dict):
                        found |= strings_in(argument.keys)
            case (
                ast.keyword(arg="details", value=ast.Dict(keys=keys))
                | ast.Assign(
                    targets=[ast.Name(id="details") | ast.Attribute(attr="details")],
                    value=ast.Dict(keys=keys),
                )
            ):
                found |= strings_in(keys)
            case ast.FunctionDef(name="_breakdown" | "_figures"):
                for each in ast.walk(node):
                    if isinstance(each, ast.Dict):
                        found |= strings_in(each.keys)
                    elif isinstance(each, ast.Subscript):
                        found |= strings_in([each.slice])
    return found


def test_every_detail_is_documented_and_nothing_else() -> None:
    packages = ["jaato-gc", *STRATEGY_PACKAGES.values()]
    used = set().union(*(details_in(tree) for _, tree in trees(*packages)))
    with GCSession() as session:  # gc_budget derives some from the policies
        session.set_gc_plugin(load_gc_plugin("gc_budget"))
        used |= session.manual_gc().details.keys()

    assert sorted(named(section(page("reference/results.md"), "Details"))) == sorted(used)


# --- errors and invariants ---


ODD_VALUES = "jaato_gc_testing.odd_values"
"""A module that users import, beside the packages."""


def packages() -> list[ModuleType]:
    """Returns the modules that users import from."""
    names = [path.parent.name for path in sorted(ROOT.glob("packages/*/src/*/__init__.py"))]
    return [importlib.import_module(name) for name in [*names, "jaato_gc.plugin", ODD_VALUES]]


def errors() -> set[str]:
    return {
        name
        for package in packages()
        for name in package.__all__
        if isinstance(value := getattr(package, name), type) and issubclass(value, Exception)
    }


def test_every_error_is_documented() -> None:
    text = page("reference/errors.md")

    assert sorted(headings(text, 3)) == sorted(f"`{name}`" for name in errors())
    assert all(section(text, heading).strip() for heading in headings(text, 3))


def test_every_invariant_is_documented() -> None:
    checked = set().union(
        *(
            strings_in(node.args[:1])
            for _, tree in trees("jaato-gc")
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and called(node) == "Violation"
        )
    )

    text = page("reference/invariants.md")
    table = rows(section(text, "Rules for a history")) + rows(
        section(text, "Rules for a collection")
    )

    assert sorted(row[0].strip("`") for row in table) == sorted(checked)
    assert all(row[1] for row in table)


# --- the API ---


def public_names() -> set[str]:
    """Returns the public names of all packages, without those that have other pages."""
    elsewhere = errors() | hooks().keys() | {"__version__", "create_plugin"}
    return {
        f"{package.__name__}.{name}"
        for package in packages()
        for name in package.__all__
        if name not in elsewhere
    } - {f"jaato_gc.plugin.{name}" for name in jaato_gc.__all__}  # shown under jaato_gc


def strategy_classes() -> set[str]:
    """Returns the names of strategies and their settings, which reference/strategies.md has."""
    classes = [
        cls
        for info in own_strategies().values()
        for cls in (type(info.factory()), info.config_model)
        if cls
    ]
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in classes}


def test_every_public_name_is_on_a_page_and_nothing_else() -> None:
    shown = re.findall(
        r"^::: (\S+)$",
        "\n".join(page(f"reference/{each.name}") for each in API_PAGES),
        re.MULTILINE,
    )

    missing = public_names() - strategy_classes() - set(shown)
    assert not missing, f"add to a page docs/reference/api-*.md: ::: {sorted(missing)}"
    assert sorted(shown) == sorted(public_names() & set(shown))


API_PAGES = sorted((DOCS / "reference").glob("api-*.md"))

OTHERS = {"jaato_gc_todo_list", "jaato_gc_todos"}
"""Names of examples."""
VARIABLES_OF_BENCHMARKS = {"JAATO_GC_TRANSCRIPTS"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_names_in_prose_exist(path: Path) -> None:
    """Variables, hooks, classes and attributes of a session exist."""
    text = page(path.relative_to(DOCS).as_posix())
    variables = set(named(page("reference/environment.md"))) | VARIABLES_OF_BENCHMARKS
    names = [package.__name__ for package in packages()]

    def missing(span: str) -> Iterator[str]:
        for name in re.findall(r"\bJAATO_GC_[A-Z_]+", span):
            if name not in variables:
                yield name
        for name in re.findall(r"^jaato_gc(?:_\w+)?(?:\.\w+)*(?=$|\()", span):
            if name not in OTHERS and not exists(name):
                yield name
        for name in re.findall(r"^(?:GC[A-Z]\w+|[A-Z]\w+Error)(?:\.\w+)?(?=$|\()", span):
            if name not in vars(builtins) and not any(exists(f"{each}.{name}") for each in names):
                yield name
        for name in re.findall(r"^session\.(\w+)", span):
            if not exists(f"jaato_gc.GCSession.{name}"):
                yield f"session.{name}"

    assert [name for span in prose_spans(text) for name in missing(span)] == []


def exists(dotted: str) -> bool:
    """Returns whether a hook, a package, or an attribute or field in it has this dotted name."""
    if dotted in hooks():
        return True
    first, *rest = dotted.split(".")
    if importlib.util.find_spec(first) is None:
        return False
    value: Any = importlib.import_module(first)
    for step in rest:
        if step in getattr(value, "model_fields", {}):
            return step == rest[-1]
        if not hasattr(value, step):
            return False
        value = getattr(value, step)
    return True


# --- the site ---


def test_navigation_has_every_page_once() -> None:
    listed = re.findall(r"[\w/-]+\.md", site.configuration().partition("\nnav:")[2])

    pages = {path.relative_to(DOCS).as_posix() for path in PAGES} | set(site.mirrored().values())
    assert sorted(listed) == sorted(pages)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(DOCS).as_posix())
def test_a_page_can_be_built(path: Path) -> None:
    name = path.relative_to(DOCS).as_posix()

    text = site.relink(page(name), name)

    assert "\n<!-- :::" not in text
    assert text.startswith("# ")


def test_links_to_other_folders_become_links_of_the_site() -> None:
    text = "[a](../../packages/jaato-gc-budget/README.md#options) [b](../../noxfile.py) [c](x.md)"

    assert (
        site.relink(text, "how-to/y.md")
        == "[a](../packages/jaato-gc-budget.md#options) b [c](x.md)"
    )
    readme = "[a](../jaato-gc/README.md) [b](https://example.org) [c](#d)"
    assert site.relink(readme, "packages/jaato-gc-budget.md") == (
        "[a](jaato-gc.md) [b](https://example.org) [c](#d)"
    )


def test_pictures_are_on_the_site(tmp_path: Path) -> None:
    assert site.relink("![a](../picture.svg)", "how-to/y.md") == "![a](../picture.svg)"
    assert site.relink("![a](docs/picture.svg)", "project/architecture.md") == (
        "![a](../picture.svg)"
    )

    site.stage(tmp_path / "staged")

    pages = tmp_path / "staged" / "pages"
    index = (pages / "index.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", index)
    assert shown == ["images/demo.svg", "picture.svg"]
    for target in shown:
        assert (pages / target).read_bytes() == (DOCS / target).read_bytes()


def test_only_long_code_in_tables_wraps_at_its_spaces() -> None:
    text = "`{}` is\n\n| `{}` | ``{}`` | `{}` |\n\n```text\n| `{}` |\n```\n"
    long = "replay(conversation, strategy)"

    assert site.wrap_long_code(text.format(long, long, long, "int ≥ 1", long)) == text.format(
        long, long, long, "int ≥ 1", long
    ).replace(f"| `{long}` | ``{long}`` |", f"| `{long}`{{ .wraps }} | ``{long}``{{ .wraps }} |")


def test_types_in_tables_have_no_annotations_of_validators() -> None:
    text = page("reference/strategies.md") + page("reference/configuration.md")

    assert "Annotated[" not in text
    assert "Field(" not in text


def test_files_from_other_hosts_are_found() -> None:
    html = (
        '<link rel="stylesheet" href="https://fonts.example.org/a.css"><script src="//cdn/x.js">'
        '</script><a href="https://example.org">fine</a><script src="own.js"></script>'
    )

    assert site.foreign_resources(html) == ["https://fonts.example.org/a.css", "//cdn/x.js"]


# --- the tutorial of plugins ---


def test_tutorial_shows_the_files_of_a_new_plugin() -> None:
    text = (DOCS / "tutorials/first-plugin.md").read_text(encoding="utf-8")
    shown = {
        title: body
        for title, body in re.findall(
            r'^```\w+(?: no-run)? title="([^"\n]+)"\n(.*?)^```$', text, re.MULTILINE | re.DOTALL
        )
        if not title.startswith(".jaato/")
    }

    files = project_files(PluginNames("todos"), author="Ana Doe", license="MIT", year=2026)
    strategy, conformance = "src/jaato_gc_todos/__init__.py", "tests/test_conformance.py"
    assert shown.keys() == {"pyproject.toml", strategy, conformance}
    assert shown["pyproject.toml"] in files["pyproject.toml"].decode()
    assert shown[strategy] == files[strategy].decode()
    assert shown[conformance] == files[conformance].decode()


def test_tutorial_lists_the_files_of_a_new_plugin() -> None:
    text = (DOCS / "tutorials/first-plugin.md").read_text(encoding="utf-8")
    [tree] = re.findall(r"^```text\njaato-gc-todos/\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    files = project_files(PluginNames("todos"), author="Ana Doe", license="MIT", year=2026)

    folder, listed = "", []
    for line in tree.splitlines():
        name = re.sub(r"^[│├└─ ]+", "", line)
        if line[0] not in "│ ":
            folder = ""
        if name.endswith("/"):
            folder = name
        else:
            listed.append(folder + name)

    assert sorted(listed) == sorted(files)


# --- the seed documents ---

NOT_NAMES = {
    # Names of Python and Markdown, of tests, and in examples
    "Dict", "MyCustomGCPlugin", "append", "bool", "clear", "generate", "get", "getenv", "int",
    "keys", "my_summarizer", "on_gc_threshold_callback", "str", "time", "time.time",
    "total_seconds", "update", "uuid4",
}  # fmt: skip


def names_of_the_seeds() -> set[str]:
    folder = Path(os.environ.get("JAATO_GC_SEEDS") or ROOT.parent / "shared" / "seeds")
    if not folder.is_dir():
        pytest.skip("no seed documents beside the repository, and JAATO_GC_SEEDS is not set")
    names: set[str] = set()
    for path in folder.glob("*.md"):
        text = path.read_text(encoding="utf-8")
        for span in prose_spans(text):
            if match := re.fullmatch(r"([A-Za-z_][\w.]*\w)(\(.*\))?", span):
                names.add(match[1])
        for block in FENCED.finditer(text):
            for pattern in (
                r"^class (\w+)", r"^\s*def (\w+)", r"^    ([a-z]\w*): ", r'reason="(\w+)"',
                r'^\s*"(\w+)": ', r"\.([a-z]\w+)\(",
            ):  # fmt: skip
                names.update(re.findall(pattern, block[0], re.MULTILINE))
        names.update(re.findall(r"\bJAATO_GC_\w+|\b\w*GC[A-Z]\w+", text))
    return {
        name
        for name in names - NOT_NAMES
        if not name.startswith(("test_", "__")) and not name.endswith((".py", ".md", ".json"))
    }


def test_every_name_of_the_seeds_is_mapped() -> None:
    text = " ".join(
        prose_spans((DOCS / "reference/coming-from-jaato.md").read_text(encoding="utf-8"))
    )
    words = set(re.findall(r"[\w.]+", text)) | set(re.findall(r"\w+", text))

    assert sorted(names_of_the_seeds() - words) == []


def test_names_of_the_seeds_are_mapped_to_existing_names() -> None:
    table = rows((DOCS / "reference/coming-from-jaato.md").read_text(encoding="utf-8"))
    targets = [
        span
        for row in table
        for span in CODE_SPAN.findall(row[1])
        if span.startswith("jaato_gc") and "." in span
    ]

    assert len(targets) > 40
    assert [target for target in targets if not exists(target)] == []

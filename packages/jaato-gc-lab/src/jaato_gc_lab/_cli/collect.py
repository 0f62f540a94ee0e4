"""``jaato-gc collect``: collects a recorded context."""

import dataclasses
import shlex
from collections import Counter
from pathlib import Path
from time import perf_counter
from typing import Any

import click

from jaato_gc import GCPlan, GCResult, PluginRegistry
from jaato_gc_lab._cache_cost import CacheCost, cache_cost
from jaato_gc_lab._changed_messages import ChangedMessage, changed_messages
from jaato_gc_lab._cli._drawing import draw, say, say_heading, say_json, say_result
from jaato_gc_lab._cli._ending import say_no_price
from jaato_gc_lab._cli._exits import Exit
from jaato_gc_lab._cli._inputs import is_copy
from jaato_gc_lab._cli._numbers import TOKENS
from jaato_gc_lab._cli._options import (
    EXISTING,
    NEW,
    config_option,
    configured,
    conversation_option,
    force_option,
    format_option,
    json_option,
    model_option,
    prices_option,
    tuning_options,
)
from jaato_gc_lab._cli._subject_cell import subject_cell
from jaato_gc_lab._collect_file import FilePlan, apply_plan, plan_file, undo_file, undo_path
from jaato_gc_lab._columns import Columns, Name
from jaato_gc_lab._figures import counted, money, number, percent, since
from jaato_gc_lab._files import refuse_overwriting
from jaato_gc_lab._prices import Prices, load_prices
from jaato_gc_lab._replay import make_strategy

FEW = 12
"""Maximum number of listed messages."""


@click.command("collect")
@click.argument("file", type=EXISTING)
@click.option("-s", "--strategy", metavar="NAME", help="Strategy (budget).")
@click.option(
    "-l", "--context-limit", type=TOKENS, default=128_000, help="Window of the model (128k)."
)
@tuning_options
@config_option
@click.option("-o", "--out", type=NEW, metavar="FILE", help="Output file.")
@click.option("--apply", is_flag=True, help="Write the result to --out.")
@click.option("--in-place", is_flag=True, help="With --apply: replace FILE itself.")
@click.option("--undo", is_flag=True, help="Restore FILE from its undo file.")
@force_option
@conversation_option
@click.option("--repair", is_flag=True, help="Skip invalid lines and repair other problems.")
@format_option
@model_option
@prices_option
@json_option
def command(
    file: Path,
    strategy: str | None,
    context_limit: int,
    threshold: float | None,
    target: float | None,
    keep_turns: int | None,
    config_file: Path | None,
    out: Path | None,
    apply: bool,
    in_place: bool,
    undo: bool,
    force: bool,
    conversation: int | None,
    repair: bool,
    format: str | None,
    model: str | None,
    prices: Path | None,
    as_json: bool,
) -> Exit:
    """Collect a recorded context: show the plan or write the result.

    Without --apply the command only shows the plan: what would be removed and why, how many tokens
    that frees, and the cost of rewriting the provider's prompt cache after the first change. A
    context below the target is left unchanged.

    With --apply the command writes the result to --out in the format of the provider's API, as a
    whole request if FILE contains one. It also writes an undo file with the suffix .undo.json.gz.
    Existing files are only replaced with --force or --in-place.

    \b
    Examples:
      jaato-gc collect request.json --context-limit 32k --target 50
      jaato-gc collect request.json --context-limit 32k --apply -o smaller.json
      jaato-gc collect smaller.json --undo
      jaato-gc collect request.json --config .jaato/gc.json --apply --in-place
    """
    started = perf_counter()
    if (undo or in_place) and is_copy(file):
        option = "--undo" if undo else "--in-place"
        raise click.UsageError(f"{option} needs a file, not stdin or a pipe: pass a path")
    if undo:
        if apply or in_place or out:
            raise click.UsageError("--undo can't be combined with --apply, --in-place or --out")
        restored = undo_file(file)
        if as_json:
            say_json({"file": str(restored), "restored": True})
        else:
            say(f"Restored {restored} to its content before the collection")
        return Exit.OK
    if in_place and not apply:
        raise click.UsageError("--in-place requires --apply")
    if apply and not out and not in_place:
        raise click.UsageError("--apply requires -o FILE or --in-place")
    if apply and not in_place:
        refuse_overwriting([out], force=force)
    table = load_prices(prices)
    table.choose(model, None)  # raises early if the model has no price
    named, config = configured(
        strategy, config_file, threshold=threshold, target=target, keep_turns=keep_turns
    )
    registry = PluginRegistry()
    chosen = make_strategy(named or "gc_budget", config, registry)
    if chosen is None:
        raise click.UsageError("strategy none can't collect: choose another strategy")
    plan = plan_file(
        file,
        chosen,
        context_limit=context_limit,
        config=config,
        conversation=conversation,
        format=format,
        repair=repair,
        registry=registry,
    )
    failed = plan.plan is not None and not plan.plan.result.success
    written = None
    if apply and not failed and not (in_place and plan.changes_nothing):
        written = apply_plan(plan, out, in_place=in_place, force=force, registry=registry)
    if as_json:
        say_json(_data(plan, written, table, model))
    else:
        _show(plan, table, model, is_done=written is not None)
        if written is not None:
            say()
            undo_command = shlex.join(["jaato-gc", "collect", str(written), "--undo"])
            say(f"Undo with: {undo_command} (uses {undo_path(written).name})")
        _show_end(plan, written, started)
    return Exit.CHECK_FAILED if failed else Exit.OK


def _show(plan: FilePlan, prices: Prices, model: str | None, *, is_done: bool) -> None:
    used = plan.tokens / plan.context_limit
    say(
        f"{plan.path.name}: about {number(plan.tokens)} tokens, {percent(used)} of a window of "
        f"{number(plan.context_limit)}"
    )
    if plan.conversation.problems:
        problems = counted(len(plan.conversation.problems), "problem")
        say(
            f"A provider would reject the conversation: {problems} (see jaato-gc inspect). Use "
            "--repair to repair it where possible."
        )
    if plan.plan is None:
        say(
            f"The conversation is below the target of {number(plan.target_tokens)} tokens: nothing "
            "to remove. Lower --target to remove more."
        )
        return
    result = plan.plan.result
    if not result.success:
        say(f"The collection failed and changed nothing: {result.error}")
        return
    if plan.changes_nothing:
        say("Nothing can be removed: all content is locked or recent. Try a lower --keep-turns.")
        return
    _show_result(plan, result, "freed" if is_done else "would free", "left" if is_done else "leave")
    _show_items(plan.plan)
    _show_cache(plan, result, prices, model)


def _show_end(plan: FilePlan, written: Path | None, started: float) -> None:
    took, is_good = since(started), True
    if plan.plan is not None and not plan.plan.result.success:
        end, is_good = f"Failed in {took}. Nothing was written.", False
    elif written is not None:
        end = f"Collected in {took}. Wrote the result to {written}."
    elif plan.changes_nothing:
        end = f"Planned in {took}. Nothing to write."
    else:
        end = f"Planned in {took}. Nothing was written: use --apply -o FILE to write the result."
    say_result(end, is_good=is_good)


def _show_result(plan: FilePlan, result: GCResult, frees: str, leaves: str) -> None:
    outcome = result.outcome.value if result.outcome else "done"
    say(
        f"{result.plugin_name} {frees} {number(result.tokens_freed)} tokens and {leaves} "
        f"{number(result.tokens_after)} ({percent(result.tokens_after / plan.context_limit)}); "
        f"target {number(plan.target_tokens)}: {outcome.replace('_', ' ')}"
    )
    if result.shortfall:
        held = ", ".join(f"{number(v)} {k}" for k, v in result.shortfall.held.items() if v)
        say(
            f"{number(result.shortfall.missing_tokens)} tokens above the target can't be removed; "
            f"protected tokens: {held or 'outside the conversation'}"
        )


def _show_items(plan: GCPlan) -> None:
    freed: Counter[tuple[str, str]] = Counter()
    counts: Counter[tuple[str, str]] = Counter()
    for item in plan.result.removal_list:
        freed[item.reason, item.action] += item.tokens_freed
        counts[item.reason, item.action] += max(1, len(item.message_ids))
    say_heading("By reason")
    rows = [(*key, number(counts[key]), number(tokens)) for key, tokens in freed.most_common()]
    draw(Columns(rows, ("reason", "action", "messages", "tokens"), left=(1,), drop=(2, 1)))
    say_heading("By message")
    changed = changed_messages(plan)
    headings = ("no.", "role", "action", "tokens", "content")
    draw(Columns(map(_row, changed[:FEW]), headings, flexible=4, left=(1, 2), drop=(0, 1, 2)))
    if rest := changed[FEW:]:
        tokens = sum(each.tokens for each in rest)
        say(f"and {counted(len(rest), 'smaller message')} with {number(tokens)} tokens")


def _row(changed: ChangedMessage) -> tuple[str, str, str, str, Name]:
    position, role, action, tokens, tool, about, more = changed
    content = Name("", about) if tool is None else subject_cell(tool, about, more)
    return str(position), role, action, number(tokens), content


def _show_cache(plan: FilePlan, result: GCResult, prices: Prices, model: str | None) -> None:
    cache = result.cache
    if cache is None or cache.first_changed is None:
        return
    say_heading("Prompt cache")
    cost = _cost(plan, result, prices, model)
    say(
        f"The first {number(cache.prefix_tokens)} tokens of the conversation stay cached. The "
        f"{number(cache.rewritten_tokens)} tokens from message {cache.first_changed} on are "
        f"rewritten, which costs {money(cost.rewriting)} {cost.currency} at the prices of "
        f"{cost.model}."
    )
    say(
        f"Every later request costs {money(cost.saved_per_request)} {cost.currency} less: "
        + (
            f"the collection pays off after {counted(cost.pays_after, 'request')}."
            if cost.pays_after is not None
            else "the collection never pays off."
        )
    )
    if cost.unpriced_model:
        say_no_price([cost.unpriced_model], cost.model)


def _cost(plan: FilePlan, result: GCResult, prices: Prices, model: str | None) -> CacheCost:
    return cache_cost(result, prices, given=model, recorded=plan.conversation.model)


def _data(
    plan: FilePlan, written: Path | None, prices: Prices, model: str | None
) -> dict[str, Any]:
    data: dict[str, Any] = {
        "file": str(plan.path),
        "context_limit": plan.context_limit,
        "tokens": plan.tokens,
        "target_tokens": plan.target_tokens,
        "needed": plan.plan is not None,
        "written_to": str(written) if written else None,
    }
    if plan.plan is not None:
        result = plan.plan.result
        data["result"] = dataclasses.asdict(result)
        data["result"]["tokens_freed"] = result.tokens_freed
        data["cost"] = dataclasses.asdict(_cost(plan, result, prices, model))
        data["messages"] = [each._asdict() for each in changed_messages(plan.plan)]
    return data

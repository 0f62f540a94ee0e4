"""Runs of tau-bench, and of its successor tau2, which has another format for calls."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from jaato_gc_formats._log_format import Dialogue, LogFormat
from jaato_gc_formats._logs._common import (
    answered_by,
    fields_among,
    fields_in,
    moment_of,
    objects,
    resemblance,
    text_in,
    usage_of,
)
from jaato_gc_formats._records import Record
from jaato_gc_formats._wire import Fields, compact_json


class TauBench(LogFormat):
    """Runs with Chat Completions messages. Each run is a conversation."""

    name = "tau-bench"
    summary = "tau-bench runs (JSON)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_run, like=lambda record: "traj" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for line, run in objects(records):
            if _is_run(run):
                messages = fields_among(run["traj"])
                yield _run_name(run), (Record(line, message) for message in messages)


def _is_run(record: Fields) -> bool:
    return isinstance(record.get("traj"), list) and "task_id" in record


def _run_name(run: Fields) -> str:
    return f"task {run.get('task_id')} trial {run.get('trial', 0)}"


class Tau2(LogFormat):
    """Simulations, each a conversation, without the tool calls of the simulated user."""

    name = "tau2"
    summary = "tau2-bench simulations (JSON)"

    def recognize(self, records: Sequence[Any]) -> float:
        return resemblance(records, own=_is_tau2, like=lambda record: "simulations" in record)

    def dialogues(self, records: Iterable[Record]) -> Iterator[tuple[str, Dialogue]]:
        for line, record in objects(records):
            runs = fields_among(record.get("simulations")) or [record]
            agent = fields_in(fields_in(record.get("info")).get("agent_info"))
            for run in runs:
                if "messages" in run:
                    messages = fields_among(run["messages"])
                    yield _run_name(run), _simulation(line, messages, agent.get("llm"))


def _is_tau2(record: Fields) -> bool:
    if isinstance(record.get("simulations"), list):
        return True
    return "messages" in record and "task_id" in record and "termination_reason" in record


def _simulation(line: int, messages: list[Fields], model: Any) -> Dialogue:
    yield from answered_by(model)
    for message in messages:
        role = message.get("role")
        if role == "tool":
            for result in fields_among(message.get("tool_messages")) or [message]:
                if result.get("requestor") != "user":
                    answered = {"tool_call_id": result.get("id"), "content": result.get("content")}
                    yield Record(line, {"role": "tool", **answered})
        elif role == "assistant":
            sent = message.get("usage")
            yield from usage_of(sent, ("prompt_tokens",), ("completion_tokens",))
            yield from moment_of(message.get("timestamp"))
            item: Fields = {"role": "assistant", "content": message.get("content")}
            if calls := fields_among(message.get("tool_calls")):
                item["tool_calls"] = [_call(call) for call in calls]
            yield Record(line, item)
        elif role in ("user", "system") and message.get("content"):
            yield Record(line, {"role": role, "content": message["content"]})


def _call(call: Fields) -> Fields:
    given = compact_json(fields_in(call.get("arguments")))
    function = {"name": text_in(call.get("name")), "arguments": given}
    return {"id": call.get("id"), "type": "function", "function": function}

"""An agent with Anthropic's client: removed content goes to a stash, and a sub-agent reads files.

Run it with ANTHROPIC_API_KEY in a folder with text files, and give it questions as arguments.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anthropic import Anthropic

from jaato_gc_formats import ProviderSession
from jaato_gc_stash import SqlStash

Tools = dict[str, Callable[[Any], str]]

READ_FILE = {
    "name": "read_file",
    "description": "Returns the content of a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}
RESEARCH = {
    "name": "research",
    "description": "Asks a sub-agent that reads as many files as it needs.",
    "input_schema": {"type": "object", "properties": {"question": {"type": "string"}}},
}


def read_file(arguments: Any) -> str:
    """Returns the content of a file, or a text that says why there is none."""
    try:
        return Path(arguments["path"]).read_text()
    except OSError as error:
        return str(error)


def ask(client: Anthropic, agent: ProviderSession, tools: Tools, question: str) -> str:
    """Runs one turn: requests, answers and tool calls, until the model calls no tool."""
    agent.append(question)
    while True:
        message: Any = client.messages.create(**agent.request())
        agent.answer(message)
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return "".join(block.text for block in message.content if block.type == "text")
        outputs = [(call.id, tools[call.name](call.input)) for call in calls]
        results = [{"type": "tool_result", "tool_use_id": i, "content": o} for i, o in outputs]
        agent.append({"role": "user", "content": results})


def main(questions: list[str], context_limit: int = 200_000) -> ProviderSession:
    """Answers questions in one session."""
    client = Anthropic()
    agent = ProviderSession.open(
        "anthropic",
        context_limit=context_limit,
        strategy="gc_budget",
        call={"model": "claude-sonnet-5", "max_tokens": 1_000, "system": "Be brief."},
        stash=SqlStash("stash.db"),
    )
    definition, recall = agent.recall_tool()
    agent.call["tools"] = [READ_FILE, RESEARCH, definition]

    def research(arguments: Any) -> str:
        call = {**agent.call, "system": "Report what you find.", "tools": [READ_FILE]}
        return ask(client, agent.child(call=call), {"read_file": read_file}, arguments["question"])

    tools: Tools = {"read_file": read_file, "research": research, "recall": recall}
    for question in questions:
        print(ask(client, agent, tools, question))
    return agent


if __name__ == "__main__":
    main(sys.argv[1:])

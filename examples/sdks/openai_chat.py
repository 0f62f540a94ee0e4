"""An agent with OpenAI's client and Chat Completions: a stash, the recall tool and a sub-agent.

Run it with OPENAI_API_KEY in a folder with text files, and give it questions as arguments. It works
with every OpenAI-compatible server: set OPENAI_BASE_URL.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openai import OpenAI

from jaato_gc_formats import ProviderSession
from jaato_gc_stash import SqlStash

Tools = dict[str, Callable[[Any], str]]

READ_FILE = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Returns the content of a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
    },
}
RESEARCH = {
    "type": "function",
    "function": {
        "name": "research",
        "description": "Asks a sub-agent that reads as many files as it needs.",
        "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
    },
}


def read_file(arguments: Any) -> str:
    """Returns the content of a file, or a text that says why there is none."""
    try:
        return Path(arguments["path"]).read_text()
    except OSError as error:
        return str(error)


def ask(client: OpenAI, agent: ProviderSession, tools: Tools, question: str) -> str:
    """Runs one turn: requests, answers and tool calls, until the model calls no tool."""
    agent.append(question)
    while True:
        completion: Any = client.chat.completions.create(**agent.request())
        agent.answer(completion)
        message = completion.choices[0].message
        if not message.tool_calls:
            return message.content or ""
        for call in message.tool_calls:
            output = tools[call.function.name](json.loads(call.function.arguments))
            agent.append({"role": "tool", "tool_call_id": call.id, "content": output})


def main(questions: list[str], context_limit: int = 272_000) -> ProviderSession:
    """Answers questions in one session."""
    client = OpenAI()
    agent = ProviderSession.open(
        "openai-chat",
        context_limit=context_limit,
        strategy="gc_budget",
        call={"model": "gpt-5.4"},
        stash=SqlStash("stash.db"),
    )
    definition, recall = agent.recall_tool()
    agent.call["tools"] = [READ_FILE, RESEARCH, definition]
    agent.append({"role": "developer", "content": "Be brief."})

    def research(arguments: Any) -> str:
        child = agent.child(call={**agent.call, "tools": [READ_FILE]})
        child.append({"role": "developer", "content": "Report what you find."})
        return ask(client, child, {"read_file": read_file}, arguments["question"])

    tools: Tools = {"read_file": read_file, "research": research, "recall": recall}
    for question in questions:
        print(ask(client, agent, tools, question))
    return agent


if __name__ == "__main__":
    main(sys.argv[1:])

"""An agent with OpenAI's client and the Responses API: a stash, the recall tool and a sub-agent.

Run it with OPENAI_API_KEY in a folder with text files, and give it questions as arguments.
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
    "name": "read_file",
    "description": "Returns the content of a file.",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
}
RESEARCH = {
    "type": "function",
    "name": "research",
    "description": "Asks a sub-agent that reads as many files as it needs.",
    "parameters": {"type": "object", "properties": {"question": {"type": "string"}}},
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
        response: Any = client.responses.create(**agent.request())
        agent.answer(response)
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return str(response.output_text)
        for call in calls:
            output = tools[call.name](json.loads(call.arguments))
            result = {"type": "function_call_output", "call_id": call.call_id, "output": output}
            agent.append(result)


def main(questions: list[str], context_limit: int = 272_000) -> ProviderSession:
    """Answers questions in one session."""
    client = OpenAI()
    agent = ProviderSession.open(
        "openai-responses",
        context_limit=context_limit,
        strategy="gc_budget",
        call={
            "model": "gpt-5.4",
            "instructions": "Be brief.",
            "store": False,  # keep the history on this side; the model's reasoning is encrypted
            "include": ["reasoning.encrypted_content"],
        },
        stash=SqlStash("stash.db"),
    )
    definition, recall = agent.recall_tool()
    agent.call["tools"] = [READ_FILE, RESEARCH, definition]

    def research(arguments: Any) -> str:
        call = {**agent.call, "instructions": "Report what you find.", "tools": [READ_FILE]}
        return ask(client, agent.child(call=call), {"read_file": read_file}, arguments["question"])

    tools: Tools = {"read_file": read_file, "research": research, "recall": recall}
    for question in questions:
        print(ask(client, agent, tools, question))
    return agent


if __name__ == "__main__":
    main(sys.argv[1:])

"""An agent with Google's client: removed content goes to a stash, and a sub-agent reads files.

Run it with GOOGLE_API_KEY in a folder with text files, and give it questions as arguments.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from google import genai
from google.genai import types

from jaato_gc_formats import ProviderSession
from jaato_gc_stash import SqlStash

Tools = dict[str, Callable[[Any], str]]

READ_FILE = {
    "name": "read_file",
    "description": "Returns the content of a file.",
    "parameters_json_schema": {"type": "object", "properties": {"path": {"type": "string"}}},
}
RESEARCH = {
    "name": "research",
    "description": "Asks a sub-agent that reads as many files as it needs.",
    "parameters_json_schema": {"type": "object", "properties": {"question": {"type": "string"}}},
}


def read_file(arguments: Any) -> str:
    """Returns the content of a file, or a text that says why there is none."""
    try:
        return Path(arguments["path"]).read_text()
    except OSError as error:
        return str(error)


def ask(client: genai.Client, agent: ProviderSession, tools: Tools, question: str) -> str:
    """Runs one turn: requests, answers and tool calls, until the model calls no tool."""
    agent.append(question)
    while True:
        response: Any = client.models.generate_content(**agent.request())
        agent.answer(response)
        if not response.function_calls:
            return response.text or ""
        parts = []
        for call in response.function_calls:
            result = types.FunctionResponse(
                id=call.id, name=call.name, response={"output": tools[call.name](call.args)}
            )
            parts.append(types.Part(function_response=result))
        agent.append(types.Content(role="user", parts=parts))


def main(questions: list[str], context_limit: int = 1_048_576) -> ProviderSession:
    """Answers questions in one session."""
    client = genai.Client()
    model = "gemini-3-pro-preview"
    agent = ProviderSession.open(
        "gemini",
        context_limit=context_limit,
        strategy="gc_budget",
        call={"model": model},
        stash=SqlStash("stash.db"),
    )
    definition, recall = agent.recall_tool()
    agent.call["config"] = {
        "system_instruction": "Be brief.",
        "tools": [{"function_declarations": [READ_FILE, RESEARCH, definition]}],
    }

    def research(arguments: Any) -> str:
        config = {
            "system_instruction": "Report what you find.",
            "tools": [{"function_declarations": [READ_FILE]}],
        }
        child = agent.child(call={"model": model, "config": config})
        return ask(client, child, {"read_file": read_file}, arguments["question"])

    tools: Tools = {"read_file": read_file, "research": research, "recall": recall}
    for question in questions:
        print(ask(client, agent, tools, question))
    return agent


if __name__ == "__main__":
    main(sys.argv[1:])

"""An agent of sixty turns in a window of 8,000 tokens: usage per turn, and each collection.

The model and its one tool are pretended, so this needs no account and no network.
"""

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCSession,
    Message,
    Part,
    Role,
    UsageReport,
    count_tokens,
    load_gc_plugin,
)

WINDOW = 8_000
TURNS = 60


def model(request: list[Message]) -> tuple[Message, UsageReport]:
    """Read a file first, then answer."""
    if request[-1].role is Role.USER:
        call = FunctionCall("call_1", "read_file", {"path": f"src/module_{len(request)}.py"})
        answer = Message(Role.MODEL, [Part(function_call=call)])
    else:
        answer = Message.from_text(Role.MODEL, "I have read it, and it looks fine.")
    return answer, UsageReport(input_tokens=count_tokens(request))


def read_file(call: FunctionCall) -> str:
    """Return some lines that look like a source file."""
    lines = 10 + sum(map(ord, call.args["path"])) % 60
    return "\n".join(f"value_{line} = compute({line}, retries=3)" for line in range(lines))


def main() -> None:
    """Run the agent and show what happens."""
    session = GCSession(model, tools=read_file, context_limit=WINDOW)
    session.append(Message.from_text(Role.SYSTEM, "You are a careful reviewer."))
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig(preserve_recent_turns=3))
    for turn in range(1, TURNS + 1):
        collected = len(session.get_gc_history())
        session.send_message(f"Please review module {turn}.")
        for result in session.get_gc_history()[collected:]:
            what = ", ".join(sorted({item.reason for item in result.removal_list}))
            print(
                f"         collected: {result.tokens_freed} tokens freed ({what}),"
                f" {result.trigger_reason} -> {result.outcome}"
            )
        percent = session.get_context_usage()["percent_used"]
        print(f"turn {turn:3} {percent:5.1f} % {'#' * round(percent / 2)}")


if __name__ == "__main__":
    main()

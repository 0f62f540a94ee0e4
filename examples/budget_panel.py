"""An agent of twelve turns that prints its budget after each turn, and what collections freed.

The model and its one tool are pretended, so this needs no account and no network.
"""

from rich.console import Console

from jaato_gc import (
    FunctionCall,
    GCConfig,
    GCPolicy,
    GCSession,
    InstructionSource,
    Message,
    Part,
    Role,
    load_gc_plugin,
)
from jaato_gc_lab import BudgetPanel

WINDOW = 8_000
TURNS = 12


def model(request: list[Message]) -> Message:
    """Read a file first, then answer."""
    if request[-1].role is Role.USER:
        call = FunctionCall("call_1", "read_file", {"path": f"src/module_{len(request)}.py"})
        return Message(Role.MODEL, [Part(function_call=call)])
    return Message.from_text(Role.MODEL, "I have read it, and it looks fine.")


def read_file(call: FunctionCall) -> str:
    """Return some lines that look like a source file."""
    lines = 30 + sum(map(ord, call.args["path"])) % 60
    return "\n".join(f"value_{line} = compute({line}, retries=3)" for line in range(lines))


def main() -> None:
    """Run the agent and print the panel after each turn."""
    console = Console()
    session = GCSession(model, tools=read_file, context_limit=WINDOW)
    session.append(Message.from_text(Role.SYSTEM, "You are a careful reviewer."))
    session.budget.add_child(InstructionSource.PLUGIN, "read_file", 120, GCPolicy.LOCKED)
    session.set_gc_plugin(load_gc_plugin("gc_budget"), GCConfig(preserve_recent_turns=3))
    for turn in range(1, TURNS + 1):
        session.send_message(f"Please review module {turn}.")
        collections = session.get_gc_history()
        console.print(
            BudgetPanel(
                session.budget.snapshot(),
                config=session.config,
                collected=collections[-1] if collections else None,
                children=2,
            )
        )
        console.print()


if __name__ == "__main__":
    main()

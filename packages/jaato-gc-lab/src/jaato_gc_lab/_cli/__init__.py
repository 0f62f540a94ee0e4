"""The ``jaato-gc`` command. Each of its commands is loaded when it is called, and no sooner."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from jaato_gc_lab._cli._exits import Exit, explained, let_go_of_stdout, pass_on_warnings
from jaato_gc_lab._version import __version__

COMMANDS = {
    "demo": "See it work, on a sample run: every strategy, the table, the page.",
    "inspect": "Show what fills a context, and what is wrong with it.",
    "collect": "Make a recorded context smaller: first the plan, then the file.",
    "replay": "Play recorded runs again under one strategy.",
    "compare": "Play recorded runs again under many strategies, and rank them.",
    "report": "Make the page with all charts, from runs or from a comparison.",
    "check": "Hold recorded runs to limits, for CI.",
    "plugins": "List the installed strategies and formats.",
    "config": "Show or validate a configuration, and where each value is from.",
}
"""The commands, in the order of their help, with a line on each."""

HELP = """Garbage collection for the context window of LLM agents: see your context, replay
recorded runs under every strategy, compare them, and hold them to limits in CI.

Everything runs on this machine: no model is called, nothing is sent anywhere. Files may be the
logs of agents, or requests as the APIs of providers take them; the format is found out.

\b
Examples:
  jaato-gc demo
  jaato-gc inspect session.jsonl
  jaato-gc compare logs/ --limits 32k,128k --report report.html
  jaato-gc COMMAND --help
"""


class Commands(click.Group):
    """The commands; whatever goes wrong ends in one line and an exit code, never in a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"jaato_gc_lab._cli.{cmd_name}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in COMMANDS:
            raise click.UsageError(_unknown(name), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; that nobody reads its output any more is no fault."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            let_go_of_stdout()
            return Exit.BROKEN_PIPE

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Run a command and exit with its code."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="replace")  # what a terminal can't show stops nobody
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except Exception as error:
            given = sys.argv if args is None else args
            code = explained(error, with_traceback="--traceback" in given)
        sys.exit(int(code) if isinstance(code, int) else Exit.OK)


def _unknown(name: str) -> str:
    import difflib  # here, because it is needed for mistakes alone

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(COMMANDS)}"
    return f"there is no command {name!r}: {hint}"


@click.group(
    "jaato-gc",
    cls=Commands,
    help=HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="jaato-gc", message="%(prog)s %(version)s")
@click.option("--traceback", is_flag=True, help="Show where an error comes from.")
@click.pass_context
def cli(ctx: click.Context, traceback: bool) -> None:  # noqa: ARG001
    """Run a command; without one, tell which there are."""
    pass_on_warnings()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """The entry point of the command."""
    # Being told to end is as good as Ctrl-C: nothing is left half-written, no worker behind.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cli.main(prog_name="jaato-gc")

"""The ``jaato-gc`` command. Each subcommand is imported when it is called."""

import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, NoReturn

import click

from jaato_gc_lab._cli._exits import Exit, detach_stdout, print_exception, show_warnings
from jaato_gc_lab._version import __version__

COMMANDS = {
    "demo": "Compare all strategies on a sample run and write the report.",
    "inspect": "Show what fills a context, and validate it.",
    "collect": "Collect a recorded context: show the plan or write the result.",
    "replay": "Replay recorded runs with one strategy.",
    "compare": "Replay recorded runs with several strategies and rank them.",
    "report": "Write the HTML report with all charts.",
    "check": "Check recorded runs against limits, for CI.",
    "plugins": "List the installed strategies, formats and summarizers.",
    "new-plugin": "Create a repository for your own strategy.",
    "config": "Show or validate a configuration.",
}
"""Help text of each command, in display order."""

HELP = """Garbage collection for the context windows of LLM agents: inspect a context, replay
recorded runs with every strategy, compare the results, and check them against limits in CI.

Everything runs locally: no model is called and no data is sent. Input files are logs of agents or
requests to the APIs of providers; the format is detected.

\b
Examples:
  jaato-gc demo
  jaato-gc inspect session.jsonl
  jaato-gc compare logs/ --context-limit 32k,128k --report report.html
  jaato-gc COMMAND --help
"""


class Commands(click.Group):
    """The command group. Every error is printed as one line and sets the exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"jaato_gc_lab._cli.{cmd_name.replace('-', '_')}")
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
            raise click.UsageError(_unknown_command(name), ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs a command. A closed output pipe ends it without an error message."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            detach_stdout()
            return Exit.BROKEN_PIPE

    def main(  # type: ignore[override]
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        """Runs a command and exits with its code."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                # A character that the terminal can't show must not stop the command.
                stream.reconfigure(errors="replace")
        try:
            code = super().main(args, prog_name, standalone_mode=False, **extra)
        except Exception as error:
            given = sys.argv if args is None else args
            code = print_exception(error, with_traceback="--traceback" in given)
        sys.exit(int(code) if isinstance(code, int) else Exit.OK)


def _unknown_command(name: str) -> str:
    import difflib  # imported here because it is needed for errors only

    near = difflib.get_close_matches(name, COMMANDS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"expected one of {', '.join(COMMANDS)}"
    return f"unknown command {name!r}: {hint}"


@click.group(
    "jaato-gc",
    cls=Commands,
    help=HELP,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(__version__, prog_name="jaato-gc", message="%(prog)s %(version)s")
@click.option("--traceback", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, traceback: bool) -> None:  # noqa: ARG001
    """Prints the help if no command is given."""
    show_warnings()
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main() -> None:
    """Runs the command; the entry point of the distribution."""
    # SIGTERM is handled like Ctrl-C, which removes temporary files and ends the workers.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    cli.main(prog_name="jaato-gc")

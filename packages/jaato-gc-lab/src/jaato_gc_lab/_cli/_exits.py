"""How a command ends: its exit code, and one line for whatever went wrong."""

import logging
import os
import sys
from enum import IntEnum

import click

from jaato_gc_lab._cli._text import clean


class Exit(IntEnum):
    """Exit codes of the command."""

    OK = 0
    """All went well; what was checked holds."""
    DOES_NOT_HOLD = 1
    """What was checked does not hold: a limit, a configuration; or a collection failed."""
    BAD_INPUT = 2
    """The command can't be run like this: an option, a file, a plugin."""
    INTERNAL = 70
    """A fault of jaato-gc itself."""
    INTERRUPTED = 130
    """Ctrl-C."""
    BROKEN_PIPE = 141
    """Whoever read the output has stopped reading."""


def explained(error: Exception, *, with_traceback: bool = False) -> Exit:
    """Say what went wrong, in one line on stderr, and with which code to exit."""
    if isinstance(error, click.Abort):
        complain("interrupted; nothing was left half-written")
        return Exit.INTERRUPTED
    if with_traceback:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.ClickException):
        complain(_usage(error))
        return Exit.BAD_INPUT
    from jaato_gc import GCError  # not before something went wrong

    if isinstance(error, GCError):
        complain(_in_options(str(error)))
        return Exit.BAD_INPUT
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        complain(f"{name}{error.strerror or error}")
        return Exit.BAD_INPUT
    complain(
        f"a fault of jaato-gc itself: {type(error).__name__}: {error} (please report it, with what "
        "'jaato-gc --traceback …' shows)"
    )
    return Exit.INTERNAL


def complain(message: str) -> None:
    """One line on stderr, whatever is in it."""
    click.echo(f"jaato-gc: {clean(message)}", err=True)


class _Warnings(logging.Handler):
    """What core has to say while a command runs: one line each, without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        complain(record.getMessage())


def pass_on_warnings() -> None:
    """Show core's warnings as the command's own."""
    logger = logging.getLogger("jaato_gc")
    if not any(isinstance(handler, _Warnings) for handler in logger.handlers):
        logger.addHandler(_Warnings(logging.WARNING))


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    return f"{message[:1].lower()}{message[1:]} (see {context.command_path} --help)"


def _in_options(message: str) -> str:
    """Remedies as they are spelt on a command line."""
    return message.replace("load with repair=True", "give --repair").replace(
        "repair=True", "--repair"
    )


def let_go_of_stdout() -> None:
    """Write what is left to nowhere: the interpreter would try to flush it at its end."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return

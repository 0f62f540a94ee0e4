"""Exit codes and error messages of the command."""

import logging
import os
import sys
from enum import IntEnum

import click

from jaato_gc_lab._cli._inputs import with_stream_names
from jaato_gc_lab._text import clean


class Exit(IntEnum):
    """Exit codes of the command."""

    OK = 0
    """The command succeeded, and all checks passed."""
    CHECK_FAILED = 1
    """A limit is exceeded, a configuration is invalid, or a collection failed."""
    BAD_INPUT = 2
    """An option, a file or a plugin is invalid."""
    INTERNAL = 70
    """An internal error occurred in jaato-gc."""
    INTERRUPTED = 130
    """The command was interrupted with Ctrl-C."""
    BROKEN_PIPE = 141
    """The reader of the output closed the pipe."""


def print_exception(error: Exception, *, with_traceback: bool = False) -> Exit:
    """Prints an error as one line on stderr and returns the exit code."""
    if isinstance(error, click.Abort):
        print_error("interrupted; no incomplete files were left")
        return Exit.INTERRUPTED
    if with_traceback:
        import traceback

        traceback.print_exception(error)
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return Exit.BAD_INPUT
    if isinstance(error, click.ClickException):
        print_error(_usage(error))
        return Exit.BAD_INPUT
    from jaato_gc import GCError

    if isinstance(error, GCError):
        print_error(_with_options(str(error)))
        return Exit.BAD_INPUT
    if isinstance(error, OSError):
        name = f"{error.filename}: " if error.filename else ""
        print_error(f"{name}{error.strerror or error}")
        return Exit.BAD_INPUT
    print_error(
        f"internal error: {type(error).__name__}: {error} (please report it with the output of "
        "'jaato-gc --traceback …')"
    )
    return Exit.INTERNAL


def print_error(message: str) -> None:
    """Prints a message as one line on stderr, without control characters."""
    click.echo(f"jaato-gc: {clean(with_stream_names(message))}", err=True)


class _Warnings(logging.Handler):
    """Prints the warnings of core as one line each, without tracebacks."""

    def emit(self, record: logging.LogRecord) -> None:
        print_error(record.getMessage())


def show_warnings() -> None:
    """Prints the warnings of core on stderr."""
    logger = logging.getLogger("jaato_gc")
    if not any(isinstance(handler, _Warnings) for handler in logger.handlers):
        logger.addHandler(_Warnings(logging.WARNING))


def _usage(error: click.ClickException) -> str:
    message = error.format_message().rstrip(".")
    context = getattr(error, "ctx", None)
    if context is None:
        return message
    return f"{message[:1].lower()}{message[1:]} (see {context.command_path} --help)"


def _with_options(message: str) -> str:
    """Replaces Python arguments in a message with the options of the command."""
    return message.replace("load with repair=True", "use --repair").replace(
        "repair=True", "--repair"
    )


def detach_stdout() -> None:
    """Redirects stdout to the null device, because the interpreter flushes it at exit."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return

"""How the command line says that something is wrong: one line on stderr, and the status that goes with it.

125  the sidecar's own usage error, or any SidecarError (as `timeout`, `env` and `docker run` do)
130  interrupted by Ctrl-C, quietly
141  the reader of our output has gone, quietly (as any program that SIGPIPE ends)
"""

import os
import sys

import click

from sidecar.core.values import printable

EXIT_USAGE = 125
EXIT_INTERRUPTED = 130
EXIT_BROKEN_PIPE = 141


def usage_text(error: click.ClickException) -> str:
    """What click complains about, in our form: one line that says where to read on."""
    text = printable(error.format_message().strip().rstrip("."))
    text = text[:1].lower() + text[1:]
    context = getattr(error, "ctx", None)
    return text if context is None else f"{text} (see `{context.command_path} --help`)"


def complain(text: str) -> None:
    """One line on stderr, whatever is in the text; silent if stderr is gone."""
    try:
        sys.stderr.write(f"sidecar: {printable(text)}\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        _to_nowhere(2)


def unwritable_text(error: OSError) -> str:
    """For an OSError that no verb has an answer to: nearly always our own output cannot be written."""
    reason = error.strerror or str(error) or type(error).__name__
    return f"cannot write the output: {reason}" if error.filename is None else f"{error.filename}: {reason}"


def drop_stdout() -> None:
    """It cannot be written to: what is still buffered goes nowhere, and the exit does not complain again."""
    _to_nowhere(1)


def _to_nowhere(descriptor: int) -> None:
    try:
        null = os.open(os.devnull, os.O_WRONLY)
    except OSError:
        return
    if null != descriptor:
        os.dup2(null, descriptor)
        os.close(null)

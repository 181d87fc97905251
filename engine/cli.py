"""`phasescope`: the same specs, keys and results as the pages, from a terminal.

Exit codes: 0 done, 1 gate not met, 2 bad input, 3 run failed.  Knows how errors are told; the
commands are in `engine.commands`.  Imports nothing heavy: `--help` is quick.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys

import typer

from engine.commands import compare, gate, look, processes, sweeps, training

app = typer.Typer(
    name="phasescope",
    help="Shows at which phases a compressed KV cache forgets.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for commands in (processes, sweeps, compare, gate, training, look):
    commands.add_to(app)

BAD_INPUT, FAILED = 2, 3


def main() -> None:
    """The console script: every error ends as sentences on stderr and an exit code."""
    # Being told to end is an end like Ctrl-C: jobs are cancelled, and the worker ends with us.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except BrokenPipeError:
        # The reader (head, less) has gone; Python would complain again when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        sys.exit(tell(error))


def tell(error: Exception) -> int:
    """Say what went wrong on stderr; returns the exit code."""
    from engine.client import NotFound, ServiceFailed, Unavailable
    from engine.commands.printing import say
    from engine.registry import SpecError
    from engine.store.schema import StoreError

    if isinstance(error, SpecError):
        for field, message in error.errors:
            say(f"{field}: {message}" if field else message)
        return BAD_INPUT
    if isinstance(error, NotFound):
        say(str(error))
        return BAD_INPUT
    if isinstance(error, StoreError | Unavailable | ServiceFailed):
        say(str(error))
        return FAILED
    if isinstance(error, OSError) and error.strerror:  # a full disk, a folder that is not ours
        where = f"{error.filename}: " if error.filename else ""
        say(f"{where}{error.strerror}")
        return FAILED
    import logging

    from engine.serving import open_log

    with contextlib.suppress(OSError):
        open_log()
        logging.getLogger("phasescope").error("the command line failed", exc_info=error)
    say(f"something went wrong ({type(error).__name__}: {error}); service.log has more")
    return FAILED

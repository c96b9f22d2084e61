"""Entry point of `peloton`: every failure becomes one line and an exit code (`peloton.cli.exit_codes`).

Where the reader of the output went away, the command ends with 1 quietly.
"""

from __future__ import annotations

import errno
import os
import sys

from peloton.cli.exit_codes import INTERRUPTED, REFUSED, code_of

_OUTPUT_ERRORS = (errno.EPIPE, errno.ENOSPC)
"""Errors of the output itself: nobody reads it, or the disk is full."""
CALLBACK_SECONDS = 0.01
"""In which a callback has returned."""


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    try:
        if argv is None:
            sys.unraisablehook = _interrupted_again
        # gRPC's C core would add lines of its own about failed connections.
        os.environ.setdefault("GRPC_VERBOSITY", "NONE")
        if "PELOTON_TOKEN_FILE" in os.environ or "PELOTON_CA_FILE" in os.environ:
            from peloton.client.task_identity import own_variables

            os.environ.update(own_variables(os.environ))
        code = _run(sys.argv[1:] if argv is None else argv)
        sys.stdout.flush()
        return code
    except KeyboardInterrupt:
        return INTERRUPTED
    except OSError as error:
        # What is left in the buffer cannot be written either: the interpreter's last flush must not complain.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            print(f"peloton: standard output: {error.strerror}", file=sys.stderr)
        return REFUSED


def _interrupted_again(event: sys.UnraisableHookArgs) -> None:
    """Interrupt the main thread again where Ctrl-C came in a callback, which cannot raise it."""
    if event.exc_type is not KeyboardInterrupt:
        sys.__unraisablehook__(event)
        return
    import signal
    from threading import Timer

    again = Timer(CALLBACK_SECONDS, os.kill, (os.getpid(), signal.SIGINT))
    again.daemon = True
    again.start()


def _run(arguments: list[str]) -> int:
    import click

    from peloton.cli.app import cli
    from peloton.errors import PelotonError

    try:
        result = cli.main(args=arguments, prog_name="peloton", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.Abort as stop:
        if isinstance(stop.__cause__, KeyboardInterrupt):
            return INTERRUPTED
        click.echo("Aborted.", err=True)
        return REFUSED
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except PelotonError as error:
        return _failed(error, arguments)
    except Exception as error:
        if isinstance(error.__cause__, KeyboardInterrupt):  # as Python 3.11 wraps it within a class's body
            return INTERRUPTED
        if isinstance(error, OSError) and not error.filename and error.errno in _OUTPUT_ERRORS:
            raise
        if isinstance(error, OSError) and error.filename:  # may not be read or written, the disk is full
            return _failed(error, arguments, text=f"{error.filename}: {error.strerror}")
        return _failed(error, arguments, f"{type(error).__name__}: ")


def _failed(error: Exception, arguments: list[str], kind: str = "", text: str = "") -> int:
    import click

    if "--debug" in arguments:
        raise error
    click.echo(f"peloton: {kind}{' '.join((text or str(error)).split())}", err=True)
    if kind:
        click.echo("peloton: this is a defect of the command line: --debug shows where", err=True)
    return code_of(error)


if __name__ == "__main__":
    sys.exit(main())

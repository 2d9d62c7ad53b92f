"""The edge of the program: the only package that reads arguments, jits, looks at the clock, prints.

One contract for every command: bad input ends with the last line on standard
error `jaxagent: error: ...`, saying what must hold and what was given, with
exit status 2, no traceback, and nothing written.
"""

import contextlib
import io
import sys
from collections.abc import Callable, Sequence
from itertools import dropwhile, takewhile
from typing import Any, NoReturn

from jaxagent import __version__

DONE, BAD_INPUT, INTERRUPTED = 0, 2, 130


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command and exit with its status."""
    try:
        sys.exit(_run(sys.argv[1:] if argv is None else argv))
    except OSError as error:
        _fail(str(error))
    except ValueError as error:
        if not _is_ours(error):
            raise
        _fail(str(error))
    except KeyboardInterrupt:
        print("jaxagent: interrupted; nothing was written", file=sys.stderr)
        sys.exit(INTERRUPTED)


def _run(argv: Sequence[str]) -> int:
    if list(argv) == ["--version"]:
        print(f"jaxagent {__version__}")
        return DONE

    from jaxagent.cli import replay, train

    commands: dict[str, Callable[..., Any]] = {"train": train.Train, "replay": replay.Replay}
    return _parsed(commands, argv).run()


def _parsed(commands: dict[str, Callable[..., Any]], argv: Sequence[str]):
    """The command with its options. The parser's own errors end with our one line."""
    import tyro

    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            return tyro.extras.subcommand_cli_from_dict(
                commands, args=list(argv), prog="jaxagent", config=(tyro.conf.FlagConversionOff,)
            )
    except SystemExit as stop:
        if stop.code:
            print(said.getvalue(), file=sys.stderr)
            _fail(_gist(said.getvalue()))
        raise


def _gist(box: str) -> str:
    """The message in a parser's box, drawn in Unicode or ASCII: between its title and a rule."""
    inside = [line.strip("│| ") for line in box.splitlines()]
    below_title = [line for line in inside if line][1:]
    is_rule = lambda line: set(line) <= set("-─")
    message = dropwhile(is_rule, below_title)
    return " ".join(takewhile(lambda line: not is_rule(line), message))


def _is_ours(error: ValueError) -> bool:
    """Whether this package raised it, so that it speaks of the input; else it is a bug: show it."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return trace is not None and trace.tb_frame.f_globals["__name__"].startswith("jaxagent.")


def _fail(message: str) -> NoReturn:
    print(f"jaxagent: error: {' '.join(message.split())}", file=sys.stderr)
    sys.exit(BAD_INPUT)

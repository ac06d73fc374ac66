"""The command ``trainyard``. Exit codes: 0 done, 1 failed, 2 a bad spec or command line, 3 no server or no token."""

import argparse
import os
import sys
from collections.abc import Sequence
from functools import partial

from trainyard.cli import programs
from trainyard.cli.beside import split_command
from trainyard.cli.parser import build_parser
from trainyard.cli.screen import Screen
from trainyard.cli.sweeping import with_start
from trainyard.rest.client import Client
from trainyard.rest.config import NotConfigured, load, renewed_token
from trainyard.rest.connection import ApiError, Unreachable
from trainyard.spec import SpecError

FAILED, BAD_REQUEST, NO_SERVER, INTERRUPTED = 1, 2, 3, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line ``argv`` and return its exit code; the programs of the house replace this process."""
    words = list(sys.argv[1:] if argv is None else argv)
    if words and words[0] in programs.PROGRAMS:
        return programs.become(words[0], words[1:])
    words, command = split_command(words)
    parser = build_parser()
    if "_ARGCOMPLETE" in os.environ:
        from trainyard.cli.completing import complete  # no other command waits for its import

        complete(parser)
    arguments = parser.parse_args(with_start(words), argparse.Namespace(words=command))
    screen = Screen()
    try:
        if getattr(arguments, "is_local", False):  # it needs no server
            return int(arguments.run(None, arguments, screen) or 0)
        config = load()
        with Client(config.url, config.token, renew=partial(renewed_token, *config)) as client:
            return int(arguments.run(client, arguments, screen) or 0)
    except SpecError as error:
        for problem in error.errors:
            screen.complain(str(problem))
        return BAD_REQUEST
    except BrokenPipeError:  # `trainyard runs | head`: whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        screen.complain(str(error))
        return FAILED
    except ApiError as error:
        for sentence in [str(problem) for problem in error.errors] or [error.detail]:
            screen.complain(sentence)
        if error.status == 401:
            return NO_SERVER
        return BAD_REQUEST if error.status in (400, 422) else FAILED
    except (NotConfigured, Unreachable) as error:
        screen.complain(str(error))
        return NO_SERVER
    except KeyboardInterrupt:
        return INTERRUPTED

"""The command ``shadow``: a program whose numbers for other tools come to Trainyard too."""

import argparse
import os
import shutil

from trainyard.cli.screen import Screen
from trainyard.shadow import variables

NOT_FOUND = 127


def shadow(_: object, arguments: argparse.Namespace, screen: Screen) -> int:
    """Become the program. Returns only where it cannot be started."""
    words = arguments.words
    if not words:
        screen.complain("shadow: a command behind -- is missing, such as: trainyard shadow -- python train.py")
        return 2
    environment = variables(os.environ.get("PYTHONPATH"), only=arguments.only, project=arguments.project)
    if shutil.which(words[0]) is None:
        screen.complain(f"shadow: there is no program {words[0]}")
        return NOT_FOUND
    os.execvpe(words[0], words, {**os.environ, **environment})

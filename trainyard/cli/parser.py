"""The words of the command line and the function behind each command."""

import argparse
from typing import Any

from trainyard import __version__
from trainyard.cli import acting, beside, datasets, files, following, importing, launching, programs, reading, sweeping
from trainyard.cli.commands import command, group, speaks_json, takes_overrides
from trainyard.cli.pipelines import ci
from trainyard.cli.security import add_security
from trainyard.cli.verbs import add_verbs

LEVELS = ("error", "warning", "info", "debug", "none")


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="trainyard",
        description="Launch, watch and repair distributed PyTorch training.",
        epilog="Exit codes: 0 done, 1 failed, 2 a bad spec or command line, 3 no server or no token.",
    )
    parser.add_argument("--version", action="version", version=f"trainyard {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, sentence) in programs.PROGRAMS.items():
        commands.add_parser(name, help=sentence, add_help=False)
    _add_launching(commands)
    _add_syncing(commands)
    _add_other_tools(commands)
    _add_reading(commands)
    _add_datasets(commands)
    sweeping.add_sweeps(commands)
    _add_acting(commands)
    add_verbs(commands)
    return parser


def _add_launching(commands: Any) -> None:
    sentence = "launch the spec in FILE and print the run's id"
    start = command(commands, "submit", launching.submit, sentence, _takes_overrides, _may_wait)
    start.add_argument(
        "file", metavar="FILE", help="a spec in YAML or JSON, or a program to run; - reads a spec from standard input"
    )
    start.add_argument("--git", action="store_true", help="send the code as its Git remote, commit and changes over it")
    sentence = "say what the spec in FILE would cost, and what would cost less"
    plan = command(commands, "plan", reading.plan, sentence, _takes_overrides, speaks_json)
    plan.add_argument("file", metavar="FILE", help="a spec in YAML or JSON; - reads it from the standard input")
    plan.add_argument("--count", type=_not_negative, default=3, metavar="N", help="proposals, at most (default: 3)")
    sentence = "launch a run's spec again as a new run and print its id"
    command(commands, "clone", launching.clone, sentence, _takes_run, _takes_overrides, _may_wait)
    sentence = "go on from a run's checkpoint as a new run; print its id"
    go_on = command(commands, "continue", launching.go_on, sentence, _takes_run, _takes_overrides, _may_wait)
    go_on.add_argument("--step", type=_not_negative, metavar="N", help="the checkpoint's step (default: the newest)")
    command(commands, "restart", launching.restart, "start an ended run again", _takes_run, _may_wait)
    sentence = "train a change with several seeds and compare it with a baseline; exit 0 only if it is not worse"
    pipeline = command(commands, "ci", ci, sentence)
    pipeline.add_argument("file", metavar="FILE", help="what to train and what to compare, in YAML or JSON")
    pipeline.add_argument("--branch", default="", help="whose runs they are (default: the pipeline's, else Git's)")
    pipeline.add_argument("--junit", metavar="PATH", help="write a report in JUnit's XML")
    pipeline.add_argument("--markdown", metavar="PATH", help="write the report that is printed, in Markdown")
    sentence = "wait for the end of a run; exit 0 only if it succeeded"
    wait = command(commands, "wait", launching.wait, sentence, _takes_run, speaks_json)
    wait.add_argument("--timeout", type=float, metavar="SECONDS", help="give up (exit 1) after so long")


def _add_syncing(commands: Any) -> None:
    sentence = "send what was logged outside of Trainyard, once"
    sync = command(commands, "sync", importing.sync_folder, sentence, speaks_json)
    sync.add_argument(
        "folder", nargs="?", default="trainyard-spool", metavar="DIR", help="where it lies (default: trainyard-spool)"
    )
    sync.add_argument("--project", help="whose runs they become (default: default, or where they were sent before)")
    sync.add_argument("--follow", "-f", action="store_true", help="go on until each of them has ended")
    sync.add_argument("--again", action="store_true", help="send those anew that were deleted on the server")
    importing.add_tools(group(commands, "import", "import runs of other tools", "TOOL"))


def _add_other_tools(commands: Any) -> None:
    shadow = command(commands, "shadow", programs.shadow, "run a program, and mirror what it logs: -- COMMAND...")
    shadow.set_defaults(is_local=True)
    shadow.add_argument("--only", action="store_true", help="the other tools send and write nothing themselves")
    shadow.add_argument("--project", help="whose run it becomes (default: default)")
    script = command(commands, "completion", programs.completion, "print what a shell reads to complete our commands")
    script.set_defaults(is_local=True)
    script.add_argument("shell", choices=["bash", "zsh", "fish"])
    tools = group(commands, "export", "runs for other tools", "TOOL")
    sentence = "write runs as TensorBoard's event files"
    files = command(tools, "tensorboard", importing.export_tensorboard, sentence, speaks_json)
    files.add_argument("folder", metavar="FOLDER", help="each run becomes a folder below it")
    files.add_argument("ids", nargs="+", metavar="ID", help="a run's id")


def _add_reading(commands: Any) -> None:
    runs = command(commands, "runs", reading.runs, "list runs, the newest first", speaks_json)
    runs.add_argument("--status", help="only these, such as RUNNING,QUEUED")
    runs.add_argument("--project", help="only runs of this project")
    runs.add_argument("--tag", help="only runs with this tag")
    runs.add_argument("--q", metavar="TEXT", help="only runs whose name or id has this text")
    runs.add_argument("--filter", metavar="TEXT", help="only runs that fit, such as 'train.learning_rate < 0.01'")
    runs.add_argument("--sort", metavar="FIELD", default="-created_at", help="the order; - is downwards")
    runs.add_argument("--archived", action="store_true", help="those that were archived")
    runs.add_argument("--limit", type=_positive, default=50, metavar="N", help="at most so many (default: 50)")
    sentence = "show a run: status and why, progress, lamps, metrics"
    command(commands, "show", reading.show, sentence, _takes_run, speaks_json)
    lines = command(commands, "logs", following.logs, "print what the ranks of a run wrote", _takes_run, speaks_json)
    how = lines.add_mutually_exclusive_group()
    how.add_argument("--follow", "-f", action="store_true", help="go on until the run ends")
    how.add_argument("--grep", metavar="PATTERN", help="only lines that fit this regular expression (RE2), in any case")
    how.add_argument("--label", metavar="NAME", help="only lines that fit the rules with this label")
    lines.add_argument("--level", choices=LEVELS, action="append", help="only lines of this level; may be repeated")
    lines.add_argument("--rank", type=_not_negative, metavar="N", help="only this rank")
    sentence = "list a run's metrics, or print the points of one"
    numbers = command(commands, "metrics", following.metrics, sentence, _takes_run, speaks_json)
    numbers.add_argument("name", nargs="?", metavar="NAME", help="the metric whose points to print")
    numbers.add_argument("--csv", action="store_true", help="every point as CSV; without NAME, of all metrics")
    sentence = "list what a run left in its output folder"
    left = command(commands, "files", files.files, sentence, _takes_run, speaks_json)
    left.add_argument("--send", action="store_true", help="have nodes send what waits in their working folders")
    sentence = "bring files of a run here, and print the folder"
    bring = command(commands, "download", files.download, sentence, _takes_run)
    bring.add_argument("paths", nargs="*", metavar="PATH", help="a file, a folder, or a pattern; all without one")
    bring.add_argument("--to", metavar="DIR", help="where they go (default: a folder called as the run's id)")


def _add_datasets(commands: Any) -> None:
    verbs = group(commands, "dataset", "data by name")
    add = command(verbs, "add", datasets.add, "name data, have a node look at it, and print its id")
    add.add_argument("name", metavar="NAME", help="what specs call it: letters, digits, - and _")
    add.add_argument("--source", required=True, choices=datasets.SOURCES, help="what kind of files they are")
    add.add_argument("--location", required=True, help="an absolute path on the nodes, or a URL")
    add.add_argument("--target", metavar="COLUMN", help="of a table, the column that is learnt")
    add.add_argument("--text-field", metavar="FIELD", help="of JSONL, the field that holds the text")
    add.add_argument("--image-size", type=_positive, metavar="PIXELS", help="of images, the side they are scaled to")
    add.add_argument("--project", default="default", help="whose data it is (default: default)")
    add.add_argument("--cluster", default="local", help="whose nodes can read it (default: local)")
    add.add_argument("--wait", action="store_true", help="wait until a node has looked; exit 0 only if it is ready")
    for verb, sentence in (
        ("show", "show what a node found in a dataset"),
        ("check", "have a node look again; exit 0 only if it is ready"),
        ("delete", "forget a dataset; its files stay where they are"),
    ):
        one = command(verbs, verb, getattr(datasets, verb), sentence)
        one.add_argument("name", metavar="NAME", help="the dataset's name or id")
        one.add_argument("--project", help="whose, where several projects have one of that name")
        if verb == "show":
            speaks_json(one)


def _add_acting(commands: Any) -> None:
    tag = command(commands, "tag", acting.tag, "print a run's tags, or change them: tag ID +NAME -NAME", _takes_run)
    tag.add_argument("changes", nargs=argparse.REMAINDER, metavar="+NAME|-NAME", help="add or remove a tag")
    notes = command(commands, "notes", acting.notes, "print a run's notes, or set them", _takes_run)
    notes.add_argument("text", nargs="?", metavar="TEXT", help="the notes from now on; - reads the standard input")
    resize = command(commands, "resize", acting.resize, "change the number of nodes of an elastic run", _takes_run)
    resize.add_argument("nodes", type=_nodes, metavar="NODES", help="how many from now on, or auto")
    one = command(commands, "trace", acting.trace, "trace the next steps of a run that trains", _takes_run)
    one.add_argument("--steps", type=_positive, default=3, metavar="N", help="how many steps (default: 3)")
    one.add_argument("--rank", type=_not_negative, action="append", metavar="N", help="only this rank; may be repeated")
    back = command(commands, "rewind", acting.rewind, "go back to a step of a run and leave out batches", _takes_run)
    back.add_argument("--to", type=_not_negative, required=True, metavar="STEP", help="to go back to; 0 starts anew")
    back.add_argument(
        "--skip",
        type=_steps,
        required=True,
        metavar="FIRST:LAST",
        help="leave out the batches of these steps, both included",
    )
    checks = command(commands, "preflight", acting.preflight, "check nodes now; exit 1 if a check fails", speaks_json)
    checks.add_argument("id", nargs="?", metavar="RUN", help="check the nodes of this run instead of a cluster's")
    checks.add_argument("--cluster", default="local", help="check the nodes of this cluster (default: local)")
    _add_interactive(commands)
    add_security(commands)
    tokens = group(commands, "token", "tokens for programs")
    create = command(tokens, "create", acting.create_token, "make a token and print its secret, this once")
    create.add_argument("--name", default="command line", help="what it is for")
    create.add_argument(
        "--expires", metavar="TIME", help="when it ends, in ISO 8601; by default with the token that makes it"
    )


def _add_interactive(commands: Any) -> None:
    sentence = "run a command beside a rank: exec RUN -- COMMAND..."
    one = command(commands, "exec", beside.execute, sentence, _takes_run, _takes_rank)
    one.add_argument("-t", "--terminal", action="store_true", help="with a terminal; without a command it is a shell's")
    one.add_argument("-i", "--stdin", action="store_true", help="send the standard input to the command")
    one.add_argument(
        "--timeout", type=float, metavar="SECONDS", help="end it after so long (default: 600; a terminal has no limit)"
    )
    one.add_argument("--max-output", type=_positive, metavar="BYTES", help="end it where it prints more (64 MiB)")
    sentence = "lead a port of this machine to a port of a rank's"
    forward = command(commands, "forward", beside.forward, sentence, _takes_run, _takes_rank)
    forward.add_argument(
        "ports", type=_ports, metavar="PORT[:REMOTE]", help="the port here, and there where that is another"
    )
    opened = command(commands, "notebook", beside.notebook, "open a notebook in a browser: a run's, or a new one")
    opened.add_argument("id", nargs="?", metavar="ID", help="a run with a notebook; without it one is launched")
    opened.add_argument("--name", default="notebook", help="of a new one (default: notebook)")
    opened.add_argument("--project", default="default", help="of a new one (default: default)")
    opened.add_argument("--cluster", default="local", help="of a new one (default: local)")
    opened.add_argument("--code", default=".", metavar="FOLDER", help="that a new one can import (default: this one)")
    _takes_overrides(opened)
    opened.add_argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="wait so long for it to run (default: 600)"
    )
    opened.add_argument("--no-browser", dest="browser", action="store_false", help="print the address alone")


def _takes_rank(command: argparse.ArgumentParser) -> None:
    command.add_argument("--rank", type=_not_negative, default=0, metavar="N", help="beside which (default: 0)")


def _ports(text: str) -> tuple[int, int]:
    here, _, there = text.partition(":")
    found = int(here), int(there or here)
    if not all(0 < port < 65_536 for port in found):
        raise ValueError(text)
    return found


def _takes_run(command: argparse.ArgumentParser) -> None:
    command.add_argument("id", metavar="ID", help="the run's id")


def _takes_overrides(command: argparse.ArgumentParser) -> None:
    takes_overrides(command, "set a field of the spec, such as train.steps=100; may be repeated")


def _may_wait(command: argparse.ArgumentParser) -> None:
    how = command.add_mutually_exclusive_group()
    how.add_argument("--wait", action="store_true", help="wait for the end; exit 0 only if the run succeeded")
    how.add_argument("--follow", action="store_true", help="as --wait, and print the logs to the standard error")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def _nodes(text: str) -> int | None:
    return None if text == "auto" else int(text)


def _not_negative(text: str) -> int:
    number = int(text)
    if number < 0:
        raise ValueError(text)
    return number


def _steps(text: str) -> tuple[int, int]:
    """Return the steps of ``FIRST:LAST``, or of one step alone."""
    first, _, last = text.partition(":")
    return _positive(first), _positive(last or first)

"""``python -m workers.host_jobs``: read one question from the standard input and print its answer. The server runs it
over SSH."""

import os
import re
import socket
import sys
from pathlib import Path

from trainyard import __version__
from trainyard.contract.base import BadDocument, decode, encode
from trainyard.contract.calls import HostAnswer, HostQuestion, HostVerb
from workers.host_jobs.jobs import JobFolder

ATTEMPT = re.compile(r"[A-Za-z0-9]{1,40}")


def main() -> int:
    os.umask(0o077)
    try:
        question = decode(sys.stdin.buffer.read(), HostQuestion, is_secret=True)
        if question.job is not None and not ATTEMPT.fullmatch(question.job.attempt):
            raise BadDocument("job.attempt: no id of an attempt")
    except BadDocument as error:
        print(f"The question cannot be read: {error}.", file=sys.stderr)
        return 2
    print(encode(answer(question)))
    return 0


def answer(question: HostQuestion) -> HostAnswer:
    root = Path(question.folder) / "jobs" / question.mark
    problem = ""
    try:
        if question.job is not None and question.verb != HostVerb.LIST:
            folder = JobFolder.of(root, question.job)
            if question.verb == HostVerb.START:
                folder.start(question.job, question.words, question.variables)
            else:
                folder.end()
        looked = [JobFolder(path).look() for path in sorted(root.glob("*"))] if root.is_dir() else []
        jobs = [job for job in looked if job is not None]
    except OSError as error:
        jobs = []
        problem = f"{error.filename or root} cannot be used: {error.strerror or error}."
    return HostAnswer(host=socket.gethostname()[:200], version=__version__, jobs=jobs, problem=problem)


if __name__ == "__main__":
    sys.exit(main())

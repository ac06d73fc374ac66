"""``python -m workers.machine.sagemaker node ...`` or ``... try SERVER VALKEY [FINGERPRINT]``: what the container of a
SageMaker training job starts.

``node`` finds out which of the job's machines this is, reads its join token from AWS Secrets Manager with the role of
the job, and becomes ``python -m workers.node``. ``try`` tries what a node does, and ends. What went wrong is written to
the file from which SageMaker takes a job's failure reason.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainyard.contract.base import BadDocument, WireStruct, decode
from workers.machine.probe import problems_of

CHANNEL = "trainyard"  # of the file system
GRACE_S = 110  # SageMaker kills a container 120 s after SIGTERM
MAX_FAILURE = 1_000  # characters that SageMaker shows
NO_TOKEN = "-"  # in the place of a token of another machine


class NotInAJob(Exception):
    """The message is a sentence."""


class ResourceConfig(WireStruct):
    """Machines of a job, as SageMaker writes them down."""

    current_host: str
    hosts: list[str]


class JoinSecret(WireStruct):
    """The join tokens of an attempt, in the order of its machines."""

    tokens: list[str]


def main(argv: list[str] | None = None) -> int:
    words = sys.argv[1:] if argv is None else argv
    root = Path(os.environ.get("SAGEMAKER_BASE_DIR", "/opt/ml"))
    folder = root / "input" / "data" / CHANNEL
    try:
        if words[:1] == ["node"]:
            become_node(words[1:], root, folder)
        if words[:1] != ["try"] or len(words) not in (3, 4):
            print(__doc__, file=sys.stderr)
            return 2
        if problems := problems_of(words[1], words[2], str(folder), *words[3:]):
            raise NotInAJob(f"{'; '.join(problems)}.")
    except NotInAJob as error:
        print(error, file=sys.stderr)
        write_failure(root, str(error))
        return 1
    return 0


def become_node(words: Sequence[str], root: Path, folder: Path) -> None:
    """Go on as a node of this machine; SageMaker's signals then reach the node itself. Raises NotInAJob."""
    machine = machine_in(root)
    tokens = tokens_of(os.environ)
    if machine >= len(tokens):
        raise NotInAJob(f"There are join tokens for {len(tokens)} machines, and this is number {machine}, from 0.")
    os.environ["TRAINYARD_JOIN"] = " ".join([*[NO_TOKEN] * machine, tokens[machine]])
    os.environ["TRAINYARD_CHECKPOINTS"] = str(folder / "checkpoints")
    command = [sys.executable, "-P", "-m", "workers.node", *words]
    os.execv(sys.executable, [*command, "--machine", str(machine), "--grace", str(GRACE_S)])


def machine_in(root: Path) -> int:
    """Return which of the job's machines this is, from 0. Raises NotInAJob."""
    path = root / "input" / "config" / "resourceconfig.json"
    try:
        config = decode(path.read_bytes(), ResourceConfig)
    except (OSError, BadDocument) as error:
        raise NotInAJob(f"Which machine this is stands in {path}, which cannot be read: {error}.") from error
    hosts = sorted(config.hosts)
    if config.current_host not in hosts:
        raise NotInAJob(f"{path} names the machines {', '.join(hosts)}, and not {config.current_host!r}, this one.")
    return hosts.index(config.current_host)


def tokens_of(environment: Mapping[str, str]) -> list[str]:
    """Return the join tokens of all machines of the job. Raises NotInAJob."""
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError as error:
        raise NotInAJob("The image has no boto3: install trainyard[node,sagemaker] in it.") from error
    name = environment.get("TRAINYARD_JOIN_SECRET", "")
    try:
        client = boto3.client(
            "secretsmanager",
            region_name=environment.get("TRAINYARD_AWS_REGION") or None,
            endpoint_url=environment.get("TRAINYARD_AWS_ENDPOINT") or None,
        )
        text = client.get_secret_value(SecretId=name)["SecretString"]
    except (BotoCoreError, ClientError, OSError, KeyError) as error:
        raise NotInAJob(f"The join tokens cannot be read from secret {name}: {error}") from error
    try:
        return decode(text, JoinSecret, is_secret=True).tokens
    except BadDocument as error:
        raise NotInAJob(f"Secret {name} does not hold join tokens.") from error


def write_failure(root: Path, sentence: str) -> None:
    try:
        (root / "output").mkdir(parents=True, exist_ok=True)
        (root / "output" / "failure").write_text(sentence[:MAX_FAILURE], encoding="utf-8")
    except OSError as error:
        print(f"The failure cannot be written: {error}.", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())

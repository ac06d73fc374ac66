"""Removal of images that nobody used for long, and of what killed supervisors left of containers."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import structlog

from trainyard.spooling.held_folder import remove_tree
from workers.attempt.folder import AttemptFolder, attempts_in
from workers.containers.arguments import LABEL, OWNER, podman, remove_words
from workers.containers.documents import SHARED, SHARED_MEMORY, ContainerRuntime, is_of, with_tag
from workers.containers.probing import podman_environment

log = structlog.get_logger(__name__)

LIMIT_S = 60.0


def remove_image(program: str, image: str, names: Sequence[str] = ()) -> bool:
    """Remove an image from the node, which has ``names`` for our sake. It stays where a container uses it, or where it
    has a tag besides that somebody else gave it."""
    if not program:
        return False
    runtime = ContainerRuntime(program=program)
    if not names:  # of an archive: Podman itself refuses what is in use, or has several names
        is_gone = _call(runtime, "image", "rm", image) is not None
    elif is_gone := _is_ours_alone(runtime, image, names):
        is_gone = _call(runtime, "image", "rm", "--force", image) is not None  # it has several names
    if is_gone:
        log.info("image.evicted", image=image[:12])
    return is_gone


def _is_ours_alone(runtime: ContainerRuntime, image: str, names: Sequence[str]) -> bool:
    found = _call(runtime, "image", "inspect", "--format", "json", image)
    users = _call(runtime, "ps", "--all", "--quiet", "--filter", f"ancestor={image}")
    if found is None or users is None or users.strip():
        return False
    tags = {str(tag) for tag in json.loads(found)[0].get("RepoTags") or []}
    return not {tag for tag in tags if not any(is_of(tag, with_tag(name)) for name in names)}


def remove_leftovers(program: str, home: Path) -> list[str]:
    """Remove the containers and the shared memory of attempts that have no supervisor any more. Returns the names of
    the containers."""
    if not (home / "environments" / "containers.json").exists():
        return []  # no container ever ran here
    runtime = ContainerRuntime(program=program)
    listed = _call(runtime, "ps", "--all", "--filter", f"label={OWNER}={home}", "--format", "json")
    left = [str(one["Names"][0]) for one in json.loads(listed or "[]") if _is_over(one.get("Labels") or {})]
    if left:
        _call_words(remove_words(runtime, left))
        log.warning("containers.leftover", names=left)
    over = {folder.attempt for folder in attempts_in(home) if folder.lock_holder() is None}
    for path in SHARED.glob(f"{SHARED_MEMORY}*"):
        if path.name.removeprefix(SHARED_MEMORY).partition("-")[0] in over:
            remove_tree(path)
    return left


def _is_over(labels: dict[str, str]) -> bool:
    return AttemptFolder(Path(labels.get(LABEL, "/nowhere"))).lock_holder() is None


def _call(runtime: ContainerRuntime, *words: str) -> str | None:
    """Return what Podman prints; None where it fails."""
    return _call_words(podman(runtime, *words))


def _call_words(words: list[str]) -> str | None:
    try:
        answer = subprocess.run(
            words, env=podman_environment(os.environ), cwd="/", stdin=subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=LIMIT_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        log.warning("podman.failed", words=words[1:], error=str(error)[:300])
        return None
    return answer.stdout

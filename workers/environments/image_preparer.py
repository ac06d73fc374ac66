"""``python -m workers.environments.image_preparer PARENT DESCRIPTOR``: has an image pulled, read or built.

Reads an ImagePlan from its standard input, writes what Podman prints to its standard output, and BuildProgress to the
descriptor that is named: with the last of them the image is there. Podman needs the node's own rights. What RUN lines
of a Containerfile do, they do in Podman's own container.
"""

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

from trainyard.contract.base import decode
from trainyard.spec.sections.container import read_image
from trainyard.spooling.plain_files import write_private
from workers.containers.arguments import build_words, podman, pull_words
from workers.containers.documents import ContainerImage, ContainerRuntime, ImagePlan, is_of
from workers.containers.podman import known_runtime
from workers.environments.documents import BuildFailed, BuildProgress, Installers
from workers.machine.processes import die_with_parent, name_process

PRIORITY = 5  # ranks of other runs train on this node meanwhile
DEFAULT_REGISTRY = "docker.io"
_ID = re.compile(r"[0-9a-f]{64}")
_BLOB = re.compile(r"Copying blob ([0-9a-z:]+)")
_STEP = re.compile(r"STEP (\d+)/(\d+)")


def main() -> int:
    parent = int(sys.argv[1])
    name_process("ty-image")
    os.nice(PRIORITY)
    plan = decode(sys.stdin.buffer.read(), ImagePlan, is_secret=True)
    die_with_parent(signal.SIGKILL, parent)
    os.umask(0o077)
    began = time.monotonic()
    preparer = Preparer(plan, progress=int(sys.argv[2]))
    try:
        image = preparer.prepare()
    except BuildFailed as error:
        if str(error):  # Podman has not printed it itself
            preparer.print(f"error: {error}")
        return 1
    preparer.report(BuildProgress(image=image, seconds=time.monotonic() - began))
    return 0


class Preparer(Installers):
    def __init__(self, plan: ImagePlan, *, progress: int) -> None:
        super().__init__(progress)
        self._plan = plan
        self._blobs: set[str] = set()

    def prepare(self) -> ContainerImage:
        """Raises BuildFailed."""
        plan = self._plan
        runtime = self._runtime()
        Path(plan.work).mkdir(mode=0o700, parents=True, exist_ok=True)
        authorization = self._authorization()
        try:
            if plan.file:
                return self._build(runtime, authorization)
            pinned = read_image(plan.reference)
            if pinned is not None and pinned.digest and (image := self._inspect(runtime, plan.reference)):
                if not plan.credentials:
                    return image
            elif plan.reference.startswith("localhost/") and (image := self._inspect(runtime, plan.reference)):
                return image
            self.report(BuildProgress(phase=f"pulling {plan.reference}"))
            lines = self._run(pull_words(plan, runtime, authorization=authorization))
            last_id = next((line.strip() for line in reversed(lines) if _ID.fullmatch(line.strip())), plan.reference)
            return self._found(runtime, last_id)
        finally:
            if authorization:
                Path(authorization).unlink(missing_ok=True)

    def _runtime(self) -> ContainerRuntime:
        try:
            runtime = known_runtime(self._plan.program, Path(self._plan.record), self._plan.environment)
        except OSError as error:
            raise BuildFailed(f"{self._plan.program}: {error.strerror or error}") from error
        if runtime.problem:
            raise BuildFailed(f"Podman runs no container on this node: {runtime.problem}")
        return runtime

    def _authorization(self) -> str:
        """Write the registry's credentials for Podman, and return the file; empty where there are none."""
        if not self._plan.credentials:
            return ""
        path = Path(self._plan.work) / "auth.json"
        write_private(path, authorization_text(self._plan.credentials, registries_of(self._plan)))
        return str(path)

    def _build(self, runtime: ContainerRuntime, authorization: str) -> ContainerImage:
        file = Path(self._plan.work) / "Containerfile"
        file.write_text(self._plan.file)
        self._run(build_words(self._plan, runtime, file=str(file), authorization=authorization))
        return self._found(runtime, self._plan.tag)

    def _run(self, words: list[str]) -> list[str]:
        try:
            return self.run_program(words, folder=Path(self._plan.work), variables=self._plan.environment)
        except subprocess.CalledProcessError as error:
            has_said = any(line.startswith("Error: ") for line in error.output.splitlines())
            raise BuildFailed("" if has_said else f"podman ended with exit code {error.returncode}") from error

    def take_line(self, line: str) -> None:
        if found := _STEP.match(line):
            self.report(BuildProgress(phase=f"step {found[1]} of {found[2]} of the Containerfile"))
        elif (blob := _BLOB.match(line)) and blob[1] not in self._blobs:
            self._blobs.add(blob[1])
            self.report(BuildProgress(phase=f"pulling the image, layer {len(self._blobs)}"))

    def _found(self, runtime: ContainerRuntime, name: str) -> ContainerImage:
        image = self._inspect(runtime, name)
        if image is None:
            raise BuildFailed(f"Podman has no image {name} behind all")
        return image

    def _inspect(self, runtime: ContainerRuntime, name: str) -> ContainerImage | None:
        answer = subprocess.run(
            podman(runtime, "image", "inspect", "--format", "json", name), stdin=subprocess.DEVNULL, cwd="/",
            capture_output=True, text=True, env=self._plan.environment,
        )  # fmt: skip
        if answer.returncode:
            return None
        found = json.loads(answer.stdout)[0]
        return ContainerImage(
            id=str(found["Id"]).removeprefix("sha256:"),
            digest=digest_in(self._plan.reference, found.get("RepoDigests") or [], str(found.get("Digest") or "")),
            bytes=int(found.get("Size") or 0),
        )


def digest_in(reference: str, known: list[str], own: str) -> str:
    """Return the digest under which the registry has the image, that of all its platforms where it has several: another
    node may be of another. Empty for an archive."""
    wanted = read_image(reference)
    if wanted is None:
        return ""
    if wanted.digest:
        return wanted.digest
    found = [digest for name, _, digest in (one.partition("@") for one in known) if is_of(name, wanted.name)]
    return next((one for one in found if one != own), found[0] if found else "")


def registries_of(plan: ImagePlan) -> list[str]:
    """Return the registries to which the credentials belong: the image's, or those that the Containerfile names."""
    lines = ([word for word in line.split() if not word.startswith("--")] for line in plan.file.splitlines())
    bases = [words[1] for words in lines if len(words) > 1 and words[0].upper() == "FROM"]
    names = [plan.reference] if plan.reference else bases
    return sorted({registry_of(name) for name in names if read_image(name)} - {"localhost"})


def registry_of(reference: str) -> str:
    host, _, rest = reference.partition("/")
    return host if rest and (":" in host or "." in host or host == "localhost") else DEFAULT_REGISTRY


def authorization_text(credentials: str, registries: list[str]) -> str:
    """Return the file that Podman reads. A secret that is such a file itself is taken as it is."""
    if credentials.lstrip().startswith("{"):
        return credentials
    word = base64.b64encode(credentials.strip().encode()).decode()
    return json.dumps({"auths": {registry: {"auth": word} for registry in registries}})


if __name__ == "__main__":
    sys.exit(main())

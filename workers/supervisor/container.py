"""The supervisor's part with containers: has the attempt's image on the node before its ranks start, and fills in what
a rank's plan says of its container: mounts, GPUs, variables."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from trainyard import shadow
from trainyard.contract.base import WireStruct
from trainyard.contract.orders import Order
from trainyard.spec.sections.container import CREDENTIALS, SECTION, read_image
from trainyard.spec.sections.environment import environment_of
from workers.attempt.documents import StartRequest, read_document
from workers.attempt.folder import AttemptFolder
from workers.containers.arguments import podman, remove_words
from workers.containers.documents import ContainerPlan, ContainerRuntime, ImagePlan, container_name
from workers.containers.podman import SETTING, call
from workers.data_access import ROOTS, path_problem
from workers.environments.content import SHORT, BadEnvironment, Content, read_content
from workers.environments.store import EnvironmentRecord, FileLock
from workers.machine import gpus
from workers.rank_process.cold_rank import HOOK, PROGRESS
from workers.sandbox.process import Sandbox
from workers.supervisor.environment import EnvironmentBuild

LAYOUT = 1  # of what a digest is made of
CDI_FOLDERS = (Path("/etc/cdi"), Path("/var/run/cdi"))
CDI_KIND = "nvidia.com/gpu"


def build_for(order: Order, folder: AttemptFolder, request: StartRequest) -> EnvironmentBuild | None:
    """Return what prepares the order's environment; None where its ranks run in the node's own."""
    section = environment_of(order.spec)
    if section is None:
        return None
    kind = ContainerBuild if section.kind == "container" else EnvironmentBuild
    return kind(section, order, folder, Path(request.home), request.isolation)


class ContainerBuild(EnvironmentBuild):
    """Finds the image, or has it pulled, read or built. A tag is resolved once, by the first attempt of the run; the
    server hands the digest to all attempts after it."""

    builder = "workers.environments.image_preparer"
    _resolved = ""  # the digest to which a tag led here
    _names: tuple[str, ...] = ()  # that Podman has given the image here
    _has_started = False

    @property
    def python(self) -> str:
        return str(self._order.spec["task"].get("python") or "python3")

    @property
    def shown(self) -> list[Path]:
        """The data roots of the node: its own files beside them lie outside of the container."""
        return [Path(one) for one in os.environ.get(ROOTS, "").split(os.pathsep) if one and Path(one).is_dir()]

    @property
    def image_id(self) -> str:
        record = self.place.record
        assert record is not None, "the image is ready"
        return record.image

    @property
    def image(self) -> str:
        if not self.is_ready:
            return ""
        section, record = self._section.container, self.place.record
        name = read_image(section.image)
        if name is not None and record is not None and record.image_digest:
            return name.pinned(record.image_digest)
        return f"{section.image or section.file}, image {self.image_id[:12]}"

    @property
    def runtime(self) -> ContainerRuntime:
        return read_document(self._runtime_path, ContainerRuntime) or ContainerRuntime(problem="it was not tried")

    def container_of(self, local_rank: int) -> ContainerPlan | None:
        self._has_started = True
        return ContainerPlan(
            runtime=self.runtime,
            name=container_name(self._order, local_rank),
            image=self.image_id,
            attempt=self._order.attempt,
            folder=str(self._folder.path),
            home=str(self._store.root.parent),
            workdir=str(self._folder.code),
            devices=tuple(devices_of(self._order)),
            environment={**self._tools.podman_environment, **self._environment()},
        )

    def close(self) -> None:
        super().close()
        if self._has_started:  # Podman keeps containers whose processes were killed; the node worker looks for them too
            names = [container_name(self._order, number) for number in range(self._order.num_ranks)]
            call(remove_words(self.runtime, names), self._tools.podman_environment)

    @property
    def _runtime_path(self) -> Path:
        return self._store.root / "containers.json"

    @property
    def _reference(self) -> str:
        """The image's name as Podman is asked for it."""
        image = self._section.container.image
        found, digest = read_image(image), self._resolved or self._order.image_digest
        return image if found is None or found.digest or not digest else found.pinned(digest)

    def _read(self) -> Content:
        if not self._tools.podman:
            raise BadEnvironment(
                f"This node has no Podman, which {SECTION} needs, or no node worker that is root, or "
                f"{SETTING}=off: mend that there, or take requirements, pyproject, lock or conda."
            )
        if problem := devices_problem(self._order):
            raise BadEnvironment(problem)
        if archive := self._section.container.archive:
            path = Path(archive)
            if not path.is_file():
                raise BadEnvironment(f"{SECTION}.image: there is no file {archive} on this node.")
            if problem := path_problem(path) or self._isolation.problem_of(archive):
                raise BadEnvironment(f"{SECTION}.image: {problem}.")
        return read_content(self._section, self._folder.code)

    def _digest(self) -> str:
        section = self._section.container
        known: dict[str, object] = {"layout": LAYOUT, "kind": "container"}
        if section.file:
            known |= {"files": self._content.files, "code": self._code_digest() if self._content.needs_code else ""}
        elif section.archive and Path(section.archive).is_file():
            state = Path(section.archive).stat()
            known |= {"archive": section.image, "size": state.st_size, "changed": state.st_mtime_ns}
        else:
            known["image"] = self._reference
            if "@" not in self._reference:  # a tag, which may lead elsewhere by now: ask anew
                known["attempt"] = self._order.attempt
        return hashlib.sha256(json.dumps(known, sort_keys=True).encode()).hexdigest()[:SHORT]

    def _use(self) -> None:
        """Mark the image as used, or delete its record where somebody removed the image: then it is fetched again."""
        record = self.place.record
        if record is not None:
            words = podman(self.runtime, "image", "exists", record.image)
            if call(words, self._tools.podman_environment) is None:
                self.place.delete()
                return
            if not set(self._names) <= set(record.image_names):
                record.image_names = tuple(sorted({*record.image_names, *self._names}))
                self.place.write_record(record)
        super()._use()

    def _describe(self, record: EnvironmentRecord) -> str:
        return f"Image {record.image[:12]}{f' ({record.image_digest})' if record.image_digest else ''}"

    @property
    def _tag(self) -> str:
        """The name of an image that is built here."""
        return f"localhost/trainyard/{self.place.digest}"

    def _plan(self) -> WireStruct:
        section = self._section.container
        return ImagePlan(
            program=self._tools.podman,
            record=str(self._runtime_path),
            work=str(self.place.folder / f"image-{self.place.digest}"),
            reference=self._reference if section.image else "",
            file="\n".join(self._content.files.values()) if section.file else "",
            context=str(self._folder.code),
            tag=self._tag,
            credentials=next((one.value for one in self.secrets if one.variable == CREDENTIALS), ""),
            environment={**self._tools.podman_environment, **self._environment()},
        )

    def _finish(self) -> None:
        image = self._last.image
        if image is None:
            self._fail("Podman named no image.")
            return
        if not self._section.container.archive:
            self._know(self._reference if self._section.container.image else "")
            if "@" not in self._reference and image.digest:
                self._resolve(image.digest)
                return
        self._record(image=image.id, image_digest=image.digest, image_names=self._names, bytes=image.bytes)

    def _know(self, reference: str) -> None:
        """Remember a name that Podman has given the image here. What lay on the node as localhost/… is not ours."""
        if not reference.startswith("localhost/"):
            self._names += (reference or self._tag,)

    def _resolve(self, digest: str) -> None:
        """Go on with the digest to which the tag leads now: it is kept under that."""
        self._resolved = digest
        self.place.delete()
        self._lock.release()
        self.place = self._store.place(self._order.spec.get("project", ""), self._digest())
        self._lock = FileLock(self.place.lock)


def filled(container: ContainerPlan, sandbox: Sandbox, own: Sequence[Path], shown: Sequence[Path]) -> ContainerPlan:
    """Return the plan with the folders that the rank writes and reads, also where the node has no sandbox, and with the
    user that it would have in one."""
    for folder in own:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    read = [str(one) for one in shown if one.exists()]
    return msgspec.structs.replace(
        container,
        user=sandbox.user if sandbox.mechanism.is_other_user else -1,
        own=tuple(map(str, own)),
        shown=tuple(dict.fromkeys((*read, str(HOOK), PROGRESS, str(shadow.HOOK)))),
    )


def devices_of(order: Order) -> list[str]:
    """Return the GPUs of the node's part of an attempt, as CDI names them. All ranks here see all of them."""
    if order.accelerator != "gpu":
        return []
    return [f"{CDI_KIND}={number}" for number in gpus.devices_of(order.slots).split(",") if number]


def devices_problem(order: Order, folders: tuple[Path, ...] = CDI_FOLDERS) -> str:
    """Return why containers get no GPUs here; empty where they do, or need none."""
    if order.accelerator != "gpu" or any(_names_gpus(path) for folder in folders for path in folder.glob("*")):
        return ""
    return (
        f"{SECTION}: this node has no CDI specification of its GPUs, by which Podman gives them to a container: make "
        "one there (nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml)."
    )


def visible_devices(order: Order, own: Mapping[str, object]) -> dict[str, str]:
    """Return CUDA_VISIBLE_DEVICES of a container: it counts the GPUs that it was given from 0."""
    if order.accelerator != "gpu" or "CUDA_VISIBLE_DEVICES" in own:
        return {}
    return {"CUDA_VISIBLE_DEVICES": ",".join(str(number) for number in range(len(devices_of(order))))}


def _names_gpus(path: Path) -> bool:
    try:
        return path.suffix in (".yaml", ".yml", ".json") and CDI_KIND in path.read_text(errors="replace")
    except OSError:
        return False

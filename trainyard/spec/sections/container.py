"""The image in which the ranks of a script run."""

import re
from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from trainyard.spec.problems import Problem, show
from trainyard.spec.values.code import FileInCode
from trainyard.spec.values.fields import Part, matching, more_what
from trainyard.spec.values.references import SecretReference, read_reference

SECTION = "environment.container"
ARCHIVES = ("oci-archive:", "docker-archive:")
# The node's name for the credentials among the secrets of an attempt. It is no name of a variable: no task can set it,
# and no rank gets it.
CREDENTIALS = "environment.container.credentials"

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_HOST = r"(?:[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?|\[[0-9a-fA-F:]+\])(?::\d{1,5})?"
_REFERENCE = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PART}(?:/{_PART})*)(?::(?P<tag>\w[\w.-]{{0,127}}))?(?:@(?P<digest>sha256:[0-9a-f]{{64}}))?",
    re.ASCII,
)
_SECRET = r"((mine:)?[A-Za-z_][A-Za-z0-9_]{0,99})?"


class ImageReference(NamedTuple):
    """An image of a registry: ``registry.example/team/image:tag@sha256:…``."""

    name: str
    tag: str = ""
    digest: str = ""

    def pinned(self, digest: str) -> str:
        """Return the reference of the image with this digest, whatever the tag leads to by now."""
        return f"{self.name}@{digest}"


def read_image(text: str) -> ImageReference | None:
    """Return what an image's name says; None where it is none of a registry."""
    found = _REFERENCE.fullmatch(text)
    return ImageReference(found["name"], found["tag"] or "", found["digest"] or "") if found else None


def archive_of(image: str) -> str:
    """Return the path of the archive that the field names; empty where it names an image of a registry."""
    return next((image.removeprefix(one) for one in ARCHIVES if image.startswith(one)), "")


def _image(value: str) -> str:
    path = archive_of(value)
    if not value or (path.startswith("/") and ":" not in path and ".." not in path.split("/") and path.isprintable()):
        return value
    if value.startswith(ARCHIVES):
        example = "oci-archive:/data/image.tar"
        raise ValueError(f"must name an archive by its whole path, such as {example}, not {show(value)}")
    if read_image(value) is None:
        words = f"oci-archive:/PATH or docker-archive:/PATH, not {show(value)}"
        raise ValueError(f"must be an image such as registry.example/team/image:1.2 or name@sha256:…, {words}")
    return value


class ContainerSection(Part):
    """An image by its name, or a file of the code of which one is built."""

    image: Annotated[str, Field(max_length=500), AfterValidator(_image)] = more_what(
        "",
        "Container image",
        "Ranks run in a container of this image: of a registry, with a tag or a digest, or an archive on the "
        "nodes (oci-archive:/PATH, docker-archive:/PATH). Nodes need Podman.",
    )
    file: FileInCode = more_what(
        "", "Containerfile", "A Containerfile of the code, of which each node builds the image once."
    )
    credentials: Annotated[str, Field(max_length=110), matching(_SECRET, "the name of a secret, or mine:NAME")] = (
        more_what("", "Registry credentials", "The secret with USER:PASSWORD for the image's registry.")
    )

    @property
    def is_asked(self) -> bool:
        return bool(self.image or self.file or self.credentials)

    @property
    def archive(self) -> str:
        """The path of the image's archive; empty where it comes from a registry or is built."""
        return archive_of(self.image)

    def problems(self) -> Iterator[Problem]:
        if self.image and self.file:
            yield Problem(f"{SECTION}.file", f"{show(self.file)} stands beside {SECTION}.image; leave one of them out")
        if self.credentials and (self.archive or not (self.image or self.file)):
            yield Problem(
                f"{SECTION}.credentials",
                f"{show(self.credentials)} is for a registry; it goes with an image of one, or with a Containerfile",
            )


def credentials_reference(section: ContainerSection) -> SecretReference | None:
    """Return the secret that the node needs beside those of the task."""
    if not section.credentials:
        return None
    return read_reference(section.credentials)._replace(variable=CREDENTIALS)


def _schema() -> dict[str, Any]:
    whole = {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("image", "file", "credentials")},
        "additionalProperties": False,
    }
    return {"anyOf": [whole, {"type": "string"}]}


Container = Annotated[  # a text is the image
    ContainerSection,
    BeforeValidator(lambda given: {"image": given} if isinstance(given, str) else given),
    WithJsonSchema(_schema()),
]

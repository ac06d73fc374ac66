"""The packages that a script finds: an environment that the node builds for it."""

import re
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

from trainyard.contract.base import SpecDocument
from trainyard.spec.problems import Problem, show
from trainyard.spec.sections.container import Container, ContainerSection, credentials_reference
from trainyard.spec.values.code import FileInCode, file_in_code, file_or_nothing, has_control
from trainyard.spec.values.fields import Part, Window, more_what
from trainyard.spec.values.references import SecretReference, references_in

SECTION = "environment"
# Of these a spec has one at most.
KINDS = ("requirements", "pyproject", "lock", "conda", "container")
BUILT_BY_PIP = ("requirements", "pyproject", "lock")
LOCKS = "uv.lock, pylock.toml (or pylock.NAME.toml), or a requirements file (.txt) with pinned versions"
MAX_REQUIREMENTS, MAX_REQUIREMENT = 1_000, 1_000

_VERSION = re.compile(r"3\.\d{1,2}(\.\d{1,2})?")
_LOCK = re.compile(r"uv\.lock|pylock(\.[^.]+)?\.toml|.+\.txt")
# Options of pip that a list may hold: what names files. Where packages come from is the node's to decide.
_FILES = re.compile(r"((-r|-c)[ =]*|(--requirement|--constraint)[ =]+)(?P<file>\S.*)")


def file_of(requirement: str) -> str | None:
    """Return the file that an entry of ``requirements`` names (``-r base.txt``), None for a package."""
    found = _FILES.fullmatch(requirement.strip())
    return found["file"].strip() if found else None


def _requirement(value: str) -> str:
    if has_control(value) or not value.strip():
        raise ValueError(f"must be one package such as numpy>=2, or -r FILE, not {show(value)}")
    if (file := file_of(value)) is not None:
        file_in_code(file)
    elif value.lstrip().startswith("-"):
        words = "options of pip belong into its configuration on the nodes"
        raise ValueError(f"must be one package such as numpy>=2, or -r FILE, not {show(value)}: {words}")
    return value.strip()


def _lock(value: str) -> str:
    if value and not _LOCK.fullmatch(PurePosixPath(file_or_nothing(value)).name):
        raise ValueError(f"must be {LOCKS}, not {show(value)}")
    return value


def _version(value: object) -> object:
    if type(value) is float:  # YAML reads 3.12 as a number, and 3.10 as 3.1
        value = f"{value:g}" if value != 3.1 else "3.10"
    if isinstance(value, str) and value and not _VERSION.fullmatch(value):
        raise ValueError(f'must be a version such as "3.12", not {show(value)}')
    return value


LockFile = Annotated[str, Field(max_length=500), AfterValidator(_lock)]
Requirement = Annotated[str, Field(max_length=MAX_REQUIREMENT), AfterValidator(_requirement)]
Requirements = Annotated[
    list[Requirement],
    Field(max_length=MAX_REQUIREMENTS),
    # A text is a file in the code.
    BeforeValidator(lambda given: ([f"-r {given}"] if given else []) if isinstance(given, str) else given),
    WithJsonSchema({"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]}),
]
PythonVersion = Annotated[
    str,
    Field(max_length=20),
    BeforeValidator(_version),
    WithJsonSchema({"anyOf": [{"type": "string", "pattern": r"^(3\.\d{1,2}(\.\d{1,2})?)?$"}, {"type": "number"}]}),
]


class EnvironmentSection(Part):
    """Environment that a node prepares before ranks start. Empty: they run in the node's own environment."""

    requirements: Requirements = more_what(
        [],
        "Requirements",
        "Packages, one a line, such as numpy>=2; -r FILE takes a requirements file of the code. Built once on "
        "each node and kept.",
        kind="lines",
    )
    pyproject: FileInCode = more_what(
        "", "pyproject.toml", "A pyproject.toml of the code, whose dependencies are installed."
    )
    lock: LockFile = more_what("", "Lock file", f"A lock file of the code: {LOCKS}.")
    conda: FileInCode = more_what(
        "", "conda environment", "An environment.yml of the code; nodes need micromamba, mamba or conda."
    )
    container: Container = ContainerSection()
    python: PythonVersion = more_what(
        "", "Python version", "Of the environment, such as 3.12; empty is the node's own."
    )
    inherit: bool = more_what(
        False,
        "Node's packages too",
        "Whether the environment also has the node's own packages, torch among them, so that only what is missing "
        "is installed.",
    )
    limit: Window = more_what("30m", "Build limit", "How long building may take, such as 30m.")

    @property
    def kind(self) -> str:
        """Return which of KINDS it is; empty for none."""
        return next(iter(self.given), "")

    @property
    def given(self) -> list[str]:
        """Return those of KINDS that it has: more than one is a problem."""
        return [name for name in KINDS if (self.container.is_asked if name == "container" else getattr(self, name))]

    @property
    def is_asked(self) -> bool:
        """Return whether ranks run in another environment than the node's own."""
        return bool(self.kind or self.python or self.inherit)

    def problems(self) -> Iterator[Problem]:
        """Yield what its fields cannot have together."""
        given = self.given
        yield from self.container.problems()
        if len(given) > 1:
            yield Problem(
                f"{SECTION}.{given[1]}", f"stands beside {SECTION}.{given[0]}; one of {', '.join(KINDS)} is accepted"
            )
        for name in ("python", "inherit"):
            if given and getattr(self, name) and given[0] not in BUILT_BY_PIP:
                yield Problem(
                    f"{SECTION}.{name}",
                    f"{show(getattr(self, name))} goes with {', '.join(BUILT_BY_PIP)}; {SECTION}.{given[0]} says by "
                    "itself what there is",
                )
        if self.inherit and self.python:
            yield Problem(
                f"{SECTION}.inherit", f"the node's packages belong to the node's own Python; leave {SECTION}.python out"
            )


def environment_of(spec: SpecDocument) -> EnvironmentSection | None:
    """Return the section of a resolved spec; None where ranks run in the node's own environment."""
    values = spec.get(SECTION)
    if not isinstance(values, Mapping):
        return None
    known = {name: values[name] for name in EnvironmentSection.model_fields if name in values}
    section = EnvironmentSection.model_validate(known)
    return section if section.is_asked else None


def has_container(spec: SpecDocument) -> bool:
    """Return whether the ranks of a resolved spec run in containers."""
    section = environment_of(spec)
    return section is not None and section.kind == "container"


def secret_references(spec: SpecDocument) -> list[SecretReference]:
    """Return the secrets that an attempt of a resolved spec needs: its ranks', and the node's for a registry."""
    section = environment_of(spec)
    own = credentials_reference(section.container) if section is not None else None
    return [*references_in(spec.get("task", {})), *([own] if own is not None else [])]

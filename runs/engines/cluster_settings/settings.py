"""Settings of clusters whose engine brings nodes. A class of fields says all that form, REST, checks and docs need."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from re import Pattern
from typing import Any, NamedTuple, Self

from runs.engines.cluster_settings import checks
from runs.engines.refusals import SystemAway
from runs.models import Cluster
from runs.placing.pools import PoolRules
from runs.rights.secrets.key_stores import KeyProblem
from runs.rights.secrets.sealed import cluster_place, open_text, seal_text
from trainyard.contract.base import BadDocument, JsonObject, convert
from trainyard.contract.limits import MAX_SLOTS
from trainyard.spec.values.durations import seconds_of

TEXT, NUMBER, LINES, CHOICE, FLAG = "text", "number", "lines", "choice", "flag"
YAML = "yaml"  # a text whose lines keep their indentation
SECRET = "secret"  # kept locked beside the settings, and never shown again
ON = "on"  # what a browser sends for a box that is checked
Check = Callable[[Any], str]  # returns what is wrong, as the end of a sentence; empty where nothing is


@dataclass(frozen=True)
class SettingField:
    """``heading``: a group of fields begins with this one. ``choices``: values and their labels, of a CHOICE. An empty
    value is fine unless the field ``is_needed``."""

    label: str
    help: str
    check: Check | None
    kind: str
    name: str = ""
    is_needed: bool = False
    heading: str = ""
    choices: Mapping[str, str] = dataclasses.field(default_factory=dict)
    placeholder: str = ""

    def problem(self, value: Any) -> str:
        if self.choices:
            return "" if value in self.choices else f"one of {', '.join(self.choices)}, not {value[:100]!r}"
        return "" if self.check is None or (value in ("", []) and not self.is_needed) else self.check(value)


def field(
    label: str, help: str = "", check: Check | None = None, *, default: Any = "", kind: str = "", **more: Any
) -> Any:
    """Declare a setting; ``more`` is the rest of its SettingField. Its kind follows from the default, unless it is
    SECRET (a ``ClassVar``) or YAML."""
    kind = kind or (CHOICE if "choices" in more else {bool: FLAG, int: NUMBER, list: LINES}.get(type(default), TEXT))
    shown = SettingField(label, help, check, kind, **more)
    if isinstance(default, list):
        return dataclasses.field(default_factory=list, metadata={"shown": shown})
    return dataclasses.field(default=default, metadata={"shown": shown})


class Offer(NamedTuple):
    """Machines that are alike, which the system may give to all runs of the cluster together."""

    num_machines: int
    slots: int  # ranks on each
    gpu: str = ""  # the kind of its GPUs; empty for machines that are used without


Places = frozenset[str]


class Guarded(NamedTuple):
    """Settings that act with the server's own rights: what it runs or reads itself, and where secrets go.

    ``on_server``, by field: the program, the file or the address that this server uses with rights of its own.
    ``places``, by secret: where it opens something or is sent to. ``identity``: the field that is empty, so that the
    server asks the other system in its own name."""

    on_server: Mapping[str, object] = {}
    places: Mapping[str, Places] = {}
    identity: str = ""


class SettingsError(ValueError):
    """Settings of a cluster that the engine does not take: by field a sentence for beside it, with the value."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{field}: {words}" for field, words in problems.items()))
        self.problems = {field: sentence(words) for field, words in problems.items()}


def sentence(words: str) -> str:
    is_plain = words.partition(" ")[0].isalpha()  # and no path within the value
    return f"{words[:1].upper() + words[1:] if is_plain else words}."


@dataclass(frozen=True, kw_only=True)
class Settings(ABC):
    """The base of an engine's settings: one ``field`` for each, in the order of the form; its own come last."""

    pool_idle: str = field(
        "Idle time",
        "Such as 10m: machines join one by one as runs wait, stay for the next runs, and leave when they had none for "
        "so long. Empty: each run brings its own.",
        checks.duration(10.0),
        heading="Machines that stay",
    )
    pool_least: int = field("Least number", "That is always there.", checks.number(0, checks.MAX_MACHINES), default=0)

    @property
    def pool(self) -> PoolRules:
        """Rules for machines that stay; where each run brings its own, those that are left over are given back."""
        most = sum(one.num_machines for one in self.offers()) if self.pool_idle else 0
        return PoolRules(self.pool_least, most, seconds_of(self.pool_idle) if self.pool_idle else 0.0)

    @abstractmethod
    def offers(self) -> Sequence[Offer]:
        """Return what runs may be placed on, one for each kind of machine."""

    @abstractmethod
    def guarded(self) -> Guarded:
        """Return what only an administrator changes, and where each secret goes."""

    def problems(self) -> Mapping[str, str]:
        """Return what is wrong, by field, with values that are fine by themselves."""
        return {}

    @classmethod
    def of(cls, document: JsonObject) -> Self:
        """Return settings as they are kept. Raises BadDocument."""
        return convert(document, cls)

    @classmethod
    def fields(cls) -> list[SettingField]:
        """Return the fields in their order, secrets among them."""
        found = [dataclasses.replace(one.metadata["shown"], name=one.name) for one in cls.__dataclass_fields__.values()]
        return sorted(found, key=lambda one: one.name in Settings.__dataclass_fields__)

    @classmethod
    def secret_names(cls) -> frozenset[str]:
        return frozenset(one.name for one in cls.fields() if one.kind == SECRET)

    @classmethod
    def secret_problem(cls, name: str, text: str) -> str:
        """Return what is wrong with a secret, as a sentence that does not show it."""
        (words,) = (one.problem(text) for one in cls.fields() if one.name == name)
        return words and sentence(words)

    @classmethod
    def checked(cls, document: JsonObject, label: str) -> JsonObject:
        """Return the settings with their defaults, as they are kept. ``label``: the system's name. Raises
        SettingsError."""
        fields = [one for one in cls.fields() if one.kind != SECRET]
        unknown = sorted(set(document) - {one.name for one in fields})
        problems = {name: f"{label} has no setting {name!r}" for name in unknown}
        try:
            settings = cls.of({**document})
        except BadDocument as error:
            place, has_place, words = str(error).partition(": ")
            place, words = (place, words) if has_place else ("the document", place)
            name, _, inside = place.partition(".")
            raise SettingsError({**problems, name: f"{inside}: {words}" if inside else words}) from error
        problems |= {one.name: words for one in fields if (words := one.problem(getattr(settings, one.name)))}
        if problems := problems or dict(settings.problems()):
            raise SettingsError(problems)
        kept: JsonObject = dataclasses.asdict(settings)
        return kept

    @classmethod
    def document_of(cls, texts: Mapping[str, str]) -> JsonObject:
        """Return the settings that the texts of a form mean. A number that is none stays a text, which is refused; None
        is its default. A secret that was left empty is not among them: it stays as it is."""
        document: JsonObject = {}
        for one in cls.fields():
            given = texts.get(one.name, "")
            text = given.strip()
            if one.kind == LINES:
                document[one.name] = [line.strip() for line in text.splitlines() if line.strip()]
            elif one.kind == NUMBER:
                is_number = text.isascii() and text.isdecimal() and len(text) < 10
                document[one.name] = int(text) if is_number else text or None
            elif one.kind == FLAG:
                document[one.name] = text == ON
            elif one.kind == YAML:
                document[one.name] = given.replace("\r\n", "\n").rstrip() + "\n" if text else ""
            elif one.kind != SECRET or text:
                document[one.name] = text
        return document

    @classmethod
    def texts_of(cls, document: JsonObject) -> dict[str, str]:
        """Return the texts that show these settings, and the defaults of others."""
        shown = {**dataclasses.asdict(cls()), **document}
        return {one.name: _text(shown.get(one.name, "")) for one in cls.fields() if one.kind != SECRET}


def _text(value: object) -> str:
    if isinstance(value, bool):
        return ON if value else ""
    return "\n".join(map(str, value)) if isinstance(value, list) else str(value)


def guarded_problems(
    before: Guarded, after: Guarded, *, kept: Collection[str], is_administrator: bool
) -> dict[str, str]:
    """Return what is wrong with a change, by field. ``kept``: the secrets that were given before and not anew."""
    found = {}
    if not is_administrator:
        if after.identity and after.identity != before.identity:
            found[after.identity] = "Only an administrator leaves it empty: it lends the server's own identity."
        for name, value in after.on_server.items():
            if value != before.on_server.get(name):
                found[name] = "Only an administrator changes this: the server uses it with rights of its own."
    for name in kept:
        if new := after.places.get(name, Places()) - before.places.get(name, Places()):
            found[name] = f"Give it anew: it was given for another place than {min(new)}."
    return found


def machines(most: int = checks.MAX_MACHINES, *, heading: str = "") -> Any:
    return field("Machines", "How many all runs may have at once.", checks.number(1, most), default=2, heading=heading)


def slots() -> Any:
    return field("Ranks on a machine", "At most; a run may ask for fewer.", checks.number(1, MAX_SLOTS), default=1)


def memory(help: str, pattern: Pattern[str], example: str) -> Any:
    return field("Memory of a machine", help, checks.text(pattern, f"a size such as {example}"))


def shared_folder(user: str, output: str, *, heading: str = "") -> Any:
    words = f"An absolute path that all machines of the cluster share and {user} may write: checkpoints, {output}, and "
    words += "the nodes' own files while they are there."
    return field("Shared folder", words, checks.shared_folder, is_needed=True, heading=heading)


def python(where: str, default: str = "this server's path", *, heading: str = "") -> Any:
    words = f"The interpreter on {where} that has Trainyard; empty for {default}."
    return field("Python", words, checks.path, heading=heading)


def python_of_image() -> Any:
    words = "The interpreter in the image that has Trainyard."
    return field("Python", words, checks.program, default="python3", is_needed=True)


def time_limit(check: Check, default: str = "", **more: Any) -> Any:
    words = "A run that needs longer saves a checkpoint, ends, and goes on in another job."
    return field("Time limit of a job", f"Such as {default or '4h'}. {words}", check, default=default, **more)


def server(machines: str = "the machines", check: Check = checks.server) -> Any:
    return field("This server", f"Its address as {machines} reach it; empty for PUBLIC_URL.", check)


MAX_CHARACTERS = 100_000


class SecretUnreadable(SystemAway):
    """The system cannot be asked without it; the message is a sentence that says what to do."""


def keep_secret(cluster: Cluster, name: str, text: str) -> None:
    """Put the secret into the cluster's row, which the caller saves; an empty text removes it. Raises KeyProblem."""
    kept = {other: value for other, value in cluster.secrets.items() if other != name}
    if text:
        kept[name] = seal_text(cluster_place(cluster.pk, name), text)
    cluster.secrets = kept


def secret_of(cluster: Cluster, name: str) -> str:
    """Return the secret, empty where none was given. Raises SecretUnreadable."""
    sealed = cluster.secrets.get(name)
    if not sealed:
        return ""
    try:
        return _opened(cluster_place(cluster.pk, name), sealed)
    except KeyProblem as error:
        raise SecretUnreadable(f"The {name} of cluster {cluster.name} does not open. {error}") from error


@lru_cache(maxsize=64)  # control asks every second, and a key management service would be asked each time
def _opened(place: str, sealed: str) -> str:
    return open_text(place, sealed)

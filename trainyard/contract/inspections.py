"""Looking into datasets: control asks a node, and the node answers over REST."""

from __future__ import annotations

from trainyard.contract.base import JsonObject, WireStruct
from trainyard.contract.orders import Locked


class Question(WireStruct):
    """What a node is to look at. It travels locked: the address of data is in it. Control repeats it until the node's
    status lists it."""

    dataset: str  # id
    question: str  # id, another one each time
    recipe: str
    project: str = ""  # name
    data: JsonObject = {}  # all of the spec's task.data


class Inspect(Locked):
    """The command INSPECT; locked is a ``Question``."""

    at: float = 0.0  # Unix seconds


class Answer(WireStruct, omit_defaults=True):
    """What the node found, or the sentence of why it found nothing."""

    question: str
    facts: JsonObject | None = None  # MAX_FACTS_BYTES of JSON at most
    problem: str = ""

"""Answers of the REST API about clusters and their nodes. The client does not need what is ``NotRequired``: an older
server may lack it."""

from typing import Annotated, NotRequired, TypedDict

from trainyard.contract.base import JsonObject, said


class Holder(TypedDict):
    slot: int
    run: str


class Node(TypedDict):
    id: str
    name: str
    cluster: str
    address: NotRequired[str]
    slots: int
    held: Annotated[list[Holder], said("which slots are held, and by which run")]
    accelerator: str
    is_in_contact: bool
    is_draining: bool
    sandbox_level: NotRequired[
        Annotated[
            int | None,
            said("0 to 2: how far its ranks are kept apart; null before it has joined. `inventory.sandbox` says why"),
        ]
    ]
    standby: NotRequired[
        Annotated[dict[str, str], said("of a spare, by run: why the run could not begin there at once; or empty")]
    ]
    version: NotRequired[str]
    joined_at: NotRequired[str]
    seen_at: str | None
    inventory: NotRequired[JsonObject]
    health: NotRequired[JsonObject]


class Rule(TypedDict):
    """Consequence of a line of a log."""

    label: str
    pattern: str
    action: str


class Cluster(TypedDict):
    id: str
    name: str
    engine: str
    settings: NotRequired[Annotated[JsonObject, said("of its engine; empty for who may not change them")]]
    secrets: NotRequired[Annotated[list[str], said("names of the settings that are kept locked and never shown")]]
    region: str
    labels: NotRequired[JsonObject]
    spares: NotRequired[Annotated[int, said("so many idle nodes prepare for the loss of another")]]
    interactive: NotRequired[
        Annotated[bool, said("members of its projects may run commands beside ranks of their runs")]
    ]
    isolation_minimum: NotRequired[Annotated[int, said("nodes with a lower sandbox level get no runs")]]
    scheduling: NotRequired[Annotated[str, said("order of the runs that wait")]]
    half_life_days: NotRequired[Annotated[float, said("in which the use of slots counts half")]]
    spared_minutes: NotRequired[Annotated[float, said("in which a run makes no room, from its start")]]
    slot_hour_price: NotRequired[Annotated[float | None, said("null: it has none")]]
    idle_action: NotRequired[Annotated[str, said("what follows for runs that idle: off, mark or stop")]]
    idle_below: NotRequired[Annotated[float, said("percent of use of its accelerators: then a run idles")]]
    idle_minutes: NotRequired[Annotated[float, said("over which the use is measured")]]
    topology: NotRequired[Annotated[list[str], said("labels of nodes, near to far")]]
    projects: NotRequired[Annotated[list[str], said("that may use it, as far as you see them")]]
    log_rules: NotRequired[list[Rule]]
    created_at: NotRequired[str]
    num_nodes: int
    num_nodes_in_contact: int
    num_slots: int
    num_free_slots: Annotated[int, said("on nodes in contact that are not draining")]
    num_queued: int


class Check(TypedDict):
    name: Annotated[str, said("contact, versions, connection, clock, memory, gpu, checkpoints-folder and so on")]
    state: Annotated[str, said("ok, warn or fail; what fails keeps runs off the node")]
    sentence: str
    node: Annotated[str, said("empty: all of them")]
    peer: Annotated[str, said("another node, of a connection")]
    value: float | None
    limit: float | None
    unit: str


class Preflight(TypedDict):
    """Checks of some nodes."""

    id: str
    cluster: str
    why: NotRequired[Annotated[str, said("asked, or placed: before an attempt")]]
    attempt: NotRequired[Annotated[int | None, said("the number of the run's attempt, where it was made for one")]]
    asked_by: NotRequired[str | None]
    nodes: list[str]
    state: Annotated[str, said("running, or the worst of its checks: ok, warn, fail")]
    created_at: NotRequired[str]
    ended_at: NotRequired[str | None]
    checks: list[Check]


class Checks(TypedDict):
    checks: list[Check]

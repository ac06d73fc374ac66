"""The page of one node: how it feels now and felt lately, what it is made of, what it trains."""

from collections import Counter

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.clusters.boxes import boxes_of
from dashboard.pages.shared.frame import Verb, answer, page, person, show, verb_of
from dashboard.pages.shared.gauges import check_table, gauges
from dashboard.pages.shared.run_rows import rows
from runs import actions
from runs.life.preflight.needs import checked_nodes
from runs.life.preflight.vetting import checks_together
from runs.models import Node
from runs.presenting.server_state import contact_time, spare_sentence
from runs.records.metrics.progress import node_history
from runs.rights.access import Permission, can_manage_cluster, get_node, visible_runs
from runs.rights.access.operations import machine
from runs.serving.node_troubles import sentences_of
from trainyard.contract.machines import HIGHEST_LEVEL, Cpu, NodeSandbox, SandboxLevel
from trainyard.formats.figures import number, size

KEPT = "Trainyard's own files, its sockets and its other processes are closed to it."
BY_USER = f"A rank here is another Unix user, one for each project: {KEPT} It reads files that are open to all users."
BY_MECHANISM = {  # heading and sentence, by Inventory.isolation
    "user and namespace": ("Kept apart by user and by mounts", BY_USER),
    "user": ("Kept apart by user", BY_USER),
    "namespace": (
        "Kept apart by mounts",
        f"A rank here has its own view of the disk: {KEPT} It reads what else the node's user may read, and may end "
        "that user's processes.",
    ),
    "none": (
        "Not kept apart",
        "A script here can read what the node's user can read: the node's key, and on a machine that also runs the "
        "server its key and its databases. Let only people launch here whom you trust with all of it.",
    ),
}
ALONE = (
    "It sees the processes of its attempt alone, has no shared memory of System V with others, and is refused the "
    "system calls that lead out: mounts, namespaces, modules, clocks, kernel keys, io_uring."
)
NETWORK = "It reaches what this machine's network reaches."
OWN_TMP = "Its /tmp and /var/tmp are its attempt's own, and are removed with it."
SHARED_TMP = "Its /tmp is the machine's, where it sees the names of other users' files; TMPDIR is its attempt's own."
GUARDED = (
    "Runs of other projects on this machine do not reach its ports: PyTorch's store, TensorBoard. Other machines do: "
    "close the nodes' network to them."
)
UNGUARDED = (
    "Runs of other projects on this machine, and other machines, reach its ports, also PyTorch's store, which knows no "
    "password: {why}."
)
OWN_NETWORK = "It has a network of its own, which leads nowhere."
RANGES = (("30 min", 1800), ("3 h", 3 * 3600), ("24 h", 24 * 3600))
NUM_RUNS = 8
VERBS = {
    "drain": Verb(actions.drain_node, "Draining {name}: nothing new is placed on it.", undo="enable"),
    "enable": Verb(actions.enable_node, "{name} takes runs again.", undo="drain"),
    "remove": Verb(actions.remove_node, "Removed {name}.", leads_to="clusters"),
}


@page(get=machine(Permission.CLUSTERS_READ))
def node(request: HttpRequest, node_id: str) -> HttpResponse:
    found = get_node(request, node_id)
    now = timezone.now()
    seconds = next((span for _, span in RANGES if str(span) == request.GET.get("range")), RANGES[0][1])
    members = checked_nodes(Node.objects.present().filter(cluster=found.cluster), contact_time(now))
    history = node_history(found.pk, since=now.timestamp() - seconds, until=now.timestamp())
    context = {
        "node": found,
        "box": boxes_of(request.user, [found], now)[0],
        "gauges": gauges(found.health_now, history, now.timestamp() - seconds, now.timestamp()),
        "facts": facts(found),
        "rows": rows(list(visible_runs(request.user).filter(attempts__placements__node=found).distinct()[:NUM_RUNS])),
        "checks": check_table([one for one in checks_together(members) if found.name in (one.node, one.peer)]),
        "refused": sentences_of(found.pk),
        "spare_words": spare_sentence(found),
        "may_manage": can_manage_cluster(request.user, found.cluster),
        "most_slots": actions.most_slots(found),
        "isolation": isolation_of(found),
        "ranges": RANGES,
        "range": seconds,
    }
    return show(request, "nodes/node.html", context, fragments={"node": "nodes/_node.html"})


@page(post=machine(Permission.CLUSTERS_MANAGE))
def do(request: HttpRequest, node_id: str, verb: str) -> HttpResponse:
    chosen = verb_of(VERBS, verb, "nodes")
    found = get_node(request, node_id)
    chosen.action(actor=person(request), node=found)
    undo = reverse("do-node", args=(found.name, chosen.undo)) if chosen.undo else ""
    to = reverse(chosen.leads_to) if chosen.leads_to else ""
    return answer(request, chosen.sentence.format(name=found.name), undo=undo, to=to, home="clusters")


@page(post=machine(Permission.CLUSTERS_MANAGE))
def slots(request: HttpRequest, node_id: str) -> HttpResponse:
    found = get_node(request, node_id)
    given = request.POST.get("slots", "").strip()
    wanted = int(given) if given.isascii() and given.isdecimal() and len(given) < 10 else 0
    actions.set_slots(actor=person(request), node=found, slots=wanted)
    return answer(request, f"{found.name} has {found.slots} slot{'s'[: found.slots != 1]} now.", home="clusters")


def facts(node: Node) -> list[tuple[str, str | int, str]]:
    """Return the parts of the machine: name, value, and how to show it (text or size)."""
    found = node.machine
    cpu = found.cpu or Cpu()
    pairs = [
        ("Host", found.hostname, "text"),
        ("Address", node.address, "text"),
        ("System", found.platform, "text"),
        ("Processor", cpu.model, "text"),
        ("Cores", cpu.count, "text"),
        ("Memory", found.memory_bytes, "size"),
        ("Disk", found.disk_bytes, "size"),
        ("Driver", found.driver, "text"),
        ("Python", found.python, "text"),
        ("PyTorch", found.torch, "text"),
        ("Trainyard", node.version, "text"),
        ("Environments by", ", ".join(found.tools or []), "text"),
    ]
    kinds = Counter((str(gpu.name), gpu.memory_bytes) for gpu in found.gpus or [])
    gpus = [("GPUs", f"{num} × {name}, {size(memory)} each", "text") for (name, memory), num in kinds.items()]
    return [(name, value, kind) for name, value, kind in [*gpus, *pairs] if value]


# Sandbox of a node, on its page: the level, what a script reaches, its limits, and why there is no more.


def isolation_of(node: Node) -> dict[str, object]:
    machine = node.machine
    heading, sentence = BY_MECHANISM.get(machine.isolation or "none", BY_MECHANISM["none"])
    level = node.sandbox_level or SandboxLevel.NONE
    known = machine.sandbox or NodeSandbox()
    reach = [sentence]
    if level >= SandboxLevel.NAMESPACES:
        heading += ", and alone in its namespaces"
        reach.append(ALONE)
    if known.has_own_network:
        reach.append(OWN_NETWORK)
    else:
        reach += [NETWORK, UNGUARDED.format(why=known.loopback_problem) if known.loopback_problem else GUARDED]
    if machine.sandbox and level:
        reach.append(OWN_TMP if known.has_own_tmp else SHARED_TMP)
    missing = list(known.missing)
    cluster = node.cluster
    if level < cluster.isolation_minimum:
        missing.insert(0, f"Cluster {cluster.name} asks for level {cluster.isolation_minimum}: it places nothing here.")
    title = f"Sandbox level {level} of {HIGHEST_LEVEL}: {heading[0].lower()}{heading[1:]}"
    limits = limits_of(known) if machine.sandbox else []
    return {"heading": title, "sentences": reach, "limits": limits, "missing": missing}


def limits_of(known: NodeSandbox) -> list[str]:
    """Return sentences about what ranks may take of the machine."""
    memory, cores = f"{size(known.memory_bytes)} of memory", f"{number(known.cpus)} cores"
    words = []
    if known.cgroup:
        words.append(f"Each attempt has a control group below {known.cgroup}.")
        words.append(f"A rank may take {memory}." if known.memory_bytes else "A run leaves the machine some memory.")
        words.append(f"A rank may take {cores}." if known.cpus else "Runs share the cores by their ranks.")
    else:
        words.append(f"No control group limits a run: {known.cgroup_problem or 'the node does not say why'}.")
        most = f"A process may take {memory}, but for ranks with GPUs."
        words.append(most if known.memory_bytes else "Memory and cores are not limited.")
    if known.processes:
        words.append(f"The ranks of a project may have {known.processes:,} processes and threads.")
    return words

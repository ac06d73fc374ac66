"""Commands that are one request each: a row says what is typed, what is asked of REST, and what is printed."""

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

from trainyard.cli.commands import command, group, speaks_json
from trainyard.cli.launching import loaded
from trainyard.cli.screen import Screen, ago, figure, size
from trainyard.contract.base import JsonObject
from trainyard.rest.client import SUBMIT_S, Client, quoted
from trainyard.spec import Problem, SpecError
from trainyard.spec.document import parse_document, parse_value


class Verb(NamedTuple):
    sentence: str
    call: str  # method and path; what is in braces is typed. GET+PUT: what is not typed stays as it is
    said: str = ""  # of the answer, and of what was typed; where a list is empty
    takes: str = ""  # of the body or the query: CAPITALS without an option, `:` for YAML, `*` for several
    shows: str = ""  # the columns of a list, or the field of the answer that is printed alone


RUN, SWEEP = "{name} is {status}. {reason[sentence]}", "{status}: {reason[sentence]}"
ONCE = "This is shown once; it ends at {expires_at}."
NODE, CLUSTER, PROJECT, GROUP = "nodes/{node}", "clusters/{cluster}", "projects/{project}", "groups/{group}"
TRIAL = "sweeps/{id}/trials/{number}"
ON_RUN = {
    "stop": "stop a run: its ranks save and end; asked again, they are killed",
    "pause": "save a run's state and free its slots until it is resumed",
    "resume": "queue a paused run at its old place in line; it goes on from its checkpoint",
    "archive": "hide an ended run from the lists",
    "unarchive": "show an archived run in the lists again",
    "give-up": "end a run whose nodes are out of contact; a node that returns stops it",
}
ON_SWEEP = {
    "stop": "end a sweep: its live trials save and end",
    "pause": "launch no further trial of a sweep until it is resumed",
    "resume": "go on with a paused sweep",
}
GROUPS = {"project": "people and limits of a project", "cluster": "nodes that train", "job": "specs by name"}
GROUPS |= {"group": "people who have roles together", "report": "texts about runs"}
FIELDS = (  # of a cluster
    "file region labels: spares: interactive: isolation_minimum: scheduling half_life_days: spared_minutes: "
    "slot_hour_price: idle_action idle_below: idle_minutes: topology: projects: settings: log_rules:"
)
LIMITS = (
    "slots: slots_per_person: runs_at_once: guaranteed_slots: weight: share_group group_weight: slot_hours_month: "
    "budget_month: max_run_hours: max_priority:"
)
VERBS = {
    **{name: Verb(words, f"POST runs/{{id}}/{name}", RUN) for name, words in ON_RUN.items()},
    **{f"sweep {name}": Verb(words, f"POST sweeps/{{id}}/{name}", SWEEP) for name, words in ON_SWEEP.items()},
    "sweep delete": Verb("forget an ended sweep; its runs stay", "DELETE sweeps/{id}", "{id} is deleted."),
    "sweep promote": Verb("let a pruned trial go on from its checkpoint", f"POST {TRIAL}/promote", "It goes on."),
    "sweep replay": Verb("train what led to a trial of a population as one run; print its id", f"POST {TRIAL}/replay",
                         shows="id"),
    "sweeps": Verb("list sweeps, the newest first", "GET sweeps", "No sweeps. Start one with `trainyard sweep FILE`.",
                   "project", "id name status trials_total best project created_at"),
    "secrets rotate-key": Verb("wrap all secrets with a new key (administrators)", "POST secrets/rotate-key",
                               "{sentence} {versions} values are wrapped with it."),
    "follow": Verb("get all kinds of notices of a run", "POST runs/{id}/follow", "You get all notices of {name}."),
    "mute": Verb("get no notices of a run", "POST runs/{id}/mute", "You get no notices of {name}."),
    "unfollow": Verb("get what your rules say of a run", "POST runs/{id}/unfollow", "Your rules count for {name}."),
    "delete": Verb("delete an ended run and everything that it left", "DELETE runs/{id}", "{id} is deleted."),
    "move": Verb("put an ended run into another project", "POST runs/{id}/move",
                 "{name} is in project {project}.", "PROJECT"),
    "exclude-node": Verb("save a run and go on without one of its nodes", "POST runs/{id}/exclude-node",
                         "{name} goes on without {node}. {reason[sentence]}", "NODE"),
    "priority": Verb("change a run's place in the queue", "PATCH runs/{id}", "{name}: {priority}.", "PRIORITY:"),
    "note": Verb("write a note at a step of a run", "POST runs/{id}/notes", "Noted at step {step}.", "STEP: TEXT"),
    "attempts": Verb("list a run's attempts", "GET runs/{id}/attempts",
                     shows="number world_size created_at ended_at reason"),
    "events": Verb("print what happened to a run", "GET runs/{id}/events", shows="at code sentence actor"),
    "annex-xi": Verb("print the EU AI Act's sheet of a training", "GET runs/{id}/annex-xi"),
    "checkpoints": Verb("list what a run can be gone on from", "GET runs/{id}/checkpoints",
                        "No checkpoint is known so far. A recipe takes one every `checkpoint.every_steps` steps, and a "
                        "script reports its own with `run.note`.", "",
                        "step state bytes attempt node rank took_s at restored_by"),
    "drain": Verb("give a node no new runs; elastic ones leave it", f"POST {NODE}/drain", "{name} takes no new runs."),
    "enable": Verb("give a drained node new runs again", f"POST {NODE}/enable", "{name} takes runs again."),
    "node-slots": Verb("change how many ranks a node takes", f"PATCH {NODE}", "{name} has {slots} slots.", "SLOTS:"),
    "remove-node": Verb("take a node off its cluster", f"DELETE {NODE}", "{node} is removed."),
    "clusters": Verb("list clusters", "GET clusters", "No clusters yet.", "",
                     "name engine region num_nodes num_nodes_in_contact num_slots num_free_slots num_queued id"),
    "nodes": Verb("list nodes", "GET nodes",
                  "No nodes. Add one with `trainyard node --join TOKEN --server URL` on its machine.", "cluster",
                  "name cluster slots held accelerator is_in_contact is_draining seen_at id"),
    "datasets": Verb("list the data that projects train on by name", "GET datasets",
                     "No datasets. Name one with `trainyard dataset add NAME --source csv --location /data/rows.csv`.",
                     "project", "name source state num_rows size_bytes project cluster checked_at id"),
    "cluster create": Verb("make a cluster; print its id", "POST clusters", "{name} is made.", f"NAME {FIELDS}", "id"),
    "cluster change": Verb("change a cluster", f"PATCH {CLUSTER}", "{name} is changed.", f"name {FIELDS}"),
    "cluster delete": Verb("delete a cluster without nodes and runs", f"DELETE {CLUSTER}", "{cluster} is deleted."),
    "cluster queue": Verb("list the runs that wait", f"GET {CLUSTER}/queue", shows="place run name project reason"),
    "cluster join-token": Verb("print a token for a machine to join", f"POST {CLUSTER}/join-tokens", ONCE, "", "token"),
    "projects": Verb("list projects", "GET projects", shows="name created_at id"),
    "project create": Verb("make a project; print its id", "POST projects", "{name} is made.", "NAME", "id"),
    "project change": Verb("change a project's part of the clusters", f"GET+PUT {PROJECT}/limits",
                           "{project} is changed.", LIMITS),
    "project limits": Verb("show a project's part of the clusters", f"GET {PROJECT}/limits"),
    "project members": Verb("list its people", f"GET {PROJECT}/members", shows="username name role custom_role since"),
    "project role": Verb("give a member another role", f"PUT {PROJECT}/members/{{username}}",
                         "{username} is {role}.", "ROLE custom_role"),
    "project remove": Verb("take somebody out", f"DELETE {PROJECT}/members/{{username}}", "{username} is removed."),
    "project invite": Verb("print an invitation's secret", f"POST {PROJECT}/invitations", ONCE, "ROLE email", "secret"),
    "project quota": Verb("let a project store so much", f"PUT {PROJECT}/quota", "It is set.", "QUOTA_BYTES:"),
    "project regions": Verb("pin a project to regions; none is anywhere", f"PUT {PROJECT}/regions",
                            "{project} is changed.", "REGIONS*"),
    "groups": Verb("list groups of people", "GET groups", "No groups.", "", "name members projects clusters id"),
    "group create": Verb("make a group; print its id", "POST groups", "{name} is made.", "NAME", "id"),
    "group delete": Verb("delete a group", f"DELETE {GROUP}", "{group} is deleted."),
    "group members": Verb("set who is in a group", f"PUT {GROUP}/members", "{name} is changed.", "MEMBERS*"),
    "group join-project": Verb("give a group a role", f"PUT {GROUP}/{PROJECT}", "{name}: {role}.", "ROLE custom_role"),
    "group leave-project": Verb("take a group's role", f"DELETE {GROUP}/{PROJECT}", "{group} is out of {project}."),
    "group join-cluster": Verb("let a group run on a cluster", f"PUT {GROUP}/{CLUSTER}", "{name}: {role}.", "ROLE"),
    "group leave-cluster": Verb("shut a group out of it", f"DELETE {GROUP}/{CLUSTER}", "{group} is out of {cluster}."),
    "reports": Verb("list reports", "GET reports", "No reports.", "project", "title project version changed_at id"),
    "report create": Verb("make a report; print its id", "POST reports", "It is made.", "PROJECT TITLE body", "id"),
    "report show": Verb("print a report", "GET reports/{id}"),
    "report change": Verb("save its next version", "GET+PUT reports/{id}", "Version {version}.", "title body version:"),
    "report delete": Verb("delete a report with all its versions", "DELETE reports/{id}", "{id} is deleted."),
    "jobs": Verb("list jobs", "GET jobs", takes="project name", shows="name version project created_by created_at id"),
    "job save": Verb("save the spec in FILE under its name", "POST jobs", "{name}: version {version}.", "FILE", "id"),
    "job delete": Verb("forget a job with all its versions", "DELETE jobs/{id}", "{id} is deleted."),
    "usage": Verb("list slots that were used", "GET usage", takes="by from to",
                  shows="name slot_seconds idle_seconds energy_joules cost"),
    "shares": Verb("list links for guests", "GET share", takes="object", shows="object expires_at revoked_at id"),
    "share": Verb("make a link for guests", "POST share", "It ends at {expires_at}.", "OBJECT expires_at", "url"),
    "unshare": Verb("revoke a link for guests", "DELETE share/{id}", "{id} is revoked."),
    "token list": Verb("list tokens", "GET tokens", takes="user", shows="name last_used_at expires_at revoked_at id"),
    "token revoke": Verb("revoke a token", "DELETE tokens/{id}", "{id} is revoked."),
    "whoami": Verb("show whose token this is", "GET me"),
}  # fmt: skip


def add_verbs(commands: Any) -> None:
    for words, verb in VERBS.items():
        above, _, name = words.rpartition(" ")
        made = command(group(commands, above, GROUPS.get(above, "")) if above else commands, name, ask, verb.sentence)
        made.set_defaults(verb=verb)
        for one in re.findall(r"{(\w+)}", verb.call):
            made.add_argument(one, metavar=one.upper())
        for word in verb.takes.split():
            one, value = word.strip(":*"), "VALUE" if ":" in word else "TEXT"
            if one.isupper():
                made.add_argument(one.lower(), metavar=one, nargs="*" if "*" in word else None)
            else:
                option = f"--{one.replace('_', '-')}"
                made.add_argument(option, dest=one, metavar=value, default=argparse.SUPPRESS, help="as REST takes it")
        if verb.call.startswith("GET ") and verb.shows:
            speaks_json(made)


def ask(client: Client, arguments: argparse.Namespace, screen: Screen) -> None:
    verb: Verb = arguments.verb
    typed, (method, path) = vars(arguments), verb.call.split()
    place = path.format_map({name: quoted(str(value)) for name, value in typed.items()})
    given = _given(verb, typed)
    if method == "GET" and (titles := verb.shows.split()):
        found = list(client.pages(place, JsonObject, **given))
        named = (re.sub("(size_)?bytes", "size", title) for title in titles)
        heads = [re.sub("^(num|is)_|_at$", "", title).replace("_", " ") for title in named]
        is_json = arguments.json
        screen.listing(
            found, heads, lambda one: [shown(one.get(key), key) for key in titles], verb.said, is_json=is_json
        )
    elif method == "GET":
        screen.json(client.call("GET", place, object, params=given))
    elif verb.takes and not given:
        raise SpecError([Problem("", f"{arguments.command}: say what to change, as --help lists it")])
    else:
        if method == "GET+PUT":
            now, method = client.call("GET", place, JsonObject), "PUT"
            given = {name: now[name] for name in re.findall(r"\w+", verb.takes) if name in now} | given
        body = {} if method == "DELETE" else {"json": given}
        answer = client.call(method, place, JsonObject, timeout=SUBMIT_S, **body)
        if verb.said:
            screen.say(verb.said.format_map({**typed, **answer}).strip())
        if verb.shows:
            screen.line(str(answer[verb.shows]))


def _given(verb: Verb, typed: JsonObject) -> JsonObject:
    """Return the fields that were typed, over those of a file. Raises SpecError."""
    takes = [(word.strip(":*").lower(), word) for word in verb.takes.split()]
    given = {name: parse_value(typed[name]) if ":" in word else typed[name] for name, word in takes if name in typed}
    if (file := given.pop("file", None)) is None:
        return given
    document = parse_document(sys.stdin.read(), "the standard input") if file == "-" else loaded(Path(file))
    if not isinstance(document, dict):
        raise SpecError([Problem("", f"{file} holds no map of fields")])
    return document | given


def shown(value: Any, name: str = "") -> str:
    """Return a value of an answer as a cell: times by how long ago they were, reasons by their sentence, other
    objects by their first two values."""
    if name.endswith("bytes"):
        return size(value)
    if isinstance(value, dict) and "sentence" in value:
        return str(value["sentence"])
    if isinstance(value, dict):
        return "/".join(map(shown, list(value.values())[:2]))
    if isinstance(value, list):
        return ", ".join(map(shown, value)) or "none"
    if isinstance(value, str):
        return ago(value) if re.match(r"\d{4}-\d\d-\d\dT", value) else value
    return "" if value is None else figure(value) if isinstance(value, float) else json.dumps(value)

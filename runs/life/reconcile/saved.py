"""A round of placing as plain values: all that it goes by, which may be saved and played again elsewhere. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from runs.life.preflight.vetting import LeftOut, Vetted, explained
from runs.placing.admission import Terms, has_slot_limit, refused, within
from runs.placing.fitting import Answer, Request, Room, Waiting
from runs.placing.forecasting import Hold
from runs.placing.policies import Standing, ordered, policy_of
from runs.placing.scheduling import place
from runs.values.status import Reason
from trainyard.formats.words import counted, listed


@dataclass(frozen=True)
class Round:
    """Facts that a round goes by. ``again`` are runs that recover, ``queue`` those that wait, the oldest first;
    ``lasts``: how many seconds each of them goes on, as is expected."""

    cluster: str  # its name
    policy: str
    again: Sequence[Request]
    queue: Sequence[Request]
    terms: Terms = field(default_factory=lambda: Terms("", frozenset(), frozenset(), {}, {}))
    standings: Mapping[str, Standing] = field(default_factory=dict)
    rooms: Sequence[Room] = ()
    lasts: Mapping[str, float] = field(default_factory=dict)

    def admitted(self) -> tuple[list[Request], list[Waiting]]:
        """Return the requests in the order in which they are placed, and those that may not start now."""
        terms = self.terms  # a run that has started goes on, whatever limit was reached since
        early = refused(self.again, replace(terms, parts={})) | refused(self.queue, terms)
        again, queue = ([one for one in requests if one.run not in early] for requests in (self.again, self.queue))
        # A limit counts the least number of nodes: more comes by growing, one run after another.
        queue = [replace(one, node_counts=()) if has_slot_limit(one, terms) else one for one in queue]
        arranged = ordered(policy_of(self.policy), queue, self.standings)
        return [*(within(one, terms) for one in again), *arranged], [Waiting(run, *why) for run, why in early.items()]


@dataclass(frozen=True)
class SavedQueue:
    """A round as it was. ``left_out``: by run and node, why a check keeps the run off it; ``kept``: reasons of runs
    that wait for something else than room, such as checks and pauses."""

    at: str
    round: Round
    live: Sequence[Hold]
    left_out: LeftOut
    kept: Mapping[str, Reason] = field(default_factory=dict)

    def decided(self) -> list[Answer]:
        """Play the round: return its placements and reasons to wait."""
        requests, shut_out = self.round.admitted()
        for number, one in enumerate(requests):
            excluded = one.excluded.union(self.left_out.get(one.run, ()))
            requests[number] = replace(one, lasts_s=self.round.lasts.get(one.run), excluded=excluded)
        placed = place(self.round.cluster, requests, self.round.rooms)
        answers = [*(explained(one, Vetted(placed, self.left_out)) for one in placed), *shut_out]
        return [Waiting(one.run, *self.kept[one.run]) if one.run in self.kept else one for one in answers]

    def sentence(self, answer: Answer) -> str:
        """Say what was decided about a run, as its history does."""
        if isinstance(answer, Waiting):
            return answer.sentence
        names, left_out = {room.node: room.name for room in self.round.rooms}, Vetted([], self.left_out)
        request = next(one for one in (*self.round.again, *self.round.queue) if one.run == answer.run)
        nodes, why = [names[part.node] for part in answer.parts], left_out.sentence_for(answer.run)
        return placed_sentence(nodes, request.node_counts, left_out=why)

    def without_names(self, seen: Collection[str]) -> "SavedQueue":
        """Return it with numbers in place of projects, and groups of them, that are not among the ``seen``."""
        found, terms = self.round, self.round.terms
        requests = [*found.again, *found.queue]
        known = terms.projects | terms.parts.keys() | terms.elsewhere.keys() | found.standings.keys()
        names = sorted(known | {one.project for one in requests})
        of = {name: name if name in seen else f"project-{number}" for number, name in enumerate(names, 1)}
        theirs = {one.run for one in requests if one.project not in seen}

        def kept(key: str) -> str:
            name, _, rest = key.rpartition("/")
            return f"{of.get(name, 'another')}/{rest}"

        def renamed(one: Request) -> Request:
            needs = one.needs and msgspec.structs.replace(one.needs, kept=tuple(map(kept, one.needs.kept)))
            return replace(one, project=of[one.project], needs=needs)

        again, queue = ([renamed(one) for one in some] for some in (found.again, found.queue))
        rooms = [
            replace(room, machine=msgspec.structs.replace(room.machine, kept={kept(key): n for key, n in held.items()}))
            if (held := room.machine.kept)
            else room
            for room in found.rooms
        ]
        hidden = replace(
            terms,
            projects=frozenset(of[name] for name in terms.projects),
            elsewhere={of[name]: words.replace(name, of[name], 1) for name, words in terms.elsewhere.items()},
            trials={
                run: why._replace(sentence="It waits for something else than room.") if run in theirs else why
                for run, why in terms.trials.items()
            },
            parts={of[name]: part for name, part in terms.parts.items()},
        )
        groups = {one.group: f"group-{of[name]}" for name, one in found.standings.items()}
        groups |= {one.group: one.group for name, one in found.standings.items() if name in seen} | {"": ""}
        standings = {of[name]: one._replace(group=groups[one.group]) for name, one in found.standings.items()}
        facts = replace(found, again=again, queue=queue, terms=hidden, standings=standings, rooms=rooms)
        return replace(self, round=facts)


def placed_sentence(
    names: Sequence[str], node_counts: Sequence[int] | None, *, without: str = "", left_out: str = ""
) -> str:
    """Say where a run was placed. ``without``: what is not there, ``left_out``: why a check keeps it from nodes."""
    words = f"Placed on {listed(names)}."
    if node_counts:
        asked = f"{node_counts[0]} to {node_counts[-1]}"
        words += f" It trains on {counted(len(names), 'node')}; its spec asks for {asked}."
    return f"{words}{without} Left out: {left_out}" if left_out else f"{words}{without}"

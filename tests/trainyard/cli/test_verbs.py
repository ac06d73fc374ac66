"""Commands that are one request each: what each does, and what it says of bad input."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from django.contrib.auth.models import Group
from django.utils import timezone

from runs import actions
from runs.models import Cluster, Membership, Project, Run, Token
from runs.values.status import Status
from tests.cast import Cast, make_attempt, make_node, make_run
from tests.trainyard.command import Trainyard
from trainyard.cli.verbs import VERBS

pytestmark = pytest.mark.usefixtures("valkey")


@pytest.fixture
def boss(trainyard: Trainyard, cast: Cast, monkeypatch: pytest.MonkeyPatch) -> Trainyard:
    """The command as an administrator."""
    cast.owner.is_staff = cast.owner.is_superuser = True
    cast.owner.save()
    monkeypatch.setenv("TRAINYARD_TOKEN", actions.create_token(actor=cast.owner, name="test")[1])
    return trainyard


def test_tags_are_added_removed_and_printed(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run(tags=["draft"])
    assert trainyard("tag", run.pk, "+keep", "+good", "-draft").out == "keep\ngood\n"
    assert trainyard("tag", run.pk, "-good").out == trainyard("tag", run.pk).out == "keep\n"
    for word in ("keep", "+", "-"):
        ended = trainyard("tag", run.pk, word)
        assert (ended.code, ended.err) == (2, f"tag takes +NAME or -NAME, not {word!r}\n")
    assert Run.objects.get(pk=run.pk).tags == ["keep"]


def test_notes_are_set_and_printed(
    trainyard: Trainyard, make_run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = make_run()
    assert trainyard("notes", run.pk, "the good one").err == "The notes are kept.\n"
    assert trainyard("notes", run.pk).out == "the good one\n"
    monkeypatch.setattr("sys.stdin", io.StringIO("two\nlines\n"))
    assert trainyard("notes", run.pk, "-").code == 0
    assert trainyard("notes", run.pk).out == "two\nlines\n"
    assert trainyard("notes", run.pk, "").err == "The notes are gone.\n"


def test_an_archived_run_comes_back_and_a_lost_one_is_given_up(
    trainyard: Trainyard, cast: Cast, make_run: Callable[..., Run]
) -> None:
    run = make_run(status=Status.FAILED)
    assert trainyard("archive", run.pk).code == 0
    assert trainyard("unarchive", run.pk).code == 0
    assert run.pk in trainyard("runs").out
    lost = make_run(status=Status.LOST)
    make_attempt(lost, [make_node(cast.cluster)], contact_lost_at=timezone.now())
    assert trainyard("give-up", lost.pk).code == 0
    assert Run.objects.get(pk=lost.pk).status == Status.CANCELLED
    ended = trainyard("give-up", run.pk)
    assert ended.code == 1 and ended.err.endswith(".\n")


def test_a_run_is_followed_muted_and_left_to_the_rules(trainyard: Trainyard, make_run: Callable[..., Run]) -> None:
    run = make_run()
    for verb, muted, words in (
        ("follow", [False], "get all notices"),
        ("mute", [True], "get no notices"),
        ("unfollow", [], "count"),
    ):
        done = trainyard(verb, run.pk)
        assert done.code == 0 and words in done.err and run.name in done.err
        assert list(run.followings.values_list("is_muted", flat=True)) == muted


def test_a_place_in_the_queue_a_note_at_a_step_and_what_happened(
    trainyard: Trainyard, make_run: Callable[..., Run]
) -> None:
    run = make_run()
    assert trainyard("priority", run.pk, "10").err == f"{run.name}: 10.\n"
    ended = trainyard("priority", run.pk, "400")
    assert ended.code == 2 and "priority" in ended.err
    assert trainyard("note", run.pk, "4", "new data").code == 0
    assert "new data" in trainyard("events", run.pk).out
    assert json.loads(trainyard("attempts", run.pk, "--json").out) == {"items": []}
    assert "trainyard cluster queue" not in trainyard("cluster", "queue", "local").out
    assert run.pk in trainyard("cluster", "queue", "local").out


def test_a_cluster_is_made_from_options_over_a_file_changed_and_deleted(boss: Trainyard, tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    file.write_text("region: eu\nspares: 3\nprojects: [default]\n")
    made = boss("cluster", "create", "lab", "--file", str(file), "--spares", "2", "--labels", "{rack: '7'}")
    assert (made.code, made.err) == (0, "lab is made.\n")
    cluster = Cluster.objects.get(pk=made.out.strip())
    assert (cluster.name, cluster.region, cluster.spares, cluster.labels) == ("lab", "eu", 2, {"rack": "7"})
    assert boss("cluster", "change", "lab", "--name", "007", "--labels", "{rack: null}").code == 0
    cluster.refresh_from_db()
    assert (cluster.name, cluster.labels, cluster.spares) == ("007", {}, 2)
    assert boss("cluster", "join-token", "007").out.startswith("join_")
    assert boss("cluster", "delete", "007").err == "007 is deleted.\n"
    assert not Cluster.objects.filter(pk=cluster.pk).exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", "lab", "--spares", "-1"), "spares"),
        (("create", "lab", "--scheduling", "bogus"), "bogus"),
        (("create", "lab", "--labels", "{"), "cannot be read"),
        (("create", "lab", "--file", "nothing.yaml"), "nothing.yaml cannot be read"),
        (("create", "lab", "--projects", "[nope]"), "nope"),
        (("change", "local"), "say what to change"),
    ],
)
def test_a_bad_field_of_a_cluster_is_named(words: tuple[str, ...], sentence: str, boss: Trainyard) -> None:
    ended = boss("cluster", *words)
    assert ended.code in (1, 2) and sentence in ended.err and ended.out == ""


def test_a_file_of_fields_is_a_map(boss: Trainyard, tmp_path: Path) -> None:
    (tmp_path / "list.yaml").write_text("[1]")
    ended = boss("cluster", "create", "lab", "--file", str(tmp_path / "list.yaml"))
    assert ended.code == 2 and "holds no map of fields" in ended.err


def test_a_project_is_made_and_what_is_not_named_of_its_limits_stays(boss: Trainyard, cast: Cast) -> None:
    made = boss("project", "create", "vision")
    assert Project.objects.get(pk=made.out.strip()).name == "vision"
    assert "vision" in boss("projects").out
    assert "vision" in [one["name"] for one in json.loads(boss("projects", "--json").out)["items"]]
    assert boss("project", "change", "vision", "--slots", "16", "--weight", "2").code == 0
    assert boss("project", "change", "vision", "--max-priority", "60").err == "vision is changed.\n"
    limits = json.loads(boss("project", "limits", "vision").out)
    assert (limits["slots"], limits["weight"], limits["max_priority"]) == (16, 2.0, 60)
    assert boss("project", "change", "vision", "--slots", "null").code == 0
    assert json.loads(boss("project", "limits", "vision").out)["slots"] is None
    assert "slots" in boss("project", "change", "vision", "--slots", "many").err
    assert boss("project", "create", "vision").code == 1
    assert boss("project", "regions", "vision").code == 0
    assert boss("project", "quota", "vision", "5000").code == 0


def test_people_of_a_project(boss: Trainyard, cast: Cast) -> None:
    assert cast.mate.username in boss("project", "members", "default").out
    assert boss("project", "invite", "default", "viewer").code == 0
    assert boss("project", "role", "default", cast.mate.username, "viewer").code == 0
    assert Membership.objects.get(user=cast.mate).role == "viewer"
    assert boss("project", "role", "default", cast.mate.username, "king").code == 2
    assert boss("project", "remove", "default", cast.mate.username).code == 0
    assert boss("project", "remove", "default", cast.mate.username).code == 1


def test_a_group_gets_people_and_roles_and_goes(boss: Trainyard, cast: Cast) -> None:
    assert boss("groups").err == "No groups.\n"
    made = boss("group", "create", "research")
    group = Group.objects.get(pk=made.out.strip())
    assert (made.code, made.err, group.name) == (0, "research is made.\n", "research")
    assert boss("group", "members", "research", "mate", "viewer").err == "research is changed.\n"
    assert set(group.user_set.values_list("username", flat=True)) == {"mate", "viewer"}
    assert boss("group", "join-project", "research", "default", "maintainer").err == "research: maintainer.\n"
    assert boss("group", "join-cluster", "research", "local", "operator").err == "research: operator.\n"
    found = json.loads(boss("groups", "--json").out)["items"][0]
    assert (found["members"], found["projects"][0]["role"]) == (["mate", "viewer"], "maintainer")
    line = boss("groups").out.splitlines()[1]
    assert "mate, viewer" in line and "default/maintainer" in line and "local/operator" in line
    assert boss("group", "leave-project", "research", "default").err == "research is out of default.\n"
    assert boss("group", "leave-cluster", "research", "local").err == "research is out of local.\n"
    assert not group.project_roles.exists() and not group.cluster_roles.exists()
    assert boss("group", "members", "research").code == 0 and not group.user_set.exists()
    assert boss("group", "delete", str(group.pk)).err == f"{group.pk} is deleted.\n"
    assert not Group.objects.exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", ""), "name"),
        (("create", "research"), "research"),
        (("members", "research", "nobody"), "There is nobody named 'nobody'."),
        (("join-project", "research", "default", "king"), "role"),
        (("join-project", "research", "default", "viewer", "--custom-role", "nope"), "nope"),
        (("join-cluster", "research", "local", "owner"), "role"),
        (("delete", "nope"), "nope"),
    ],
)
def test_what_no_group_may_be_is_named(words: tuple[str, ...], sentence: str, boss: Trainyard) -> None:
    Group.objects.create(name="research")
    ended = boss("group", *words)
    assert ended.code in (1, 2) and sentence in ended.err and ended.out == ""


def test_a_report_is_made_changed_printed_and_deleted(trainyard: Trainyard, cast: Cast) -> None:
    assert trainyard("reports").err == "No reports.\n"
    made = trainyard("report", "create", "default", "Warm-up", "--body", "# What we saw")
    assert (made.code, made.err) == (0, "It is made.\n")
    report = made.out.strip()
    assert trainyard("report", "change", report, "--body", "Less is more.").err == "Version 2.\n"
    shown = json.loads(trainyard("report", "show", report).out)
    assert (shown["title"], shown["body"], shown["version"]) == ("Warm-up", "Less is more.", 2)
    assert report in trainyard("reports", "--project", "default").out
    stale = trainyard("report", "change", report, "--title", "Other", "--version", "1")
    assert stale.code == 1 and stale.err.endswith(".\n"), "nothing is overwritten"
    assert trainyard("report", "change", report).code == 2
    assert trainyard("report", "delete", report).err == f"{report} is deleted.\n"
    assert trainyard("report", "show", report).code == 1
    assert trainyard("report", "create", "nope", "Warm-up").code == 1


def test_a_node_gets_other_slots_and_leaves(boss: Trainyard, cast: Cast) -> None:
    make_node(cast.cluster, "node-a")
    assert boss("node-slots", "node-a", "3").err == "node-a has 3 slots.\n"
    assert boss("node-slots", "node-a", "0").code == 2
    assert boss("remove-node", "node-a").err == "node-a is removed.\n"
    assert "No nodes." in boss("nodes").err


def test_jobs_links_and_tokens(trainyard: Trainyard, cast: Cast, tmp_path: Path, make_run: Callable[..., Run]) -> None:
    (tmp_path / "job.yaml").write_text("name: hello\ntask: {recipe: language-model}\n")
    job = trainyard("job", "save", str(tmp_path / "job.yaml"))
    assert job.err == "hello: version 1.\n" and job.out.strip() in trainyard("jobs", "--project", "default").out
    assert trainyard("job", "delete", job.out.strip()).code == 0
    url = trainyard("share", f"run/{make_run().pk}").out
    assert url.startswith("http")
    link = json.loads(trainyard("shares", "--json").out)["items"][0]["id"]
    assert trainyard("unshare", link).code == 0
    assert json.loads(trainyard("whoami").out)["username"] == cast.mate.username
    other = trainyard("token", "create", "--name", "other")
    assert other.code == 0 and "other" in trainyard("token", "list").out
    token = Token.objects.get(name="other")
    assert trainyard("token", "revoke", token.pk).code == 0
    token.refresh_from_db()
    assert token.revoked_at is not None
    assert trainyard("usage", "--by", "person").code == 0
    assert trainyard("usage", "--by", "moon").code == 2


def test_an_empty_id_revokes_nothing(trainyard: Trainyard) -> None:
    """As of a variable of the shell that is not set: ``DELETE /tokens`` would revoke all."""
    assert trainyard("token", "revoke", "").code == 1
    assert not Token.objects.filter(revoked_at__isnull=False).exists()


def typed_for(words: str) -> list[str]:
    """Return the words of a command with something for each that it must have."""
    verb = VERBS[words]
    positional = [one for one in verb.takes.split() if one.strip(":*").isupper() and "*" not in one]
    fields = [one for one in verb.takes.split() if one != "file" and not one.strip(":*").isupper()]
    values = ["1" if one.endswith(":") else __file__ if one == "FILE" else "x" for one in positional]
    option = [f"--{fields[0].strip(':').replace('_', '-')}", "1"] if fields and not positional else []
    return [*words.split(), *["nope"] * verb.call.count("{"), *values, *option]


@pytest.mark.parametrize("words", [words for words, verb in VERBS.items() if "{" in verb.call])
def test_what_is_not_there_is_exit_code_1_and_a_sentence(words: str, trainyard: Trainyard) -> None:
    ended = trainyard(*typed_for(words))
    assert ended.code in (1, 2) and ended.out == "" and len(ended.err.splitlines()) == 1, ended


@pytest.mark.parametrize(
    "words",
    ["cluster create x", "cluster change local --spares 1", "cluster delete local", "cluster join-token local",
     "group create x", "project create x", "project change default --slots 1", "project quota default 1",
     "secrets rotate-key"],
)  # fmt: skip
def test_what_one_may_not_do_is_exit_code_1_and_a_sentence(words: str, trainyard: Trainyard) -> None:
    ended = trainyard(*words.split())
    assert ended.code == 1 and ended.out == "" and ended.err.endswith(".\n"), ended


def test_a_server_that_is_not_there_is_exit_code_3(trainyard: Trainyard, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAINYARD_URL", "http://127.0.0.1:9")
    for words in ("tag x +y", "notes x", "projects", "cluster create x", "give-up x"):
        ended = trainyard(*words.split())
        assert ended.code == 3 and len(ended.err.splitlines()) == 1, words


def test_somebody_elses_run_is_not_there(trainyard: Trainyard, cast: Cast) -> None:
    other = Project.objects.create(name="other")
    run = make_run(cast, project=other)
    for words in (("tag", run.pk, "+x"), ("notes", run.pk, "x"), ("unarchive", run.pk)):
        assert trainyard(*words).code == 1

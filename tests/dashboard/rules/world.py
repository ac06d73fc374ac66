"""A project with one of everything that routes are about, and a client for each caller."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group
from django.db import transaction
from django.test import Client
from django.utils import timezone

from dashboard.pages.launch.spec_form import typed_of
from runs import actions
from runs.actions import mlflow
from runs.models import ClusterRole, GitKey, Membership, Project, Role, Run, Token, User
from runs.rights.access import Permission
from runs.values.status import Phase, Status
from tests.cast import Cast, make_attempt, make_node, make_run, make_sweep, make_user, spec
from tests.dashboard.rules.admin_rows import NO_ROW, is_about_a_row, row_of
from tests.dashboard.rules.matrix import Route, rule_of
from tests.dashboard.rules.outcomes import ROLE_OF, TOKENS_ALONE, Caller, CallOutcome
from tests.dashboard.rules.socket_calls import call_socket
from tests.datasets import make_dataset
from trainyard.spec import parse_spec

LOCAL_ID = "0" * 32
KEY_KIND = GitKey.Kind.TOKEN
SIGN_OUT, ADMIN_SIGN_OUT = "POST /sign-out/", "/admin/logout/"
# What a request needs so that its permission is asked about: bodies of REST, and queries.
SWEEP = {
    "name": "another",
    "base": spec(),
    "space": {"train.learning_rate": {"low": 0.001, "high": 0.1, "log": True}},
    "objective": {"metric": "val/loss"},
    "budget": {"trials": 4},
}
BODIES: dict[str, Any] = {
    "POST /api/v1/runs": spec(),
    "POST /api/v1/plans": spec(),
    "POST /api/v1/sweeps": SWEEP,
    "POST /api/v1/sweeps/preview": SWEEP,
    "POST /api/v1/sweeps/scaling": {"spec": spec(), "ranks": [1, 2]},
    "POST /api/v1/sweeps/import": {"sweep": SWEEP, "study": {"name": "old", "directions": ["minimize"]}},
    "POST /api/v1/sweeps/<sweep_id>/trials": {"parameters": {"train.learning_rate": 0.02}},
    "POST /api/v1/jobs": spec(name="another"),
    "PUT /api/v1/runs/local/<local_id>": {"name": "mine", "project": "default"},
    "POST /api/v1/runs/<run_id>/apps": {"port": 6006},
    "POST /api/v1/runs/<run_id>/move": {"project": "default"},
    "POST /api/v1/runs/<run_id>/notes": {"step": 1, "text": "new data"},
    "POST /api/v1/runs/<run_id>/resize": {"nodes": 1},
    "POST /api/v1/runs/<run_id>/rewind": {"to": 0, "first": 1, "last": 1},
    "POST /api/v1/runs/<run_id>/exclude-node": {"node": "node-x"},
    "POST /api/v1/runs/<run_id>/leftovers": {"decision": "upload"},
    "POST /api/v1/datasets": {"name": "new", "source": "text", "location": "/data/x"},
    "POST /api/v1/clusters": {"name": "new"},
    "POST /api/v1/reports": {"project": "default", "title": "new"},
    "PUT /api/v1/reports/<report_id>": {"title": "new", "body": "", "version": 1},
    "PATCH /api/v1/nodes/<node_id>": {"slots": 2},
    "POST /api/v1/tokens": {"name": "new"},
    "PATCH /api/v1/me": {"name": "New Name"},
    "POST /api/v1/notices/rules": {"where": "page", "kinds": {"failed": None}},
    "POST /api/v1/notices/test": {"rule": "nosuch"},
    "POST /api/v1/share": {"object": "run/{run_id}"},
    "POST /api/v1/projects": {"name": "new"},
    "PUT /api/v1/projects/<project_id>/workspace": {"state": {}},
    "PUT /api/v1/projects/<project_id>/layout": {"state": {}},
    "PUT /api/v1/projects/<project_id>/members/<username>": {"role": "viewer"},
    "POST /api/v1/projects/<project_id>/git-keys": {"kind": "token", "place": "example.com", "secret": "x"},
    "POST /api/v1/projects/<project_id>/roles": {"name": "new", "permissions": ["runs:stop"]},
    "PUT /api/v1/projects/<project_id>/roles/<name>": {"name": "stopper", "permissions": ["runs:stop"]},
    "POST /api/v1/projects/<project_id>/service-accounts": {"name": "new", "role": "viewer"},
    "POST /api/v1/projects/<project_id>/service-accounts/<username>/tokens": {"name": "new"},
    "PUT /api/v1/projects/<project_id>/secrets/<name>": {"value": "x"},
    "PUT /api/v1/me/secrets/<name>": {"value": "x"},
    "POST /api/v1/me/erase": {"confirm": "nobody"},
    "POST /api/v1/people/<username>/erase": {"confirm": "nobody"},
    "PUT /api/v1/projects/<project_id>/retention": {"days": {}},
    "POST /api/v1/projects/<project_id>/retention/preview": {"days": {}},
    "PUT /api/v1/projects/<project_id>/regions": {"regions": []},
    "PUT /api/v1/projects/<project_id>/encryption": {"encrypts": False},
    "POST /api/v1/projects/<project_id>/encryption/destroy": {"confirm": "another"},
    "PUT /api/v1/projects/<project_id>/limits": {"weight": 1},
    "PUT /api/v1/projects/<project_id>/quota": {"quota_bytes": None},
    "POST /api/v1/groups": {"name": "new"},
    "PUT /api/v1/groups/<group_id>/members": {"members": []},
    "PUT /api/v1/groups/<group_id>/projects/<project_id>": {"role": "viewer"},
    "PUT /api/v1/groups/<group_id>/clusters/<cluster_id>": {"role": "runner"},
    "POST /mlflow/api/2.0/mlflow/experiments/create": {"name": "new"},
    "POST /mlflow/api/2.0/mlflow/logged-models": {"source_run_id": "{run_id}"},
    **{
        f"POST /mlflow/api/2.0/mlflow/runs/{verb}": {"run_id": "{run_id}", "key": "a", "value": "1", "timestamp": 1}
        for verb in (
            *("delete", "delete-tag", "log-batch", "log-inputs", "log-metric", "log-parameter", "outputs", "restore"),
            *("set-tag", "update"),
        )
    },
    **{
        f"POST /mlflow/api/2.0/mlflow/experiments/{verb}": {"experiment_id": "{experiment_id}", "key": "a"}
        for verb in ("delete", "delete-experiment-tag", "restore", "set-experiment-tag", "update")
    },
    "POST /launch/": {**typed_of(parse_spec(spec()).resolved()), "task": "language-model", "from": "example:hello-gpt"},
    "POST /account/tokens/": {"project": []},
    "POST /people/<project_id>/invite/": {"role": "viewer"},
    "POST /people/<project_id>/role/<user_id>/": {"role": "viewer"},
    "POST /people/<project_id>/groups/": {"group": "staff", "role": "viewer"},
    "POST /people/<project_id>/roles/": {"permission": "runs:stop"},
    "POST /people/<project_id>/accounts/": {"role": "viewer"},
    "POST /people/<project_id>/git-keys/": {"kind": "token", "place": "example.com", "secret": "x"},
}
QUERIES = {
    "/admin/autocomplete/": "app_label=runs&model_name=membership&field_name=user",
    "/api/v1/series": "run={run_id}&name=loss",
    "/api/v1/series.csv": "run={run_id}&name=loss",
    "/api/v1/series.arrow": "run={run_id}&name=loss",
    "/api/v1/series/data": "run={run_id}&name=loss",
    "/api/v1/runs/<run_id>/logs/line": "id=a1.r0.o.0",
    "/api/v1/runs/<run_id>/media/histograms": "name=weights",
    "/api/v1/runs/<run_id>/media/steps": "name=weights",
    "/share/": "object=run/{run_id}",
    "/share/export/": "object=run/{run_id}",
    "/mlflow/api/2.0/mlflow-artifacts/artifacts": "path={run_id}",
    "/mlflow/api/2.0/mlflow/experiments/get": "experiment_id={project_id}",
    "/mlflow/api/2.0/mlflow/experiments/get-by-name": "experiment_name={project_id}",
    "/mlflow/api/2.0/mlflow/metrics/get-history": "run_id={run_id}&metric_key=loss",
    "/mlflow/api/2.0/mlflow/runs/get": "run_id={run_id}",
}
# Of what these routes are about the world has nothing: whoever may see it is answered 404.
ABSENT = {
    "GET /account/consent/",
    "POST /account/consent/",
    "POST /account/security/factors/<factor_id>/remove/",
    "POST /account/security/providers/<provider_id>/forget/",
    "POST /account/security/sessions/<session_id>/end/",
    "GET /admin/r/<content_type_id>/<object_id>/",
    "POST /admin/r/<content_type_id>/<object_id>/",
    "GET /api/v1/me/exports/<export_id>/file",
    "GET /api/v1/runs/<run_id>/code",
    "GET /api/v1/runs/<run_id>/code/diff",
    "GET /api/v1/runs/<run_id>/files/<path>",
    "GET /api/v1/runs/<run_id>/logs/line",
    "GET /api/v1/runs/<run_id>/media/<media_id>",
    "GET /api/v1/runs/<run_id>/media/<media_id>/file",
    "GET /mlflow/api/2.0/mlflow-artifacts/artifacts/<run_id>/<path>",
    "DELETE /api/v1/notices/rules/<rule_id>",
    "GET /api/v1/notices/rules/<rule_id>",
    "PATCH /api/v1/notices/rules/<rule_id>",
    "POST /api/v1/notices/test",
    "POST /notices/rules/<rule_id>/do/<verb>/",
    "POST /people/sign-in/scim-tokens/",
    "POST /people/sign-in/scim-tokens/<token_id>/revoke/",
    "GET /sign-in/with/<provider_id>/",
    "GET /sign-in/with/<provider_id>/assertion/",
    "POST /sign-in/with/<provider_id>/assertion/",
    "GET /sign-in/with/<provider_id>/back/",
    "POST /sign-in/with/<provider_id>/logout/",
    "GET /sign-in/with/<provider_id>/metadata/",
}
# A form that is refused comes back with the refusal beside its project.
REFUSED_IN_FORMS = {"There is no project": CallOutcome.HIDDEN, "You need to be": CallOutcome.FORBIDDEN}
# What a name in a route stands for there, where another route has another thing by the same name.
NAMES = {
    "/docs/<name>": {"name": "spec/"},
    "/nodes/<node_id>/do/<verb>/": {"verb": "drain"},
    "/reports/<report_id>/do/<verb>/": {"verb": "archive"},
}


@dataclass
class World:
    cast: Cast
    ids: dict[str, str]
    users: dict[Caller, User]
    run: Run
    clients: dict[Caller, Client] = field(default_factory=dict)

    def path(self, route: Route) -> str:
        ids = dict(self.ids)
        if "secrets/" in route.path:
            ids["name"] = "SECRET"
        if "accounts/" in route.path:
            ids |= {"username": self.ids["account"], "user_id": self.ids["account_id"]}
        if route.path.startswith("/shared/"):
            ids["secret"] = self.ids["shared"]
        if route.is_admin:
            ids |= dict.fromkeys(("object_id", "id", "content_type_id"), row_of(route) or NO_ROW)
        ids |= NAMES.get(route.path, {})
        return re.sub(r"<(\w+)>", lambda found: ids[found.group(1)], route.path)

    def call(self, route: Route, caller: Caller) -> CallOutcome:
        """Send the request, take back what it did, and say what became of it."""
        client = self._client(caller)  # its session must outlive the request
        if route.is_socket:
            return call_socket(self.path(route), *self._headers_of_socket(route, caller, client))
        with transaction.atomic():
            response = self.send(route, caller)
            transaction.set_rollback(True)
        if route.path == ADMIN_SIGN_OUT:
            del self.clients[caller]
            return CallOutcome.ALLOWED  # whoever is not staff stays signed in, and is led to the administration
        if is_about_a_row(route) and response.status_code == 302 and response["Location"] == "/admin/":
            return CallOutcome.HIDDEN  # what Django answers where there is no such row
        if str(route) == SIGN_OUT:
            # It leads to the sign-in, as a refusal does. It was carried out when the session is gone.
            del self.clients[caller]
            session = client.cookies.get(settings.SESSION_COOKIE_NAME)
            return CallOutcome.UNKNOWN if session is not None and session.value else CallOutcome.ALLOWED
        return outcome_of(response)

    def _headers_of_socket(self, route: Route, caller: Caller, client: Client) -> list[tuple[bytes, bytes]]:
        if caller in TOKENS_ALONE:
            return [(b"authorization", f"Bearer {self._token(route, caller)}".encode())]
        name = settings.SESSION_COOKIE_NAME
        return [(b"cookie", f"{name}={client.cookies[name].value}".encode())] if name in client.cookies else []

    def send(self, route: Route, caller: Caller) -> Any:
        client, headers = self._client(caller), {}
        if caller in TOKENS_ALONE:
            headers["Authorization"] = f"Bearer {self._token(route, caller)}"
        path = self.path(route)
        if route.path in QUERIES:
            path += "?" + QUERIES[route.path].format(**self.ids)
        body = BODIES.get(str(route), {})
        if route.is_rest:
            text = json.dumps(body)
            for name in ("run_id", "experiment_id"):
                text = text.replace(f"{{{name}}}", self.ids[name])
            return client.generic(route.method, path, text, content_type="application/json", headers=headers)
        if route.method == "GET":
            return client.get(path, headers=headers)
        form = {"project": "default", "run": self.ids["run_id"], "name": "new", "source": "text", **body}
        return client.post(path, form, headers=headers)

    def _client(self, caller: Caller) -> Client:
        if caller not in self.clients:
            client = self.clients[caller] = Client(raise_request_exception=False)
            if caller in self.users:
                client.force_login(self.users[caller])
        return self.clients[caller]

    def _token(self, route: Route, caller: Caller) -> str:
        token, secret = actions.create_token(actor=self.users[Caller.ADMINISTRATOR], name="matrix")
        if caller == Caller.REVOKED_TOKEN:
            token.revoked_at = timezone.now()
        else:
            rule = rule_of(route)
            token.scopes = [one for one in Permission.values if rule is None or one != rule.permission]
        token.save()
        return secret


def outcome_of(response: Any) -> CallOutcome:
    """Return what an answer says about the permission. A refused form or body comes after it."""
    status = response.status_code
    if status == 401 or (status == 302 and response["Location"].startswith(("/sign-in/", "/admin/login/"))):
        return CallOutcome.UNKNOWN
    if status == 403:
        return CallOutcome.FORBIDDEN
    if status == 404:
        return CallOutcome.HIDDEN
    if status == 422 and not response.streaming and response["Content-Type"].startswith("text/html"):
        text = response.content.decode()
        return next((found for words, found in REFUSED_IN_FORMS.items() if words in text), CallOutcome.ALLOWED)
    return CallOutcome.FAILED if status >= 500 and status != 503 else CallOutcome.ALLOWED


def make_world(cast: Cast) -> World:
    """Make the project of the cast with one of everything. The run is the member's, and so may be deleted by them."""
    cast.owner.is_staff = False
    cast.owner.save()
    cast.cluster.interactive = True
    cast.cluster.save()
    users = {
        Caller.OUTSIDER: cast.outsider,
        Caller.VIEWER: cast.viewer,
        Caller.MEMBER: cast.mate,
        Caller.OWNER: cast.owner,
        Caller.AUDITOR: make_user("auditor"),
        Caller.MAINTAINER: make_user("maintainer"),
        Caller.OPERATOR: make_user("operator", is_staff=True),
        Caller.ADMINISTRATOR: make_user("root", is_superuser=True, is_staff=True),
    }
    for caller in (Caller.AUDITOR, Caller.MAINTAINER):
        Membership.objects.create(project=cast.project, user=users[caller], role=ROLE_OF[caller])
    node = make_node(cast.cluster, "node-x")
    run = make_run(cast, status=Status.RUNNING)
    attempt = make_attempt(run, [node], phase=Phase.RUNNING)
    Project.objects.create(id="0", name="empty")  # the first by its key: one with runs cannot be deleted in the admin
    link, url = actions.share(actor=cast.mate, name=f"run/{run.pk}")
    ids = {"share_id": link.pk, "shared": url.rstrip("/").rpartition("/")[2]}
    return World(cast, ids | _ids(cast, users, run, node.pk, attempt.fence), users, run)


def _ids(cast: Cast, users: dict[Caller, User], run: Run, node_id: str, fence: int) -> dict[str, str]:
    owner, project = cast.owner, cast.project
    job = actions.save_job(actor=cast.mate, document=spec())
    invitation, secret = actions.invite(actor=owner, project=project, role=Role.VIEWER)
    git_key = actions.add_git_key(actor=owner, project=project, kind=KEY_KIND, place="example.org", secret="x")
    actions.save_custom_role(actor=owner, project=project, name="stopper", permissions=["runs:stop"])
    account = actions.create_service_account(actor=owner, project=project, name="ci", role=Role.VIEWER)
    token, _ = actions.create_token(actor=owner, user=account, name="x")
    actions.set_secret(actor=owner, project=project, name="SECRET", value="x")
    for user in users.values():
        actions.set_secret(actor=user, name="SECRET", value="x")
    group = Group.objects.create(name="staff")
    actions.give_group_role(actor=owner, group=group, project=project, role=Role.VIEWER)
    ClusterRole.objects.create(group=group, cluster=cast.cluster, role=ClusterRole.Kind.RUNNER)
    target = make_user("target")
    Membership.objects.create(project=project, user=target, role=Role.VIEWER)
    assert Token.objects.filter(pk=token.pk).exists()
    model_id = "m-" + "0" * 32
    info = {"status": "READY", "tags": [{"key": "0" * 16, "value": "1"}]}
    mlflow.keep_fact(run, mlflow.TAGS, {"a": "1"})
    mlflow.keep_fact(run, model_id, {"info": info, "data": {"params": [], "metrics": []}})
    return {
        "run_id": run.pk,
        "experiment_id": mlflow.create_experiment(actor=owner, project=project, name="tried", tags={}).pk,
        "local_id": LOCAL_ID,
        "job_id": job.pk,
        "dataset_id": make_dataset(cast).pk,
        "cluster_id": cast.cluster.pk,
        "node_id": node_id,
        "project_id": project.pk,
        "invitation_id": invitation.pk,
        "user_id": str(target.pk),
        "username": "target",
        "account": account.username,
        "account_id": str(account.pk),
        "token_id": token.pk,
        "key_id": git_key.pk,
        "group_id": str(group.pk),
        "name": "stopper",
        "secret": secret,
        "sha256": "a" * 64,
        "fence": str(fence),
        "verb": "stop",
        "path": "model.safetensors",
        "media_id": "1",
        "model_id": model_id,
        "sweep_id": make_sweep(cast).pk,
        "view_id": actions.save_view(actor=owner, name="ours", query="sort=name", project=project.name).pk,
        "report_id": actions.create_report(actor=cast.mate, project=project, title="ours", body="").pk,
        "number": "0",
        "provider_id": "nosuch",
        **dict.fromkeys(("session_id", "rule_id"), "nosuch"),
        "factor_id": "1",
        "export_id": "nosuch",
        "person_id": str(target.pk),
        "attempt_id": "nothing",
        "key": "0" * 16,
        "offset": "0",
        "rest": "nothing",
    }

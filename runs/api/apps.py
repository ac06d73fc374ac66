"""``/runs/{id}/apps``: an address that opens a port of a run in a browser."""

from django.http import HttpRequest
from ninja import Body as InBody
from ninja import Field

from runs.api.auth import Resource, actor
from runs.api.schemas import Body, schema_of
from runs.interactive import app_tickets
from runs.interactive.addresses import MAX_PORT, App
from runs.rights.access import Permission, get_run
from runs.rights.access.operations import operation, thing
from trainyard.contract.answers.runs import OpenedApp

router = Resource(tags=["runs"])


class AppIn(Body):
    port: int | None = Field(
        None, ge=1, le=MAX_PORT, description="where a process of the run listens on 127.0.0.1; null is its notebook's"
    )
    rank: int = Field(0, ge=0, le=999_999, description="beside which rank")


@router.post("/runs/{run_id}/apps", response={201: schema_of(OpenedApp, "AppOut")}, summary="Open an app of a run")
@operation(thing(Permission.RUNS_ENTER))
def open_app(request: HttpRequest, run_id: str, body: InBody[AppIn]) -> OpenedApp:
    """Without `port`: the notebook. The address works once. What it opens lasts as long as the sign-in or token that it
    was asked for with. 409 where the rank does not run, or the server opens no apps. Example: `{"port": 6006}`"""
    run = get_run(request, run_id)
    secret, is_token = credential_of(request)
    app = App(run_id, body.rank, body.port or app_tickets.port_of(run))
    url = app_tickets.issue(actor=actor(request), app=app, secret=secret, is_token=is_token)
    return OpenedApp(url=url, expires_in_s=app_tickets.TICKET_S)


def credential_of(request: HttpRequest) -> tuple[str, bool]:
    """Return the secret of the token that the request came with, else its session's key; and whether it is a token."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip(), True
    return str(request.session.session_key), False

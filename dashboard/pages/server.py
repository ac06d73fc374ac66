"""The server's own health, for administrators: what `trainyard doctor --server` finds, and the numbers of /metrics."""

from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from dashboard import server_findings
from dashboard.pages.shared.frame import page, person, show
from runs.presenting.exposition import exposition_for
from runs.rights.access.operations import ADMINISTRATOR
from trainyard.formats.figures import duration, percent, size

STATES = {True: ("green", "ok"), False: ("red", "failed"), None: ("amber", "warning")}


@page(get=ADMINISTRATOR)
def server(request: HttpRequest) -> HttpResponse:
    now = timezone.now()
    numbers = []
    for family in exposition_for(person(request), now).collect():
        for one in (one for one in family.samples if family.type != "histogram" and (one.value or not one.labels)):
            name = one.name.removeprefix("trainyard_").replace("_", " ").capitalize()
            of = ", ".join(one.labels.values())
            numbers.append((name, family.documentation, of, _words(one.name, one.value)))
    shown = {
        "findings": [(one, *STATES[one.is_fine]) for one in server_findings.of_server()],
        "measured_at": now,
        "numbers": numbers,
    }
    return show(request, "server/server.html", shown, fragments={"state": "server/_state.html"})


def _words(name: str, value: float) -> str:
    """Return the value with its unit, which the metric's name ends with."""
    kinds = {"bytes": size, "seconds": duration, "ratio": percent}
    return kinds.get(name.rpartition("_")[2], "{:,.0f}".format)(value)

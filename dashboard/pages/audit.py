"""The audit: a table with filters, whether its chain is intact, exports; and the controls of compliance, measured."""

import json
from datetime import UTC, datetime
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone

from dashboard.pages.shared.frame import page, show
from runs.presenting.audit_rows import AuditFilters, filtered, is_auditor, result_words, visible_entries
from runs.privacy.compliance import report
from runs.rights.access import Forbidden, Permission
from runs.rights.access.operations import ADMINISTRATOR, auditors, auditors_of_all
from runs.rights.audit import chain
from runs.rights.audit.pseudonyms import shown
from trainyard.contract.answers.people import AuditRow
from trainyard.contract.base import JsonObject

LIMIT = 100
TEXTS = ("q", "actor", "action", "project", "result")
RESULTS = (("", "Any result"), ("ok", "Done"), ("refused", "Refused"), ("failed", "Failed"))
MAX_CHARACTERS = 2_000


@page(get=auditors(Permission.AUDIT_READ))
def audit(request: HttpRequest) -> HttpResponse:
    rows = visible_entries(request.user)
    typed = {name: request.GET.get(name, "").strip()[:200] for name in TEXTS}
    typed |= {name: request.GET.get(name, "").strip()[:10] for name in ("since", "until")}
    asked = AuditFilters(**{key: typed[key] for key in TEXTS}, since=_day(typed["since"]), until=_day(typed["until"]))
    before = request.GET.get("before", "")
    found = filtered(rows, asked)
    if before.isascii() and before.isdigit() and len(before) < 19:
        found = found.filter(sequence__lt=int(before))
    found_rows = list(found[: LIMIT + 1])
    given = {name: value for name, value in typed.items() if value}
    export = reverse("api:export")
    context = {
        "lines": [_line(row) for row in shown(found_rows[:LIMIT])],
        "typed": typed,
        "results": RESULTS,
        "is_filtered": bool(given),
        "is_auditor": is_auditor(request.user),
        "older": urlencode({**given, "before": str(found_rows[LIMIT - 1].sequence)}) if len(found_rows) > LIMIT else "",
        "exports": [(one, f"{export}?{urlencode({**given, 'format': one})}") for one in ("csv", "jsonl")],
    }
    return show(request, "audit/audit.html", context, fragments={"table": "audit/_table.html"})


@page(get=auditors_of_all(Permission.AUDIT_READ))
def verify(request: HttpRequest) -> HttpResponse:
    """Check the whole chain, and say which row does not fit."""
    if not is_auditor(request.user):
        raise Forbidden("Only auditors may check the whole chain.")
    return show(request, "audit/verified.html", {"verdict": chain.verify()})


@page(get=ADMINISTRATOR)
def compliance(request: HttpRequest) -> HttpResponse:
    """Measure the controls now; on paper the page is the report."""
    found = report(timezone.now())
    num_red = sum(one["state"] == "red" for one in found["controls"])
    return show(request, "audit/compliance.html", {"report": found, "num_red": num_red})


def _line(row: AuditRow) -> dict[str, object]:
    colour = "green" if row["result"] == "ok" else "amber" if row["result"].startswith("refused") else "red"
    result = {"colour": colour, "word": result_words(row["result"]), "at": datetime.fromisoformat(row["at"])}
    return {"row": row, **result, "before": _text(row["before"]), "after": _text(row["after"])}


def _text(values: JsonObject | None) -> str:
    """Return the values as a person reads them: a field a line."""
    lines = []
    for name, fields in (values or {}).items():
        lines.append(name)
        for field, value in fields.items() if isinstance(fields, dict) else []:
            lines.append(f"  {field}: {value if isinstance(value, str) else json.dumps(value)}")
    return "\n".join(lines)[:MAX_CHARACTERS]


def _day(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC) if text else None
    except ValueError:
        return None

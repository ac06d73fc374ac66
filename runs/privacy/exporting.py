"""The export of all that belongs to a person: a ZIP of JSON, a file for each model of the data map."""

import json
import os
import zipfile
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import structlog
from django.apps import apps
from django.conf import settings
from django.core.serializers.json import DjangoJSONEncoder

from runs.models import PersonalExport, Run, User
from runs.privacy.data_map import HOLDINGS, Holding
from runs.records.files.outputs import listing

log = structlog.get_logger(__name__)

LIFE = timedelta(days=7)
ROWS_AT_ONCE = 500
README = """All that this Trainyard has about {name}, as of {at}.

Each file is a JSON list of rows of one table; the part behind the name says in which way the rows refer to you.
data_map.json says what each table holds and what becomes of it when you are erased. Passwords, keys and values of
secrets are not here: nobody can read them. Metrics, logs and checkpoints of your runs belong to their projects; who
sees the project finds them there. output_files.json lists the files that your runs left on the server.
"""


def folder() -> Path:
    return Path(settings.HOME) / "exports"


def path_of(export_id: str) -> Path:
    return folder() / f"{export_id}.zip"


def make(export_id: str, now: datetime) -> None:
    """Make the file of an export that waits; what is made already, or gone, is left alone."""
    export = PersonalExport.objects.select_related("user").filter(pk=export_id, state="waiting").first()
    if export is None:
        return
    try:
        num_rows = write(export.user, path_of(export.pk), now)
        num_bytes = path_of(export.pk).stat().st_size
    except OSError as error:
        changes: dict[str, Any] = {"state": "failed", "problem": f"The server could not write it: {error.strerror}."}
        log.warning("export.failed", export=export.pk, error=str(error))
    else:
        changes = {
            "state": "ready", "ready_at": now, "expires_at": now + LIFE, "size_bytes": num_bytes, "num_rows": num_rows,
        }  # fmt: skip
    if not PersonalExport.objects.filter(pk=export.pk, state="waiting").update(**changes):
        path_of(export.pk).unlink(missing_ok=True)  # the person was erased meanwhile


def write(user: User, target: Path, now: datetime) -> int:
    """Write the ZIP, which appears only when it is whole and which only this user of the machine reads. Return how many
    rows are in it."""
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("README.txt", README.format(name=user.username, at=now.isoformat()))
            files = {f"{one.model}.{one.lookup}.json": one for one in HOLDINGS}
            words = [
                {"file": file, "holds": one.holds, "on_erasure": str(one.on_erasure)} for file, one in files.items()
            ]
            archive.writestr("data_map.json", _json(words))
            num_rows = sum(_add(archive, file, rows_of(one, user)) for file, one in files.items())
            num_rows += _add(archive, "output_files.json", _output_files(user))
        beside.replace(target)
    finally:
        beside.unlink(missing_ok=True)
    return num_rows


def rows_of(holding: Holding, user: User) -> Iterator[dict[str, Any]]:
    """Yield the rows of a line of the map, some at a time, without the fields that are left out."""
    model = apps.get_model(holding.model)
    fields = [one.attname for one in model._meta.concrete_fields if one.name not in holding.hidden]
    rows = model._base_manager.filter(**{holding.lookup: user.pk}).order_by("pk")
    yield from rows.values(*fields).iterator(chunk_size=ROWS_AT_ONCE)


def forget_old(now: datetime) -> int:
    """Delete exports that have expired, with their files, and files that no row knows. Returns how many rows went."""
    num, _ = PersonalExport.objects.filter(expires_at__lt=now).delete()
    known = set(PersonalExport.objects.values_list("pk", flat=True))
    for path in folder().glob("*.zip"):
        if path.stem not in known:
            path.unlink(missing_ok=True)
    return num


def _output_files(user: User) -> Iterator[dict[str, Any]]:
    for run_id in Run.objects.filter(created_by=user).order_by("pk").values_list("pk", flat=True).iterator():
        yield from ({"run": run_id, **one} for one in listing(run_id))


def _add(archive: zipfile.ZipFile, name: str, rows: Iterator[dict[str, Any]]) -> int:
    """Write the rows as one JSON list, and return how many there were. Of nothing there is no file."""
    first = next(rows, None)
    if first is None:
        return 0
    num = 1
    with archive.open(name, "w", force_zip64=True) as file:
        file.write(f"[\n{_json(first)}".encode())
        for row in rows:
            file.write(f",\n{_json(row)}".encode())
            num += 1
        file.write(b"\n]\n")
    return num


def _json(value: Any) -> str:
    return json.dumps(value, cls=_Encoder, ensure_ascii=False)


class _Encoder(DjangoJSONEncoder):
    def default(self, value: Any) -> Any:
        return f"{len(value)} bytes" if isinstance(value, bytes | memoryview) else super().default(value)

"""``trainyard manage person export`` and ``erase``: for somebody who cannot sign in, by whoever runs the server."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from runs.actions import why_not_erased
from runs.models import Run, User
from runs.privacy import erasure, exporting
from runs.rights.audit.facts import Act
from runs.rights.audit.recording import OK, record

SERVERS_USER = "the server's user"


class Command(BaseCommand):
    help = "Write all that belongs to a person into a ZIP, or erase them for good."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        export = verbs.add_parser("export")
        export.add_argument("username")
        export.add_argument("file", type=Path)
        erase = verbs.add_parser("erase")
        erase.add_argument("username")
        erase.add_argument("--with-runs", action="store_true", help="also delete the runs that they launched")
        erase.add_argument("--yes", action="store_true", help="it cannot be undone")

    def handle(self, *args: Any, verb: str, username: str, **options: Any) -> None:
        user = User.objects.filter(username=username, service_of=None).first()
        if user is None:
            raise CommandError(f"There is no person {username!r}.")
        if verb == "export":
            num_rows = exporting.write(user, file := options["file"].resolve(), timezone.now())
            record(Act(actor=SERVERS_USER, action="person.export", object=f"user {user.pk}", result=OK))
            self.stdout.write(f"{options['file']}: {num_rows} rows, {file.stat().st_size} bytes.")
            return
        if sentence := why_not_erased(user):
            raise CommandError(sentence)
        if not options["yes"]:
            raise CommandError("It cannot be undone, and a backup does not undo it: add --yes.")
        runs = list(Run.objects.filter(created_by=user).values_list("pk", flat=True)) if options["with_runs"] else []
        number = user.pk
        row = erasure.erase(user, timezone.now(), runs)
        record(Act(actor=SERVERS_USER, action="person.erase", object=f"user {number}", result=OK))
        self.stdout.write(f"Erased: {row.pseudonym}.")

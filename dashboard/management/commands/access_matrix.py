"""``trainyard manage access_matrix``: every route with what becomes of a request of each caller."""

import csv
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from dashboard.management.walk import matrix
from dashboard.rules import roles_document


class Command(BaseCommand):
    help = "Print every route with what becomes of a request of each role, as the rules and the table say."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--csv", action="store_true", help="comma-separated, for a spreadsheet")
        parser.add_argument("--document", action="store_true", help="print docs/roles.md in place of the routes")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["document"]:
            self.stdout.write(roles_document(), ending="")
            return
        lines = matrix()
        if options["csv"]:
            csv.writer(self.stdout).writerows(lines)
            return
        widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
        for line in lines:
            self.stdout.write("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
        no_rule = sum(line[1] == "NO RULE" for line in lines)
        self.stdout.write(f"{len(lines) - 1} routes, {len(lines[0]) - 2} callers, {no_rule} without a rule")

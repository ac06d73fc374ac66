"""`trainyard manage COMMAND …`: Django's command line for this site, also where Trainyard is an installed package."""

import os
import sys

from django.core.management import execute_from_command_line


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
    execute_from_command_line(["trainyard manage", *sys.argv[1:]])


if __name__ == "__main__":
    main()

"""Printers of pages of docs. Tests compare the pages with what these print."""

import os

import django
from django.apps import apps


def django_is_ready() -> None:
    """Set Django up where a printer runs by itself."""
    if not apps.ready:
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
        django.setup()

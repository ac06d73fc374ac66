"""The web process's second application, on a listener of its own: apps of runs."""

import os

import django

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
django.setup()  # what is below imports models

from dashboard.http.forwarded import Forwarded  # noqa: E402
from dashboard.proxy.application import AppProxy  # noqa: E402

application = Forwarded(AppProxy())

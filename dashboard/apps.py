from importlib import import_module

from django.apps import AppConfig


class DashboardConfig(AppConfig):
    name = "dashboard"

    def ready(self) -> None:
        """Let every process that has Django, in every thread of it, send messages by our Celery app and no other."""
        import_module("dashboard.celery").app.set_default()

"""Router of rows to databases: the product's, or the metrics file."""

from typing import Any

from django.conf import settings
from django.db.models import Model


class MetricsRouter:
    """Send the metrics app to settings.METRICS_DATABASE (an alias, "default" where one PostgreSQL serves both)."""

    def db_for_read(self, model: type[Model], **hints: Any) -> str:
        return _alias(model._meta.app_label)

    db_for_write = db_for_read

    def allow_relation(self, one: Model, other: Model, **hints: Any) -> bool:
        return _alias(one._meta.app_label) == _alias(other._meta.app_label)

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == _alias(app_label)


def _alias(app_label: str) -> str:
    return str(settings.METRICS_DATABASE) if app_label == "metrics" else "default"

"""Columns that many tables have."""

from django.db import models

from runs.values.ids import new_id


class Dated(models.Model):
    """A row that knows when it was made."""

    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        abstract = True


class Identified(Dated):
    """A row with a short random id, by which addresses and programs name it."""

    id = models.CharField(primary_key=True, max_length=12, default=new_id, editable=False)

    class Meta:
        abstract = True

"""Names that nothing else of its kind has: the database decides."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import IntegrityError, transaction

from runs.values.refused import Refused


@contextmanager
def taking_name(sentence: str) -> Iterator[None]:
    """Return a transaction that takes a name. Raises Refused with the sentence where it is taken."""
    try:
        with transaction.atomic():
            yield
    except IntegrityError as error:
        raise Refused("name-taken", sentence) from error

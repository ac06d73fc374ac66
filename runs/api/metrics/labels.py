"""``labels=``: which series are meant, as a JSON map in a query."""

import json

from ninja.errors import HttpError


def labels_in(text: str) -> dict[str, str]:
    """Return the labels. Raises HttpError 422."""
    if not text:
        return {}
    try:
        labels = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise HttpError(422, f"labels: {error}") from error
    if not isinstance(labels, dict) or not all(isinstance(value, str) for value in labels.values()):
        raise HttpError(422, 'labels: a JSON object of texts is expected, like {"gpu": "0"}')
    return labels

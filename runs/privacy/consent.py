"""The text that everybody who signs in agrees to, where the site has one (CONSENT_FILE)."""

import hashlib
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from django.conf import settings

from runs.models import Consent, User

MAX_BYTES = 256 * 1024
SENTENCE = "Read and agree to the terms of this site first."


class Text(NamedTuple):
    digest: str
    words: str


def text_of_now() -> Text | None:
    """Return the text; None where the site has none. Another text is another digest, and is asked about again."""
    if not settings.CONSENT_FILE:
        return None
    path = Path(settings.CONSENT_FILE)
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=2)
def _read(path: Path, changed_at: int) -> Text:
    data = path.read_bytes()[:MAX_BYTES]
    return Text(hashlib.sha256(data).hexdigest(), data.decode("utf-8", "replace"))


def is_missing(user: User) -> bool:
    """Return whether the person has not agreed to the text of now. Service accounts are nobody."""
    text = text_of_now()
    return (
        text is not None and not user.is_service and not Consent.objects.filter(user=user, digest=text.digest).exists()
    )

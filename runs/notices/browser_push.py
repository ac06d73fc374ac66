"""Web Push (RFC 8030): notices to a browser of a person, by way of the push service that its maker runs.

The browser gives an endpoint at that service and the public half of a key. A message is encrypted for that key (RFC
8291) and signed with the server's own (RFC 8292), which the browser has named to the service: nobody else may send.
"""

import base64
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta

import httpx
import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.crypto import salted_hmac

from runs.models import Notice
from runs.models.notices import ERROR
from trainyard.contract.base import BadDocument, JsonObject, WireStruct, decode, encode
from trainyard.formats.names import visible

CURVE = ec.SECP256R1()
CURVE_ORDER = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
AUTH_BYTES, SALT_BYTES, RECORD_BYTES = 16, 16, 4096
KEPT_S = 24 * 3600  # how long the service keeps a message for a browser that is closed
SIGNED_FOR = timedelta(hours=12)  # RFC 8292 allows 24
GONE = (404, 410)  # what the service answers for a subscription that has ended
# Of what is shown, since a message has 4,096 bytes at most and JSON makes three bytes of one: bytes of the title, of a
# sentence, and of a line of a digest, which shows so many notices.
TITLE_BYTES, SENTENCE_BYTES, LINE_BYTES, LINES = 200, 900, 150, 6


class BrowserKeys(WireStruct):
    """A browser's public key and the secret that it shares with the server, in base64url."""

    p256dh: str
    auth: str


class Subscription(WireStruct):
    """What ``PushSubscription.toJSON()`` gives, and how the browser is called. The endpoint is a secret."""

    endpoint: str
    keys: BrowserKeys
    name: str = ""


def checked_subscription(text: str) -> Subscription:
    """Return the subscription that the JSON text holds. Raises ValidationError, without the text."""
    try:
        found = decode(text, Subscription, is_secret=True)
        ec.EllipticCurvePublicKey.from_encoded_point(CURVE, _bytes(found.keys.p256dh))
        if len(_bytes(found.keys.auth)) != AUTH_BYTES:
            raise ValueError("auth")
    except (BadDocument, ValueError):
        words = "endpoint, and keys with p256dh (a point of P-256) and auth (16 bytes), both in base64url"
        raise ValidationError(f"It must be a subscription of a browser as JSON: {words}.") from None
    found.name = visible(found.name)[:60] or "A browser"
    return found


def public_key() -> str:
    """Return the server's public key, as ``pushManager.subscribe`` takes it."""
    return _text(_point(_server_key().public_key()))


def push_of(some: Sequence[Notice], text: str, now: datetime) -> tuple[str, bytes, dict[str, str]]:
    """Return endpoint, body and headers of what is posted for these notices. ``text``: the subscription, opened."""
    found, head = decode(text, Subscription, is_secret=True), some[0]
    headers = {
        "Authorization": f"vapid t={_signed_claims(found.endpoint, now)}, k={public_key()}",
        "Content-Encoding": "aes128gcm", "Content-Type": "application/octet-stream",
        "TTL": str(KEPT_S), "Urgency": "high" if max(one.level for one in some) == ERROR else "normal",
        "Topic": f"notice-{head.pk}",  # of one that is sent twice a browser that was closed gets one
    }  # fmt: skip
    return found.endpoint, encrypted(found.keys, encode(shown_of(some)).encode()), headers


def shown_of(some: Sequence[Notice]) -> JsonObject:
    """Return what the service worker shows: title, sentence, the page to open, and a tag by which a repeat is known."""
    head = some[0]
    more = f" There are {head.count} with the same cause." if head.count > 1 else ""
    title, body, path = _cut(head.place, TITLE_BYTES), _cut(head.what, SENTENCE_BYTES) + more, head.path
    if len(some) > 1:
        title, path = f"{len(some)} notices", "/notices/"
        lines = [_cut(one.what, LINE_BYTES) for one in some[:LINES]]
        body = "\n".join([*lines, f"and {len(some) - LINES} more"] if len(some) > LINES else lines)
    return {"title": title, "body": body, "path": path, "tag": f"notice-{head.pk}"}


def encrypted(
    keys: BrowserKeys, message: bytes, *, salt: bytes = b"", ours: ec.EllipticCurvePrivateKey | None = None
) -> bytes:
    """Return the message as RFC 8291, section 3.4, has it: one record of RFC 8188. Salt and key are made for it."""
    salt, ours = salt or secrets.token_bytes(SALT_BYTES), ours or ec.generate_private_key(CURVE)
    their_point, our_point = _bytes(keys.p256dh), _point(ours.public_key())
    shared = ours.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, their_point))
    about = b"WebPush: info\0" + their_point + our_point
    secret = HKDF(SHA256(), 32, salt=_bytes(keys.auth), info=about).derive(shared)
    key = HKDF(SHA256(), 16, salt=salt, info=b"Content-Encoding: aes128gcm\0").derive(secret)
    nonce = HKDF(SHA256(), 12, salt=salt, info=b"Content-Encoding: nonce\0").derive(secret)
    head = salt + RECORD_BYTES.to_bytes(4) + len(our_point).to_bytes(1) + our_point
    return head + AESGCM(key).encrypt(nonce, message + b"\2", None)  # 2: the last record, without padding


def _server_key() -> ec.EllipticCurvePrivateKey:
    """Return the key that every web and control makes of the server's secret."""
    secret = salted_hmac("runs.notices.browser_push", "key", secret=settings.SECRET_KEY, algorithm="sha512").digest()
    return ec.derive_private_key(int.from_bytes(secret) % (CURVE_ORDER - 1) + 1, CURVE)


def _signed_claims(endpoint: str, now: datetime) -> str:
    """Return the JWT (ES256) that says to this service alone, for some hours, who sends."""
    url, site = httpx.URL(endpoint), settings.PUBLIC_URL
    claims = {
        "aud": f"{url.scheme}://{url.netloc.decode()}", "exp": int((now + SIGNED_FOR).timestamp()),
        "sub": site if site.startswith("https://") else f"mailto:{settings.DEFAULT_FROM_EMAIL}",
    }  # fmt: skip
    return jwt.encode(claims, _server_key(), algorithm="ES256")


def _cut(text: str, num_bytes: int) -> str:
    """Return the beginning of the text, on one line."""
    return visible(" ".join(text.split())).encode()[:num_bytes].decode(errors="ignore")


def _point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)

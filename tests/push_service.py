"""A push service on this machine, and a browser that it delivers to: both by the RFCs, with no code of ours.

The service takes what is signed by the key that the browser named when it subscribed (RFC 8292). The browser opens what
is encrypted for it (RFC 8291, RFC 8188).
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tests.receivers import Receiver, web_receiver

CURVE = ec.SECP256R1()


def to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def to_bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def point(key: ec.EllipticCurvePublicKey) -> bytes:
    return key.public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)


def expand(salt: bytes, material: bytes, about: bytes, length: int) -> bytes:
    """HKDF of RFC 5869 for at most one block, written out as RFC 8291 does."""
    pseudo_random = hmac.new(salt, material, hashlib.sha256).digest()
    return hmac.new(pseudo_random, about + b"\x01", hashlib.sha256).digest()[:length]


@dataclass
class PushBrowser:
    """What ``pushManager.subscribe`` makes in a browser: a key pair, a secret, and an endpoint."""

    endpoint: str
    named_key: str = ""  # applicationServerKey
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(CURVE))
    auth: bytes = field(default_factory=lambda: os.urandom(16))

    def subscription(self, **changes: Any) -> dict[str, Any]:
        keys = {"p256dh": to_text(point(self.key.public_key())), "auth": to_text(self.auth)}
        return {"endpoint": self.endpoint, "expirationTime": None, "keys": keys, **changes}

    def opened(self, body: bytes) -> bytes:
        """Decrypt one record of aes128gcm and take its padding off. Raises InvalidTag."""
        salt, size, length = body[:16], int.from_bytes(body[16:20], "big"), body[20]
        theirs, record = body[21 : 21 + length], body[21 + length :]
        assert length == 65 and len(record) <= size
        shared = self.key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(CURVE, theirs))
        about = b"WebPush: info\x00" + point(self.key.public_key()) + theirs
        material = expand(self.auth, shared, about, 32)
        key = expand(salt, material, b"Content-Encoding: aes128gcm\x00", 16)
        nonce = expand(salt, material, b"Content-Encoding: nonce\x00", 12)
        plain = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\x00")
        assert plain[-1:] == b"\x02"
        return plain[:-1]


@dataclass
class PushService:
    """What it took, opened by the browser, and how often it refused a signature."""

    receiver: Receiver
    browser: PushBrowser
    taken: list[dict[str, Any]] = field(default_factory=list)
    claims: list[dict[str, Any]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def answer(self, body: bytes, headers: dict[str, str]) -> int:
        """Answer as RFC 8030, section 5 and RFC 8292, section 4.2 say."""
        if headers.get("content-encoding") != "aes128gcm" or not headers.get("ttl", "").isdecimal():
            return 400
        if len(body) > 4096:
            return 413
        scheme, _, rest = headers.get("authorization", "").partition(" ")
        parts = dict(one.strip().split("=", 1) for one in rest.split(","))
        origin = f"http://127.0.0.1:{self.receiver.port}"
        try:
            if scheme != "vapid" or parts["k"] != self.browser.named_key:
                raise jwt.InvalidTokenError("another key than the browser named")
            known = ec.EllipticCurvePublicKey.from_encoded_point(CURVE, to_bytes(parts["k"]))
            asked: Any = {"require": ["aud", "exp", "sub"]}
            claims = jwt.decode(parts["t"], known, algorithms=["ES256"], audience=origin, options=asked)
            if claims["exp"] > time.time() + 24 * 3600 or not claims["sub"].startswith(("mailto:", "https:")):
                raise jwt.InvalidTokenError("exp or sub")
        except jwt.InvalidTokenError as error:
            self.refused.append(str(error))
            return 403
        self.claims.append(claims)
        self.taken.append(json.loads(self.browser.opened(body)))
        return 201


@contextmanager
def push_service(named_key: str) -> Iterator[PushService]:
    """Run one with one browser, which has named this key."""
    with web_receiver() as receiver:
        browser = PushBrowser(f"http://127.0.0.1:{receiver.port}/push/s3cret", named_key)
        service = PushService(receiver, browser)
        receiver.answer = service.answer
        yield service

"""Authorities that a client trusts to vouch for the server, and sentences about faults of a certificate."""

import hashlib
import os
import re
import ssl
import tomllib
from collections.abc import Mapping
from pathlib import Path

VARIABLE = "TRAINYARD_CA"
AUTHORITIES = "ca.pem"  # files of a home: whom to trust, and what a server shows
SERVER = "server.pem"
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----\n?", re.DOTALL)
_UNKNOWN = (
    "is signed by an authority that is not known here: a join token of that server names it, and "
    f"{VARIABLE} may be a file that holds it"
)
_FAULTS = {  # by OpenSSL's codes of verification
    9: "is not valid yet: this machine's clock is behind, or the server's ahead",
    10: "has expired: `trainyard tls renew` on the server makes the next one",
    **dict.fromkeys((18, 19, 20, 21), _UNKNOWN),
    **dict.fromkeys((62, 64), "is for other names: {message}"),
}


def authorities_file(url: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the file of authorities that vouch for the server: that of TRAINYARD_CA, else what ``client.toml`` names
    for this address. None: those of the system."""
    if given := environ.get(VARIABLE):
        return Path(given)
    try:
        written = tomllib.loads((Path(environ.get("TRAINYARD_HOME") or ".trainyard") / "client.toml").read_text())
    except (OSError, ValueError):
        return None
    named = written.get("ca")
    return Path(named) if isinstance(named, str) and written.get("url") == url.rstrip("/") else None


def context_of(authorities: Path | None) -> ssl.SSLContext | bool:
    """Return what httpx takes as ``verify``. Raises OSError for a file that is not there or holds no certificate."""
    return True if authorities is None else ssl.create_default_context(cafile=authorities)


def certificates_in(text: str) -> list[str]:
    return _PEM.findall(text)


def fingerprint_of(certificate: str) -> str:
    """Return SHA-256 of a certificate in PEM. Raises ValueError for what is none."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def sentence_of(error: BaseException, place: str) -> str:
    """Return what was wrong with TLS to ``place``; empty where the error is of another kind."""
    found = _ssl_error(error)
    if isinstance(found, ssl.SSLCertVerificationError):
        fault = _FAULTS.get(found.verify_code, "was refused: {message}").format(message=found.verify_message)
        return f"The certificate of {place} {fault}."
    if found is not None and found.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
        return f"{place} speaks no TLS: its address begins with http://."
    return ""


def _ssl_error(error: BaseException | None) -> ssl.SSLError | None:
    for _ in range(10):
        if error is None or isinstance(error, ssl.SSLError):
            return error
        error = error.__cause__ or error.__context__
    return None

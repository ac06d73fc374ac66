"""Key store of this server, by its settings."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from django.conf import settings

from runs.rights.secrets.aws_kms import AwsKeys, Credentials
from runs.rights.secrets.key_stores import EnvironmentKeys, FileKeys, KeyProblem, KeyStore
from runs.rights.secrets.transit import TransitKeys

FILE = "secrets.key"


def key_store() -> KeyStore:
    """Return the key store of now. Raises KeyProblem for settings that name none."""
    return _store(settings.SECRETS_KMS, settings.SECRETS_KEY, str(settings.HOME / FILE))


@cache
def _store(kms: str, keys: str, path: str) -> KeyStore:
    if kms.startswith("transit:"):
        return TransitKeys(kms.removeprefix("transit:"), _vault_token, os.environ.get("VAULT_NAMESPACE", ""))
    if kms.startswith("aws:"):
        return _aws(kms.removeprefix("aws:"))
    if kms:
        raise KeyProblem("TRAINYARD_SECRETS_KMS must begin with transit: or aws:.")
    return EnvironmentKeys(keys) if keys else FileKeys(Path(path))


def _vault_token() -> str:
    """Read each time: an agent beside the server renews the file."""
    path = os.environ.get("VAULT_TOKEN_FILE")
    if path:
        try:
            return Path(path).read_text().strip()
        except OSError as error:
            raise KeyProblem(f"VAULT_TOKEN_FILE cannot be read: {error.strerror}.") from error
    token = os.environ.get("VAULT_TOKEN", "")
    if not token:
        raise KeyProblem("The transit engine needs VAULT_TOKEN_FILE or VAULT_TOKEN.")
    return token


def _aws(text: str) -> KeyStore:
    """``KEY?region=eu-central-1&endpoint=http://…``; the region may be AWS_REGION's."""
    key, _, query = text.partition("?")
    given = {name: values[0] for name, values in parse_qs(query).items()}
    region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION", "")
    if not key or not region:
        raise KeyProblem("TRAINYARD_SECRETS_KMS must name a key and a region: aws:KEY?region=eu-central-1.")
    endpoint = given.get("endpoint", "")
    if endpoint and urlsplit(endpoint).scheme not in ("http", "https"):
        raise KeyProblem("The endpoint of TRAINYARD_SECRETS_KMS must be an http or https URL.")
    return AwsKeys(key, region, _aws_credentials, endpoint)


def _aws_credentials() -> Credentials:
    key_id, secret = os.environ.get("AWS_ACCESS_KEY_ID", ""), os.environ.get("AWS_SECRET_ACCESS_KEY", "")
    if not key_id or not secret:
        raise KeyProblem("AWS KMS needs AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    return Credentials(key_id, secret, os.environ.get("AWS_SESSION_TOKEN", ""))

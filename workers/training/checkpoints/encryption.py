"""Binding of an encrypted checkpoint's files to their place, and encryption of small ones as a whole."""

import io

from trainyard.at_rest.chunks import DecryptedFile, is_encrypted
from trainyard.at_rest.keyring import Keyring


def file_context(run: str, fence: int, step: int, name: str) -> str:
    """A file of another checkpoint, or of another rank, does not open in its place."""
    return f"checkpoint|{run}|{fence}|{step}|{name}"


def decrypted(data: bytes, keyring: Keyring, context: str) -> bytes:
    """Return the content, which is ``data`` itself where it is not encrypted. Raises CannotDecrypt."""
    if not is_encrypted(data):
        return data
    return DecryptedFile(io.BytesIO(data), keyring, context).read()

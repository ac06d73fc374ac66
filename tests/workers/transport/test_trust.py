"""How a node comes to trust its server: by the fingerprint in its join token, and by what the server says later."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from dashboard.tls import folder
from trainyard.contract.calls import JoinToken, pinned, unpinned
from trainyard.contract.seals import broker_url
from trainyard.rest.trust import AUTHORITIES, certificates_in, fingerprint_of
from workers.transport.node_config import CannotStart
from workers.transport.trust import Trust, UnknownAuthority

NOW = datetime.now(UTC)


def of(tls_files: Path) -> list[str]:
    return [fingerprint_of(one) for one in certificates_in((tls_files / AUTHORITIES).read_text())]


def test_the_fingerprint_of_the_token_is_the_way_in(tls_server: str, tls_files: Path, tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    trust.meet(tls_server, of(tls_files)[0])
    assert httpx.get(tls_server, verify=trust.verify()).status_code == 200
    folder.rotate(tls_files, [], NOW)
    assert trust.follow(httpx.get(tls_server, verify=trust.verify()).text), "the news"
    assert certificates_in(trust.text) == certificates_in((tls_files / AUTHORITIES).read_text())
    assert not trust.follow(trust.text) and not trust.follow("nothing")


def test_another_server_is_not_met(tls_server: str, tmp_path: Path) -> None:
    trust = Trust(tmp_path)
    with pytest.raises(UnknownAuthority, match="is not the server that made this join token"):
        trust.meet(tls_server, "0" * 64)
    with pytest.raises(CannotStart, match="begins with https://"):
        trust.meet("http://127.0.0.1:9", "0" * 64)
    with pytest.raises(CannotStart, match="cannot be reached"):
        trust.meet("https://127.0.0.1:9", "0" * 64)
    assert trust.verify() is True and not trust.path.exists()


def test_a_token_is_split_as_it_was_put_together() -> None:
    assert unpinned(pinned("join_a.b", "ab" * 32)) == JoinToken("join_a.b", "ab" * 32)
    assert unpinned("join_a-b_c") == JoinToken("join_a-b_c")


def test_the_broker_verifies_certificates_unless_the_address_says_otherwise(tmp_path: Path) -> None:
    assert broker_url("rediss://u:p@h:1/0") == "rediss://u:p@h:1/0?ssl_cert_reqs=required"
    assert broker_url("rediss://h:1/0?ssl_cert_reqs=none") == "rediss://h:1/0?ssl_cert_reqs=none"
    (tmp_path / AUTHORITIES).touch()
    url = Trust(tmp_path).valkey_url("rediss://u:p@h:1/0")
    options = {"ssl_cert_reqs": ["required"], "ssl_ca_certs": [str(tmp_path / AUTHORITIES)]}
    assert url.startswith("rediss://u:p@h:1/0?") and parse_qs(urlsplit(url).query) == options
    assert broker_url(url) == url

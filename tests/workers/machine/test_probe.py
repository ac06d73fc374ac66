"""What `trainyard doctor` lets a machine try is what a node does there as it joins."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.rest.trust import AUTHORITIES, VARIABLE, certificates_in, fingerprint_of
from workers.machine.probe import problems_of


def test_a_certificate_that_a_node_would_refuse_is_a_problem(
    tls_server: str, tls_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    valkey = tls_server.removeprefix("https://")
    (problem,) = problems_of(tls_server, valkey, str(tmp_path))
    assert problem.startswith(
        f"server: The certificate of {tls_server} is signed by an authority that is not known here"
    )
    (known,) = certificates_in((tls_files / AUTHORITIES).read_text())
    assert problems_of(tls_server, valkey, str(tmp_path), fingerprint_of(known)) == [], "the join token names it"
    (other,) = problems_of(tls_server, valkey, str(tmp_path), "0" * 64)
    assert "is not the server that made this join token" in other
    monkeypatch.setenv(VARIABLE, str(tls_files / AUTHORITIES))
    assert problems_of(tls_server, valkey, str(tmp_path)) == [], "the job's variable names it"

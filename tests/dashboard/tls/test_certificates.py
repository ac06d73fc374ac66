"""Certificates as a client meets them: real handshakes, a rotation, and what is said of one that is wrong."""

from __future__ import annotations

import contextlib
import socket
import ssl
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from dashboard import doctor
from dashboard.http import hosts
from dashboard.tls import folder
from dashboard.tls.__main__ import main
from runs.engines.findings import Probe
from runs.serving import certificates
from trainyard.rest.trust import AUTHORITIES, SERVER, certificates_in, fingerprint_of, sentence_of

NOW = datetime.now(UTC).replace(microsecond=0)
NAMES = ["trainyard.example", "127.0.0.1"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "tls"


def meet(place: Path, trusted: Path, name: str = "trainyard.example") -> str:
    """Shake hands as a node does; return what was wrong in words, empty where nothing was."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / SERVER)
    ours, theirs = socket.socketpair()

    def serve() -> None:
        try:
            context.wrap_socket(theirs, server_side=True).close()
        except OSError:
            theirs.close()

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        with ours:
            ssl.create_default_context(cafile=trusted).wrap_socket(ours, server_hostname=name).close()
    except ssl.SSLError as error:
        return sentence_of(error, name)
    finally:
        thread.join(5)
    return ""


def test_what_is_made_is_accepted_by_name_and_by_address(place: Path) -> None:
    folder.begin(place, NAMES, NOW)
    assert meet(place, place / AUTHORITIES) == "" == meet(place, place / AUTHORITIES, "127.0.0.1")
    assert certificates.problems(place, "https://trainyard.example:8000", NOW) == []
    assert {path.stat().st_mode & 0o077 for path in place.iterdir()} == {0}
    with pytest.raises(folder.BadCertificates, match="has certificates"):
        folder.begin(place, NAMES, NOW)


def test_after_a_rotation_those_who_know_only_the_old_authority_are_led_to_the_new(place: Path, tmp_path: Path) -> None:
    folder.begin(place, NAMES, NOW)
    known = [tmp_path / "first.pem"]
    known[0].write_text((place / AUTHORITIES).read_text())
    for number in range(2):
        folder.rotate(place, [], NOW)
        known.append(tmp_path / f"after-{number}.pem")
        known[-1].write_text((place / AUTHORITIES).read_text())
    assert [meet(place, path) for path in known] == ["", "", ""]
    found = certificates.served(place)
    assert found is not None and len(found.authorities) == 3 and found.server.names == tuple(NAMES)
    folder.finish(place, NOW)
    assert "an authority that is not known here" in meet(place, known[0])
    assert meet(place, place / AUTHORITIES) == ""


@pytest.mark.parametrize(
    ("made_at", "names", "words"),
    [
        (NOW - timedelta(days=400), NAMES, "expired"),
        (NOW + timedelta(days=2), NAMES, "not valid yet"),
        (NOW, ["elsewhere.example"], "is for other names"),
    ],
)
def test_a_handshake_that_fails_says_what_is_wrong(
    place: Path, made_at: datetime, names: list[str], words: str
) -> None:
    folder.begin(place, names, made_at)
    assert words in meet(place, place / AUTHORITIES)


def test_the_doctor_names_what_is_wrong(place: Path, tmp_path: Path) -> None:
    folder.begin(place, NAMES, NOW - timedelta(days=390))
    (soon,) = certificates.problems(place, "https://127.0.0.1:8000", NOW)
    assert "ends on" in soon and "in 7 days" in soon and "trainyard tls renew" in soon
    _, name = certificates.problems(place, "https://other.example", NOW)
    assert name.startswith("The certificate is for trainyard.example, 127.0.0.1, and not for other.example")
    (ended,) = certificates.problems(place, "https://127.0.0.1", NOW + timedelta(days=30))
    assert "ended on" in ended
    folder.renew(place, [], NOW)
    assert certificates.problems(place, "https://127.0.0.1", NOW) == []
    other = tmp_path / "other"
    folder.begin(other, NAMES, NOW)
    (other / SERVER).replace(place / SERVER)
    (unknown,) = certificates.problems(place, "https://127.0.0.1", NOW)
    assert unknown.startswith("No authority in")


def test_a_certificate_of_a_company_is_served(place: Path, tmp_path: Path) -> None:
    company = tmp_path / "company"
    folder.begin(company, NAMES, NOW)
    key, chain = tmp_path / "key.pem", company / SERVER
    key.write_text(chain.read_text().partition("-----BEGIN CERTIFICATE")[0])
    folder.bring(place, chain, key, company / AUTHORITIES)
    assert meet(place, place / AUTHORITIES) == ""
    with pytest.raises(folder.BadCertificates, match=r"brought by `trainyard tls use`"):
        folder.rotate(place, NAMES, NOW)
    with pytest.raises(folder.BadCertificates, match="is not that of the first certificate"):
        folder.bring(place, company / AUTHORITIES, key, None)
    folder.bring(place, chain, key, None)
    found = certificates.served(place)
    assert found is not None and found.authorities == () and not found.is_own


def test_the_command_makes_shows_and_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINYARD_HOME", str(tmp_path / "home"))
    (tmp_path / "home").mkdir()
    assert main(["show"]) == 1
    assert main(["rotate"]) == 1
    assert "`trainyard tls init` makes them" in capsys.readouterr().err
    assert main(["init", "--name", "gpu-head.example"]) == 0
    assert main(["rotate"]) == 0
    shown = capsys.readouterr().out
    assert "for gpu-head.example" in shown and "Old authority" in shown and "sha256 " in shown


def test_the_next_certificate_keeps_the_names_unless_others_are_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TRAINYARD_HOME", str(tmp_path))
    assert main(["init", "--name", "gpu-head.example", "--name", "10.1.2.3"]) == 0
    monkeypatch.setenv("PUBLIC_URL", "https://new.example")
    for words in (["renew"], ["rotate"], ["rotate", "--finish"]):
        assert main(words) == 0
        found = certificates.served(tmp_path / "tls")
        assert found is not None and {"gpu-head.example", "10.1.2.3", "localhost", "new.example"} <= {
            *found.server.names
        }
        assert len(found.server.names) == len({*found.server.names})
    assert main(["renew", "--name", "other.example"]) == 0
    found = certificates.served(tmp_path / "tls")
    assert found is not None and "other.example" in found.server.names and "gpu-head.example" not in found.server.names
    capsys.readouterr()


def test_the_authority_of_a_proxy_in_front_travels_with_the_token(place: Path, tmp_path: Path, settings: Any) -> None:
    company = tmp_path / "company"
    for one in (company, place):
        folder.begin(one, NAMES, NOW)
    file = company / AUTHORITIES
    assert hosts.proxy_authorities(str(file), "http://127.0.0.1:8000") is None
    settings.PROXY_AUTHORITIES = hosts.proxy_authorities(str(file), "https://trainyard.example")
    settings.TLS_FOLDER, settings.IS_TLS_SERVED = place, False
    known = fingerprint_of(file.read_text())
    assert certificates.pin("join_x") == f"join_x.{known}" and certificates.bundle() == file.read_text()
    assert Probe("https://trainyard.example", "h:6379").words("python", "/f")[-1] == known
    settings.IS_TLS_SERVED = True  # to the proxy, or to nodes that reach our Valkey by it
    assert certificates.pin("join_x") == f"join_x.{known}"
    assert certificates_in(certificates.bundle()) == [
        *certificates_in(file.read_text()),
        *certificates_in((place / AUTHORITIES).read_text()),
    ]
    for wrong, words in ((tmp_path / "none.pem", "cannot be read"), (tmp_path / "empty.pem", "holds no certificate")):
        (tmp_path / "empty.pem").touch()
        with pytest.raises(ValueError, match=f"TRAINYARD_CA is .*{wrong.name}', which {words}"):
            hosts.proxy_authorities(str(wrong), "https://trainyard.example")


def test_the_doctor_connects_to_a_proxy_in_front_as_a_node_does(
    place: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.begin(place, NAMES, NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(place / SERVER)

    def serve() -> None:
        for _ in range(2):
            with contextlib.suppress(OSError):
                context.wrap_socket(listening.accept()[0], server_side=True).close()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        settings.PUBLIC_URL, settings.IS_TLS = f"https://127.0.0.1:{listening.getsockname()[1]}", True
        assert doctor.examine_tls() == 1
        assert "is signed by an authority that is not known here" in capsys.readouterr().out
        settings.PROXY_AUTHORITIES = place / AUTHORITIES
        assert doctor.examine_tls() == 0
        assert "Served by a proxy at https://127.0.0.1:" in capsys.readouterr().out
        thread.join(5)


def test_a_token_carries_the_fingerprint_only_where_there_is_an_authority(place: Path, settings: Any) -> None:
    folder.begin(place, NAMES, NOW)
    settings.TLS_FOLDER, settings.IS_TLS_SERVED = place, False
    assert certificates.pin("join_x") == "join_x" and certificates.bundle() == "" == certificates.warning()
    settings.IS_TLS_SERVED = True
    found = certificates.served(place)
    assert found is not None
    assert certificates.pin("join_x") == f"join_x.{found.authorities[0].fingerprint}"
    assert certificates.warning(NOW) == "" and "ends on" in certificates.warning(NOW + timedelta(days=390))

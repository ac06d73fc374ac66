from pathlib import Path

import pytest

from dashboard import postgres_programs
from dashboard.setup import node
from dashboard.setup.steps import SetupError
from tests import machine


def make_program(folder: Path, name: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / name
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A machine with nothing on PATH; the folder that PATH names."""
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setattr(machine, "BROWSERS", tmp_path / "browsers")
    monkeypatch.setattr(postgres_programs, "FOLDERS", (str(tmp_path / "lib/postgresql"),))
    return tmp_path


def test_a_bare_machine_has_neither_browser_nor_database(bare: Path) -> None:
    assert machine.find_chromium() is None
    assert machine.find_postgres_folder() is None


def test_the_machines_own_chromium_comes_first(bare: Path) -> None:
    make_program(machine.BROWSERS / "chromium-1187" / "chrome-linux", "chrome")
    own = make_program(bare / "bin", "chromium")
    assert machine.find_chromium() == own


def test_the_chromium_without_windows_is_preferred_but_where_a_persons_is_asked_for(bare: Path) -> None:
    shell = make_program(bare / "bin", "chromium-headless-shell")
    assert machine.find_chromium() == machine.find_chromium(with_windows=True) == shell
    whole = make_program(bare / "bin", "chromium")
    assert machine.find_chromium() == shell
    assert machine.find_chromium(with_windows=True) == whole


@pytest.fixture
def asked(bare: Path, monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What apt-get was asked for; it has no shell, and whoever asks for one gets nothing at all."""
    found: list[list[str]] = []

    def install(names: list[str]) -> None:
        found.append(names)
        if machine.SHELL in names:
            raise SetupError("E: Unable to locate package chromium-headless-shell")
        if "chromium" in names:
            make_program(bare / "bin", "chromium")

    monkeypatch.setattr(machine, "can_use_apt", lambda: True)
    monkeypatch.setattr(machine, "install_debian_packages", install)
    return found


def test_where_there_is_no_chromium_without_windows_another_does(bare: Path, asked: list[list[str]]) -> None:
    machine.ensure_test_programs()
    assert asked == [[machine.SHELL, "postgresql"], ["postgresql", "chromium"]]


def test_who_has_a_chromium_goes_on_with_it(bare: Path, asked: list[list[str]]) -> None:
    make_program(bare / "bin", "chromium")
    make_program(bare / "lib/postgresql/17/bin", "postgres")
    make_program(bare / "lib/postgresql/17/bin", "initdb")
    machine.ensure_test_programs()
    assert asked == [[machine.SHELL]]


def test_what_apt_does_not_have_at_all_is_an_error(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(names: list[str]) -> None:
        raise SetupError(f"no {names}")

    monkeypatch.setattr(machine, "can_use_apt", lambda: True)
    monkeypatch.setattr(machine, "install_debian_packages", refuse)
    with pytest.raises(SetupError, match="chromium'"):
        machine.ensure_test_programs()


def test_the_fetched_chromium_is_found(bare: Path) -> None:
    fetched = make_program(machine.BROWSERS / "chromium-1187" / "chrome-linux", "chrome")
    assert machine.find_chromium() == fetched


def test_the_newest_postgres_is_found_off_path(bare: Path) -> None:
    for version in ("9", "15", "17"):
        for name in ("postgres", "initdb"):
            make_program(bare / "lib/postgresql" / version / "bin", name)
    make_program(bare / "lib/postgresql/18/bin", "psql")  # a client alone is no server
    assert machine.find_postgres_folder() == bare / "lib/postgresql/17/bin"


def test_only_root_uses_apt(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert machine.can_use_apt(lambda name: "/usr/bin/apt-get") is False
    monkeypatch.setattr("os.geteuid", lambda: 0)
    assert machine.can_use_apt(lambda name: "/usr/bin/apt-get") is True
    assert machine.can_use_apt(lambda name: None) is False


@pytest.mark.parametrize(("text", "major"), [("v20.20.2\n", 20), ("v8.1.0", 8), ("", 0), ("node: not found", 0)])
def test_the_major_version_of_node(text: str, major: int) -> None:
    assert node.major_version(text) == major


def test_a_machine_without_node_has_no_npm(bare: Path) -> None:
    assert node.system_npm() is None


def test_a_node_of_its_own_gets_the_machines_certificates_and_settings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("NODE_EXTRA_CA_CERTS", raising=False)
    monkeypatch.setenv("SSL_CERT_FILE", "/etc/company.pem")
    monkeypatch.setenv("NODE_OPTIONS", "--no-warnings")
    settings = tmp_path / "npmrc"
    settings.touch()
    assert node.settings_of_machine([str(tmp_path / "none"), str(settings)]) == {
        "NODE_OPTIONS": "--no-warnings --use-system-ca",
        "NODE_EXTRA_CA_CERTS": "/etc/company.pem",
        "NPM_CONFIG_GLOBALCONFIG": str(settings),
    }


@pytest.mark.parametrize(
    ("installed", "for_site", "for_developers"),
    [(b"lock", True, False), (b"lock" + node.WITH_DEV, True, True), (b"older", False, False), (None, False, False)],
)
def test_what_is_installed_for_developers_serves_the_site_too(
    installed: bytes | None, for_site: bool, for_developers: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(node, "STAMP", tmp_path / "stamp")
    if installed is not None:
        node.STAMP.write_bytes(installed)
    assert node.is_installed(b"lock", with_dev=False) is for_site
    assert node.is_installed(b"lock", with_dev=True) is for_developers

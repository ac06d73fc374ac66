"""Which torch a machine gets, by what the installer is asked for; and pip's settings in the words of uv."""

from collections.abc import Sequence

import pytest

from dashboard.setup import packages

LISTING = """:env:.find-links='/from/environment'
global.cert='/etc/certs.pem'
global.extra-index-url='file:///one\\nfile:///two'
global.find-links='/from/file'
install.no-index='true'
list.format='columns'
"""


class FakeInstaller:
    """Stands for `Installer`; what is asked for counts as installed, in the build that the machine offers."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, offers: str, installed: str = "", nvidia: bool = False
    ) -> None:
        self.asked: list[tuple[list[str], bool]] = []
        self._offers, self._installed = offers, installed
        monkeypatch.setattr(packages, "has_nvidia_driver", lambda: nvidia)
        monkeypatch.setattr(packages, "torch_version", lambda: self._installed)

    def install(self, words: Sequence[str], sentence: str, with_links: bool = True) -> None:
        self.asked.append((list(words), with_links))
        if not self._installed or "--force-reinstall" in words:
            self._installed = self._offers


def test_a_cpu_build_comes_without_its_dependencies(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeInstaller(monkeypatch, offers="2.13.0+cpu")
    packages.install_torch(fake)  # type: ignore[arg-type]
    assert fake.asked == [(["--no-deps", packages.TORCH], True)]


def test_the_default_build_brings_its_libraries(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeInstaller(monkeypatch, offers="2.13.0")
    packages.install_torch(fake)  # type: ignore[arg-type]
    assert fake.asked == [(["--no-deps", packages.TORCH], True), ([packages.TORCH], True)]


def test_a_machine_with_an_nvidia_driver_leaves_folders_of_wheels_out(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeInstaller(monkeypatch, offers="2.13.0", nvidia=True)
    packages.install_torch(fake)  # type: ignore[arg-type]
    assert fake.asked == [([packages.TORCH], False)]


def test_a_driver_that_came_later_replaces_the_cpu_build(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeInstaller(monkeypatch, offers="2.13.0", installed="2.13.0+cpu", nvidia=True)
    packages.install_torch(fake)  # type: ignore[arg-type]
    assert fake.asked == [(["--force-reinstall", "--no-deps", packages.TORCH], False), ([packages.TORCH], False)]


def test_the_version_in_the_venv_is_read_without_importing_torch() -> None:
    assert packages.torch_version().startswith("2.13.0")


def test_settings_are_read_by_name() -> None:
    settings = packages.parse_settings(LISTING)
    assert settings["cert"] == "/etc/certs.pem"
    assert settings["no-index"] == "true"
    assert "format" not in settings


def test_the_environment_wins_over_files() -> None:
    assert packages.parse_settings(LISTING)["find-links"] == "/from/environment"


def test_a_value_that_is_no_literal_is_kept_as_it_is() -> None:
    assert packages.parse_settings("global.timeout=60")["timeout"] == "60"


def test_every_index_and_folder_becomes_a_flag() -> None:
    flags = packages.flags_of(packages.parse_settings(LISTING))
    assert [flags[place + 1] for place, flag in enumerate(flags) if flag == "--index"] == ["file:///one", "file:///two"]
    assert flags[flags.index("--find-links") + 1] == "/from/environment"
    assert "--no-index" in flags


def test_folders_of_wheels_can_be_left_out() -> None:
    assert "--find-links" not in packages.flags_of({"find-links": "/opt/wheels"}, with_links=False)


def test_no_settings_means_the_installers_own_defaults() -> None:
    assert packages.flags_of({}) == ["--no-config", "--index-strategy", "unsafe-best-match"]
    assert packages.environment_of({}) == {}


def test_certificate_proxy_and_patience_become_variables() -> None:
    settings = {"cert": "/c.pem", "proxy": "proxy:3128", "default-timeout": "180"}
    assert packages.environment_of(settings) == {
        "SSL_CERT_FILE": "/c.pem",
        "ALL_PROXY": "proxy:3128",
        "UV_HTTP_TIMEOUT": "180",
    }

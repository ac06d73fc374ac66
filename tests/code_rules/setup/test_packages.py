"""Which torch a machine gets, told by what the installer is asked for."""

from collections.abc import Sequence

import pytest

from dashboard.setup import packages


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

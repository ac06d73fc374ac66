"""Where the command line finds its server and its token."""

from __future__ import annotations

from pathlib import Path

import pytest

from trainyard.rest.config import Config, NotConfigured, load


def write(home: Path, text: str) -> dict[str, str]:
    (home / "client.toml").write_text(text)
    return {"TRAINYARD_HOME": str(home)}


FILE = 'url = "http://127.0.0.1:8000"\ntoken = "ty_file"\n'


def test_the_file_of_the_home_is_read(tmp_path: Path) -> None:
    assert load(write(tmp_path, FILE)) == Config("http://127.0.0.1:8000", "ty_file")


def test_the_environment_wins(tmp_path: Path) -> None:
    environ = {**write(tmp_path, FILE), "TRAINYARD_URL": "https://lab.example/", "TRAINYARD_TOKEN": "ty_mine"}
    assert load(environ) == Config("https://lab.example", "ty_mine")
    assert load({**write(tmp_path, FILE), "TRAINYARD_TOKEN": "ty_mine"}) == Config("http://127.0.0.1:8000", "ty_mine")


def test_the_token_of_the_file_is_never_sent_to_another_server(tmp_path: Path) -> None:
    environ = {**write(tmp_path, FILE), "TRAINYARD_URL": "https://elsewhere.example"}
    with pytest.raises(NotConfigured, match="no token for https://elsewhere"):
        load(environ)
    assert load({**environ, "TRAINYARD_URL": "http://127.0.0.1:8000/"}).token == "ty_file"


@pytest.mark.parametrize("text", ["url = ", "\udcff"], ids=ascii)
def test_a_broken_file_is_named(text: str, tmp_path: Path) -> None:
    (tmp_path / "client.toml").write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(NotConfigured, match=r"client\.toml cannot be read"):
        load({"TRAINYARD_HOME": str(tmp_path)})


def test_nothing_at_all_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotConfigured, match="trainyard up"):
        load({"TRAINYARD_HOME": str(tmp_path)})

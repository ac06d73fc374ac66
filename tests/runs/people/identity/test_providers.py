"""The settings file of sign-in: what it may say, and that no secret of it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from runs.people.identity.providers import SignInSettings, read_settings

FILE = """
second_factor = "staff"
[[providers]]
id = "corp"
name = "Example Corp"
issuer = "https://id.example.com/realms/corp"
client_id = "trainyard"
client_secret_variable = "CORP_SECRET"
create_people = true
email_domains = ["example.com"]
[[providers.roles]]
group = "ml"
project = "vision"
role = "member"
"""


def read(tmp_path: Path, text: str) -> SignInSettings:
    path = tmp_path / "sign_in.toml"
    path.write_text(text)
    return read_settings(path, must_exist=True)


def test_the_file_names_providers_and_their_roles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = read(tmp_path, FILE)
    provider = found.provider("corp")
    assert provider is not None and found.second_factor == "staff" and found.provider("other") is None
    assert [(one.group, one.project, one.role) for one in provider.roles] == [("ml", "vision", "member")]
    monkeypatch.setenv("CORP_SECRET", "s3cret")
    assert provider.secret() == "s3cret" and "s3cret" not in repr(found)


def test_a_secret_may_lie_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s3cret\n")
    text = FILE.replace('client_secret_variable = "CORP_SECRET"', f'client_secret_file = "{tmp_path}/secret"')
    provider = read(tmp_path, text).provider("corp")
    assert provider is not None and provider.secret() == "s3cret"


def test_without_a_file_there_are_no_providers(tmp_path: Path) -> None:
    assert read_settings(tmp_path / "none.toml", must_exist=False) == SignInSettings()
    with pytest.raises(ValueError, match=r"none\.toml"):
        read_settings(tmp_path / "none.toml", must_exist=True)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('id = "corp"', 'id = "Corp!"', "id has small letters"),
        ('id = "corp"', 'id = "password"', "id has small letters"),
        ("https://id.example.com/realms/corp", "http://id.example.com", "https address"),
        ("https://id.example.com/realms/corp", "https://me:x@id.example.com", "https address"),
        ('client_id = "trainyard"', 'client_id = ""', "client_id"),
        ("create_people = true", 'create_people = "yes"', "create_people"),
        ("create_people = true", "creates_people = true", "creates_people"),
        ("create_people = true", 'client_secret = "s3cret"', "client_secret"),
        ("create_people = true", "check_every_s = 3600", "check_every_s"),
        ('second_factor = "staff"', 'second_factor = "some"', "second_factor"),
        ("[[providers]]", "[[providers", "sign_in.toml"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, words: str) -> None:
    with pytest.raises(ValueError, match=words) as error:
        read(tmp_path, FILE.replace(old, new))
    assert "s3cret" not in str(error.value)


def test_two_providers_have_two_ids(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="two have the id 'corp'"):
        read(tmp_path, FILE + FILE.partition("[[providers.roles]]")[0].replace('second_factor = "staff"', ""))

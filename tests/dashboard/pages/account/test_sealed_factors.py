"""Second factors and what providers gave for sessions: how they lie in the database, and how older ones come along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.sessions.models import Session
from django.db import connection
from django.test import Client

from dashboard.pages.account import factors
from runs.actions import make_sign_in_link
from runs.people.identity.provider_calls import ProviderTokens, lock_tokens, open_tokens
from runs.people.identity.providers import Provider, SignInSettings
from runs.people.identity.second_factor import read_seed, seal_seed
from runs.rights.secrets import store
from runs.rights.secrets.key_stores import KeyProblem
from tests.cast import Cast
from tests.dashboard.pages.account.test_security import AsUser, code_of, come, set_up
from tests.runs.people.identity.test_checking import session_of
from tests.runs.people.identity.test_claims import provider

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("valkey")]
TOKENS = ProviderTokens("an-access-token", "a-refresh-token", 7.0)


@pytest.fixture(autouse=True)
def own_keys(tmp_path: Path, settings: Any) -> Path:
    settings.HOME = tmp_path
    return tmp_path / "secrets.key"


@pytest.fixture
def corp(settings: Any) -> Provider:
    one = provider()
    settings.SIGN_IN = SignInSettings(providers=(one,))
    return one


def dump() -> str:
    """Return all that the database holds, what sessions hold decoded."""
    found = [str(one.get_decoded()) for one in Session.objects.all()]
    with connection.cursor() as cursor:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {connection.ops.quote_name(table)}")
            found += [str(row) for row in cursor.fetchall()]
    return "\n".join(found)


def test_a_dump_of_the_database_holds_no_seed_no_code_and_no_token_of_a_provider(
    as_user: AsUser, cast: Cast, corp: Provider
) -> None:
    client = as_user(cast.mate)
    secret, codes = set_up(client)
    session_of(cast, corp, TOKENS)
    seeds = [row.data.get("secret") or row.data["seed"] for row in Authenticator.objects.all()]
    with factors.seeds_of(cast.mate):
        opened = [read_seed(text) for text in seeds]
    everything = dump()
    assert secret in opened and cast.mate.username in everything
    for one in (*opened, *(code.replace("-", "") for code in codes), *codes, TOKENS.access, TOKENS.refresh):
        assert one not in everything


def test_the_seed_of_an_app_that_gave_no_code_yet_is_sealed_too(as_user: AsUser, cast: Cast) -> None:
    client = as_user(cast.mate)
    client.get("/account/security/app/")
    sealed = client.session[factors.NEW_SEED]
    assert factors.open_seed(cast.mate, sealed) not in dump()
    with pytest.raises(KeyProblem):
        factors.open_seed(cast.owner, sealed)


def test_a_rotation_wraps_them_too_while_people_sign_in(
    as_user: AsUser, cast: Cast, corp: Provider, own_keys: Path
) -> None:
    secret, codes = set_up(as_user(cast.mate))
    row = session_of(cast, corp, TOKENS).provider_session
    before = own_keys.read_text().strip()
    with factors.seeds_of(cast.mate):  # somebody is in the midst of it
        assert store.rotate_key().num_wrapped == 3
        assert factors.check_code(cast.mate, codes[0], "127.0.0.1")
    row.refresh_from_db()
    assert before not in own_keys.read_text() and open_tokens("corp", "7", row.locked) == TOKENS
    assert factors.check_code(cast.mate, code_of(secret, 1), "127.0.0.1")


def test_a_seed_that_somebody_copied_into_anothers_row_opens_nothing(as_user: AsUser, cast: Cast) -> None:
    secret, _ = set_up(as_user(cast.mate))
    copied = Authenticator.objects.get(user=cast.mate, type=Authenticator.Type.TOTP).data
    Authenticator.objects.create(user=cast.owner, type=Authenticator.Type.TOTP, data=copied)
    client = Client()
    client.get(f"/sign-in/{make_sign_in_link(user=cast.owner)}/")
    answer = client.post("/sign-in/second/", {"code": code_of(secret)})
    assert answer.status_code == 503 and "cannot open your second factor" in answer.content.decode()


def test_without_the_key_nobody_is_signed_out_and_nobody_gets_in(
    as_user: AsUser, cast: Cast, corp: Provider, own_keys: Path
) -> None:
    secret, _ = set_up(as_user(cast.mate))
    locked = lock_tokens("corp", "7", TOKENS)
    own_keys.unlink()
    with pytest.raises(KeyProblem):
        open_tokens("corp", "7", locked)
    client = Client()
    come(client, cast.mate)
    assert client.post("/sign-in/second/", {"code": code_of(secret)}).status_code == 503
    assert seal_seed(cast.mate, "x"), "with a new key new factors can be set up"

"""Settings that are read before Django is there."""

from __future__ import annotations

import re

import pytest

from dashboard.home import mail_server


@pytest.mark.parametrize(("port", "tls"), [("25", ""), ("587", "starttls"), ("465", "tls")])
def test_the_server_of_e_mail_has_a_port_and_an_encryption(port: str, tls: str) -> None:
    assert mail_server(port, tls) == (int(port), tls)


@pytest.mark.parametrize(("port", "tls", "words"), [
    ("0", "", "EMAIL_PORT is a port from 1 to 65535, not '0'."),
    ("655361", "", "not '655361'"),
    ("smtp", "", "not 'smtp'"),
    ("25", "true", "EMAIL_TLS is starttls, tls or unset, not 'true'."),
])  # fmt: skip
def test_what_is_none_is_refused_and_nothing_goes_unencrypted_by_a_slip(port: str, tls: str, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        mail_server(port, tls)

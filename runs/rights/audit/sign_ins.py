"""Sign-ins, sign-outs and tries that failed, whichever way somebody came: Django's own signals tell of all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth.signals import user_logged_in, user_logged_out, user_login_failed

from runs.models import User
from runs.rights.audit.acts import current_act


def watch_sign_ins() -> None:
    """Connect the signals, once, as the app is ready."""
    user_logged_in.connect(_signed_in, dispatch_uid="audit")
    user_logged_out.connect(_signed_out, dispatch_uid="audit")
    user_login_failed.connect(_failed, dispatch_uid="audit")


def _signed_in(sender: Any, user: Any, **_: Any) -> None:
    act = current_act()
    if act is not None and isinstance(user, User):
        act.is_wanted, act.action, act.object = True, "sign-in", f"user {user.username}"
        act.actor, act.actor_number = user.username, user.pk


def _signed_out(sender: Any, user: Any, **_: Any) -> None:
    act = current_act()
    if act is not None and isinstance(user, User):
        act.is_wanted, act.action, act.object = True, "sign-out", f"user {user.username}"
        act.actor, act.actor_number = user.username, user.pk


def _failed(sender: Any, credentials: Mapping[str, object], **_: Any) -> None:
    """A name that nobody has is not kept: people type their password there now and then."""
    act = current_act()
    if act is None:
        return
    name = User.objects.filter(username=str(credentials.get("username", ""))[:150]).values_list("username", flat=True)
    known = name.first()
    act.is_wanted, act.action, act.object = True, "sign-in", f"user {known}" if known else "an unknown name"
    act.result = "refused: wrong password" if known else "refused: unknown name"

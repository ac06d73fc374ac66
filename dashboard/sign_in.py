"""`python -m dashboard.sign_in [USER]`: print a link that signs a person in, once, within a day."""

import argparse
import sys

from dashboard.home import home_path
from dashboard.up.checks import CannotStart
from dashboard.up.database import CLIENT, open_database, owner, set_up_django, sign_in_url, stored


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m dashboard.sign_in", description="Print a one-time sign-in link.")
    parser.add_argument("user", nargs="?", help="a user name; default: the first administrator")
    parser.add_argument(
        "--without-second-factor", action="store_true", help="remove the person's second factors first: they lost them"
    )
    options = parser.parse_args(arguments)
    try:
        print(link_for(options.user, without_second_factor=options.without_second_factor))
    except CannotStart as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def link_for(username: str | None, *, without_second_factor: bool = False) -> str:
    """Return the link. Raises CannotStart where nobody has that name."""
    set_up_django()
    open_database()
    from django.conf import settings

    from runs.models import User
    from runs.people.identity import second_factor
    from runs.rights.audit.facts import Act
    from runs.rights.audit.recording import OK, record

    user = User.objects.filter(username=username, is_active=True).first() if username else owner()
    if user is None:
        raise CannotStart(f"Nobody here is called {username!r}.")
    record(Act(actor="the server's user", action="sign-in-link.create", object=f"user {user.username}", result=OK))
    if without_second_factor:
        second_factor.remove_all(user)
        record(Act(actor="the server's user", action="second-factor.remove", object=f"user {user.username}", result=OK))
    served = stored(home_path() / CLIENT).get("url")  # by the last `up` of this home
    return sign_in_url(str(served or settings.PUBLIC_URL), user)


if __name__ == "__main__":
    sys.exit(main())

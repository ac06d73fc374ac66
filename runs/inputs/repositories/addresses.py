"""Addresses from which the server may fetch code: none of its own network but those that the settings name."""

import ipaddress
import socket
from pathlib import Path

from django.conf import settings

from runs.inputs.repositories.problems import RepositoryProblem
from trainyard.formats.addresses import address_problem
from trainyard.spec.values.code import RepositoryAddress

PORTS = {"https": 443, "http": 80, "ssh": 22}


def allowed_address(url: str, place: RepositoryAddress) -> str:
    """Return the address to connect to, which was looked at: a name may lead elsewhere the next time. Empty for a
    path of the server. Raises RepositoryProblem."""
    if place.scheme == "file":
        _refuse_path(url, place.path)
        return ""
    try:
        found = socket.getaddrinfo(place.host, place.port or PORTS[place.scheme], type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        words = getattr(error, "strerror", None) or "it is no name"
        raise RepositoryProblem(
            "git", f"there is no host {place.host} as seen from the server ({words}): correct the URL, or try again"
        ) from None
    addresses = list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))
    for address in addresses:
        if problem := address_problem(ipaddress.ip_address(address), "code is", "the server"):
            raise RepositoryProblem("git", f"{url} {problem}")
    if place.scheme == "http" and any(ipaddress.ip_address(address).is_global for address in addresses):
        raise RepositoryProblem("git", f"{url} would be fetched without encryption over the internet: write https://")
    return addresses[0]


def _refuse_path(url: str, path: str) -> None:
    roots = [Path(root).resolve() for root in settings.GIT_FILE_ROOTS]
    if not roots:
        raise RepositoryProblem(
            "git", f"{url} is a folder of the server, which fetches from there only where its GIT_FILE_ROOTS names it"
        )
    if not any(Path(path).resolve().is_relative_to(root) for root in roots):
        shown = ", ".join(map(str, roots))
        raise RepositoryProblem(
            "git", f"{url} is outside of the folders that GIT_FILE_ROOTS of the server names ({shown})"
        )

"""``/authorities``: which certificate authorities vouch for this server."""

from django.http import HttpRequest, HttpResponse

from runs.api.auth import Resource
from runs.rights.access.operations import PUBLIC, operation
from runs.serving import certificates

router = Resource(tags=["nodes"])


@router.get("/authorities", response={200: None}, summary="The certificates that vouch for this server")
@operation(PUBLIC)
def show(request: HttpRequest) -> HttpResponse:
    """PEM, the newest first; empty where it has none of its own. Needs no login: they are public, and a node that
    joins knows the right one by the fingerprint in its join token."""
    response = HttpResponse(certificates.bundle(), content_type="application/x-pem-file")
    response["Cache-Control"] = "no-store"
    return response

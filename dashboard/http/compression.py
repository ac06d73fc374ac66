"""Pages and JSON leave compressed. Django's middleware puts random bytes into each answer, so that its length gives
nothing away to whoever watches the wire (BREACH); an answer that another site asked for stays as it is."""

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware

# Files of users, pictures and packed columns are dense already. Static files were compressed when they were collected.
COMPRESSED = frozenset({"text/html", "application/json", "application/problem+json"})
MIN_BYTES = 1400  # what fits into one packet arrives no sooner when it is smaller
FOREIGN = ("cross-site", "same-site")  # what Sec-Fetch-Site says where another origin asks


class CompressionMiddleware(GZipMiddleware):
    """Compresses what is worth it. What is streamed stays as it is: each of its parts leaves at once."""

    def process_response(self, request: HttpRequest, response: HttpResponseBase) -> HttpResponseBase:
        if not isinstance(response, HttpResponse) or len(response.content) < MIN_BYTES:
            return response
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind not in COMPRESSED or request.path.startswith(settings.STATIC_URL):
            return response
        if request.headers.get("Sec-Fetch-Site") in FOREIGN:
            return response
        return super().process_response(request, response)

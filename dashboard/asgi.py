"""The web process: pages and REST over HTTP, pushes over WebSocket."""

import gc
import os

from channels.routing import ProtocolTypeRouter, URLRouter
from channels.sessions import CookieMiddleware
from django.core.asgi import get_asgi_application
from django.urls import get_resolver, re_path

from trainyard import lifeline

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "dashboard.settings")
http = get_asgi_application()  # readies the apps; what is below may import models

from dashboard.databases import share_connections  # noqa: E402
from dashboard.http.body_limits import BodyLimit  # noqa: E402
from dashboard.http.forwarded import Forwarded  # noqa: E402
from dashboard.http.own_clients import OwnClients  # noqa: E402
from dashboard.sockets.admission import SameOrigin  # noqa: E402
from dashboard.sockets.consumers import no_such_socket, websocket_urlpatterns  # noqa: E402
from runs.serving.request_counts import Counted  # noqa: E402

sockets = URLRouter([*websocket_urlpatterns, re_path("", no_such_socket)])  # type: ignore[arg-type]
routes = ProtocolTypeRouter({"http": BodyLimit(http), "websocket": SameOrigin(CookieMiddleware(sockets))})
application = Counted(OwnClients(Forwarded(routes)))
share_connections()
assert get_resolver().url_patterns  # every page and route is imported now, not by whoever asks first
lifeline.watch()
gc.collect()
gc.freeze()  # what is loaded now stays: no collection during a request looks through it

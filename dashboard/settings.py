"""Settings of the site, control and ingest. Everything comes from the environment or from TRAINYARD_HOME."""

import os
from pathlib import Path
from typing import Any

from django.templatetags.static import static

from dashboard import databases, home, logs
from dashboard.databases import BYTES, DAYS, RATE, SECONDS, number
from dashboard.home import embedded_valkey_url, home_path, read_secret_files, secret_key, serves_tls, tls_folder
from dashboard.http import hosts
from runs.people.identity.providers import read_settings
from runs.serving.collectors import collector, syslog_place
from trainyard.contract.seals import CONTROL_QUEUE, broker_url
from trainyard.rest.http_clients import spare_loopback

spare_loopback(os.environ)  # before any client is made, of a library or of ours
read_secret_files(os.environ)

BASE_DIR = home.ROOT
HOME = home_path()

# --- Who may talk to the site, and how it is named from outside

HOST = os.environ.get("HOST", "127.0.0.1")
PORT = int(os.environ.get("PORT", "8000"))
IS_TLS_SERVED = serves_tls(HOME)  # by ourselves, with the certificates of TLS_FOLDER
TLS_FOLDER = tls_folder(HOME)
# Set it behind a proxy that ends TLS.
PUBLIC_URL = hosts.public_url(os.environ.get("PUBLIC_URL") or hosts.url(HOST, PORT, is_tls=IS_TLS_SERVED))
IS_TLS = PUBLIC_URL.startswith("https://")
# Whom nodes trust where a proxy in front of us shows another certificate than ours.
PROXY_AUTHORITIES = hosts.proxy_authorities(os.environ.get("TRAINYARD_CA", ""), PUBLIC_URL)
# Where apps of runs are opened, each in an origin of its own: https://*.apps.example.org
PROXY_ORIGIN = hosts.proxy_origin(
    os.environ.get("TRAINYARD_PROXY_ORIGIN", "").rstrip("/"), PUBLIC_URL, os.environ.get("PROXY_PORT", "")
)
ALLOWED_HOSTS = hosts.allowed(HOST, PUBLIC_URL, os.environ.get("ALLOWED_HOSTS", ""))
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]
# Whose X-Forwarded-For is believed, besides programs of our user and root's on this machine
FORWARDED_ALLOW_IPS = os.environ.get("FORWARDED_ALLOW_IPS", "")
FORWARDED_ALLOW_USERS = hosts.proxy_users(os.environ.get("FORWARDED_ALLOW_USERS", ""))

SECRET_KEY = os.environ.get("SECRET_KEY") or secret_key(HOME)
DEBUG = False

# --- The site

INSTALLED_APPS = [
    "unfold",
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.mfa",
    "channels",
    "ninja",  # for the scripts and styles of /api/v1/docs, which would come from somebody else's server otherwise
    "runs",
    "runs.records.metrics",
    "dashboard",
]
MIDDLEWARE = [
    "dashboard.http.content_policy.security_headers",
    "dashboard.http.asgi.CompressionMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "dashboard.frontend.storage.StaticMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "dashboard.http.audit.audit",
    "allauth.account.middleware.AccountMiddleware",
    "dashboard.http.signed_in.SignedInMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ]
        },
    }
]
ROOT_URLCONF = "dashboard.urls"
ASGI_APPLICATION = "dashboard.asgi.application"

# --- People

AUTH_USER_MODEL = "runs.User"
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"
PASSWORD_HASHERS = ["runs.serving.password_hashing.Hasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in ("UserAttributeSimilarityValidator", "MinimumLengthValidator", "CommonPasswordValidator")
]
# Cookies do not see ports: two Trainyards on one machine would sign each other out under one name. The port is the one
# that people see: webs behind one address have ports of their own.
SESSION_COOKIE_NAME = f"trainyard-session-{hosts.port_of(PUBLIC_URL)}"
SESSION_COOKIE_AGE = 14 * 24 * 3600
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = IS_TLS
CSRF_COOKIE_NAME = f"trainyard-csrf-{hosts.port_of(PUBLIC_URL)}"
CSRF_FAILURE_VIEW = "dashboard.pages.errors.stale_form"
CSRF_COOKIE_HTTPONLY = True  # our scripts take the token from the page

# --- Identity providers and second factors. allauth speaks the protocols; pages, pauses and rules are ours.

_sign_in_file = os.environ.get("SIGN_IN_FILE", "")
SIGN_IN = read_settings(Path(_sign_in_file or HOME / "sign_in.toml"), must_exist=bool(_sign_in_file))
SOCIALACCOUNT_ADAPTER = "dashboard.pages.account.adapters.ProviderAdapter"
SOCIALACCOUNT_REQUESTS_TIMEOUT = 8
MFA_ADAPTER = "dashboard.pages.account.adapters.FactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "recovery_codes", "webauthn"]
MFA_TOTP_ISSUER = "Trainyard"
MFA_TOTP_TOLERANCE = 1  # a phone's clock may be half a minute off
MFA_ALLOW_UNVERIFIED_EMAIL = True
ACCOUNT_DEFAULT_HTTP_PROTOCOL = "https" if IS_TLS else "http"  # of addresses that an identity provider leads back to
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_RATE_LIMITS = False  # runs.serving.login_limits counts, for all web processes together

# --- Headers. The content-security policy is in dashboard/http/content_policy.py.

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_CROSS_ORIGIN_OPENER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if IS_TLS else None
# Not for the address of a laptop: it would keep browsers from other programs of that host.
SECURE_HSTS_SECONDS = 365 * 24 * 3600 if IS_TLS and "PUBLIC_URL" in os.environ else 0
# The proxy that ends TLS decides about redirects from plain HTTP and about subdomains.
SILENCED_SYSTEM_CHECKS = [f"security.W{number}" for number in ("004", "005", "008", "012", "016", "021")]
DATA_UPLOAD_MAX_NUMBER_FILES = 2000  # a folder of code comes file by file from a browser, each with its path
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2500
DATA_UPLOAD_MAX_MEMORY_SIZE = 56 * 1024 * 1024  # a code bundle has up to 50 MB

# --- What one sender may ask of the server (docs/limits.md). Rates are requests a second, 0 for no limit.

RATE_PER_PERSON = number("RATE_PER_PERSON", RATE, 400.0)
RATE_PER_TOKEN = number("RATE_PER_TOKEN", RATE, 200.0)
# Slow clients: for a request's head, for the next part of a body, and until a client reads what it was sent.
SLOW_HEAD_S = number("SLOW_HEAD_S", SECONDS, 20.0)
SLOW_BODY_S = number("SLOW_BODY_S", SECONDS, 30.0)
SLOW_READER_S = number("SLOW_READER_S", SECONDS, 60.0)

# --- Databases and Valkey

DATABASES: dict[str, dict[str, Any]]
DATABASES, METRICS_DATABASE = databases.choose(os.environ.get("DATABASE_URL", ""), HOME)
INGEST_SHARDS = databases.num_shards(DATABASES)
KEEP_ARCHIVED_DAYS = number("KEEP_ARCHIVED_DAYS", DAYS, 0)
# The audit: how long rows are kept (0: for ever), and a collector that gets them too (RFC 5424).
AUDIT_KEEP_DAYS = number("AUDIT_KEEP_DAYS", DAYS, 0)
AUDIT_SYSLOG = syslog_place(os.environ.get("AUDIT_SYSLOG", ""))
AUDIT_OTLP = collector(os.environ.get("AUDIT_OTLP", ""), os.environ.get("AUDIT_OTLP_HEADERS", ""))
# A collector that gets numbers of the server and traces of runs.
TELEMETRY_OTLP = collector(
    os.environ.get("TELEMETRY_OTLP", ""), os.environ.get("TELEMETRY_OTLP_HEADERS", ""), "TELEMETRY_OTLP", own_path=""
)
# People who were erased, for whoever restores a copy; where this server is; a text that people agree to.
AUDIT_HEAD_FILE = os.environ.get("AUDIT_HEAD_FILE") or str(HOME / "audit_head")  # number and hash of the newest row
ERASURES_FILE = os.environ.get("ERASURES_FILE") or str(HOME / "erasures.jsonl")
SERVER_REGION = os.environ.get("SERVER_REGION", "").strip()
CONSENT_FILE = os.environ.get("CONSENT_FILE", "")
# Keys that wrap secrets: a service, or keys in the environment; without either a file in the home.
SECRETS_KMS = os.environ.get("TRAINYARD_SECRETS_KMS", "")
SECRETS_KEY = os.environ.get("TRAINYARD_SECRETS_KEY", "")
RESIZE_SETTLE_S = number("RESIZE_SETTLE_S", SECONDS, 3.0)
OUTPUT_LIMIT_BYTES = number("OUTPUT_LIMIT_BYTES", BYTES, 100 * 1024**3)
# Text of a run's logs; what comes beyond it is counted and not kept.
LOG_LIMIT_BYTES = number("LOG_LIMIT_BYTES", BYTES, 10 * 1024**3)
# Code from Git: folders of this machine that may be fetched from, the largest repository, and all copies together.
GIT_FILE_ROOTS = [root for root in os.environ.get("GIT_FILE_ROOTS", "").split(os.pathsep) if root]
GIT_LIMIT_BYTES = number("GIT_LIMIT_BYTES", BYTES, 1024**3)
GIT_CACHE_BYTES = number("GIT_CACHE_BYTES", BYTES, 10 * 1024**3)
DATABASE_ROUTERS = ["dashboard.databases.MetricsRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = os.environ.get("REDIS_URL") or embedded_valkey_url(HOME)
# Where nodes on other machines reach the embedded one; empty where REDIS_URL is for them too.
VALKEY_TLS_URL = ""
if IS_TLS_SERVED and not os.environ.get("REDIS_URL"):
    VALKEY_TLS_URL = hosts.valkey_url(PUBLIC_URL, os.environ.get("VALKEY_TLS_PORT", ""))
NODES_REDIS_URL = VALKEY_TLS_URL or REDIS_URL
# Whether nodes get the server's own password of Valkey where they cannot have users of their own.
NODES_SHARE_VALKEY_USER = os.environ.get("NODES_SHARE_VALKEY_USER") == "1"
CHANNEL_LAYERS: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL], "prefix": "trainyard-push"},
    }
}

# --- Control. Messages are hints: losing one costs a tick, so nothing is kept for longer than it is news.

CELERY_BROKER_URL = broker_url(REDIS_URL)
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "ack_emulation": False,  # a hint that is lost costs a tick
    "visibility_timeout": 3600,  # equal in all apps on one broker
    "socket_timeout": 10,  # without it a dead server is waited for for ever
    "socket_connect_timeout": 5,
    "socket_keepalive": True,
    "health_check_interval": 15,
    # No sender, such as a request, waits: the tick repeats what was not sent.
    "max_retries": 1,
    "interval_start": 0,
    "interval_step": 0,
    "interval_max": 0,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
CELERY_BROKER_CHANNEL_ERROR_RETRY = True  # a Valkey whose disk is full answers with errors: connect again, do not end
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_DEFAULT_QUEUE = CONTROL_QUEUE
CELERY_WORKER_POOL = "threads"
CELERY_WORKER_CONCURRENCY = 4
# No limit: a worker with one reads nothing for up to a second once all of its threads are busy.
CELERY_WORKER_PREFETCH_MULTIPLIER = 0
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = False

# --- Static files: collected into the home at the start of `up`, with names that hold a digest of the content

STATIC_URL = "/static/"
STATIC_ROOT = HOME / "static"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = [
    "django.contrib.staticfiles.finders.FileSystemFinder",
    "django.contrib.staticfiles.finders.AppDirectoriesFinder",
    "dashboard.frontend.storage.NpmFinder",
]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "dashboard.frontend.storage.Storage"},
}
WHITENOISE_KEEP_ONLY_HASHED_FILES = True
WHITENOISE_ROOT = BASE_DIR / "static/js/root"  # served at /: a service worker is for what lies beside and below it
WHITENOISE_ALLOW_ALL_ORIGINS = False

# --- E-mail, for notices

EMAIL_HOST = os.environ.get("EMAIL_HOST", "")  # "": none is sent
EMAIL_PORT, EMAIL_TLS = home.mail_server(os.environ.get("EMAIL_PORT") or "25", os.environ.get("EMAIL_TLS", ""))
EMAIL_HOST_USER = os.environ.get("EMAIL_USER", "")
EMAIL_HOST_PASSWORD = os.environ.get("EMAIL_PASSWORD", "")
EMAIL_USE_TLS, EMAIL_USE_SSL = EMAIL_TLS == "starttls", EMAIL_TLS == "tls"
DEFAULT_FROM_EMAIL = os.environ.get("EMAIL_FROM", "trainyard@localhost")
EMAIL_TIMEOUT = 10

# --- The rest

TIME_ZONE = "UTC"
LANGUAGE_CODE = "en"
USE_I18N = False
FORMAT_MODULE_PATH = "dashboard.formats"
LOGGING = logs.configure()
UNFOLD = {
    "SITE_TITLE": "Trainyard",
    "SITE_HEADER": "Trainyard",
    "SITE_URL": "/",
    "SITE_ICON": lambda request: static("img/logo.svg"),
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("img/logo.svg")}],
    "STYLES": [lambda request: static("css/admin.css")],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "DASHBOARD_CALLBACK": "runs.admin.groups.dashboard",
    "SIDEBAR": {"navigation": "runs.admin.groups.navigation"},
}

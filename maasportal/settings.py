"""Settings, read from the environment. A setting has one reader; a bad value stops the start and says which it was.

Secrets may be given as files: `NAME_FILE` holds the path of a file whose content is the value of `NAME`.
"""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

import environ
from django.utils.translation import gettext_lazy as _

from apps.jobs.domain.phases import Phase as JobPhase
from apps.quotas.domain.states import State as QuotaState
from apps.secrets.domain import Kind as SecretKind

BASE_DIR = Path(__file__).resolve().parent.parent
env = environ.FileAwareEnv()

# --- what this process is -------------------------------------------------------------------------------------------

DEMO = env.bool("MAAS_DEMO", default=False)
"""The demo on one machine: known people, a small cluster. Refuses to start beyond loopback (checks.py)."""
DEBUG = env.bool("MAAS_DEBUG", default=False)
SECRET_KEY = env.str("MAAS_SECRET_KEY")
BASE_URL = env.str("MAAS_BASE_URL", default="http://127.0.0.1:8000").rstrip("/")
ALLOWED_HOSTS = env.list("MAAS_ALLOWED_HOSTS", default=[urlsplit(BASE_URL).hostname or ""])
CSRF_TRUSTED_ORIGINS = [BASE_URL]
SECURE = BASE_URL.startswith("https:")

ROOT_URLCONF = "maasportal.urls"
ASGI_APPLICATION = "maasportal.asgi.application"
WSGI_APPLICATION = "maasportal.wsgi.application"
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.forms",
    "django.contrib.postgres",
    "rest_framework",
    "drf_spectacular",
    "django_htmx",
    "template_partials",
    "django_filters",
    "django_structlog",
    "mozilla_django_oidc",
    "apps.audit",
    "apps.accounts",
    "apps.streams",
    "apps.notices",
    "apps.quotas",
    "apps.secrets",
    "apps.clusters",
    "apps.tenants",
    "apps.catalog",
    "apps.jobs",
    "apps.serving",
    "apps.portal",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "csp.middleware.CSPMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "apps.accounts.middleware.AuthenticationMiddleware",
    "apps.accounts.middleware.LanguageMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "apps.accounts.middleware.RequestLogMiddleware",
    "apps.accounts.middleware.ProviderSessionMiddleware",
    "apps.accounts.middleware.ActorMiddleware",
    "maasportal.health.TroubleMiddleware",
]

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.template.context_processors.i18n",
                "django.contrib.messages.context_processors.messages",
                "maasportal.ui.shell",
            ],
            "builtins": [
                "django.templatetags.i18n",
                "django.templatetags.static",
                "template_partials.templatetags.partials",
                "maasportal.ui",
            ],
        },
    }
]
FORM_RENDERER = "django.forms.renderers.TemplatesSetting"

# --- where things are kept ------------------------------------------------------------------------------------------

# Under ASGI persistent connections per thread exhaust the server; a bounded pool does not (and a full one fails fast).
DATABASES = {
    "default": {
        **env.db_url("DATABASE_URL"),
        "CONN_MAX_AGE": 0,
        "CONN_HEALTH_CHECKS": True,
        "OPTIONS": {"pool": {"min_size": 1, "max_size": env.int("MAAS_DB_POOL", default=10), "timeout": 5}},
    }
}
REDIS_URL = env.str("REDIS_URL")
CACHES = {"default": {"BACKEND": "maasportal.cache.ForgetfulRedisCache", "LOCATION": REDIS_URL}}
# Redis holds nothing that may not be lost: sessions live in the database and are cached.
SESSION_ENGINE = "django.contrib.sessions.backends.cached_db"

CELERY_BROKER_URL = REDIS_URL
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True  # so that a worker takes no more than it works at
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TASK_TIME_LIMIT = 120
CELERY_TASK_SOFT_TIME_LIMIT = 100
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# The row is the queue, a message only a wake-up: none may block a request for long (kombu's default is for ever), and
# none is written down once more while it is worked at. What a killed worker had fetched, the sweeps find by its row.
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "ack_emulation": False,
    "socket_timeout": 10,
    "socket_connect_timeout": 2,
    "max_retries": 1,
}

# --- the secrets server ---------------------------------------------------------------------------------------------

VAULT_ADDR = env.str("VAULT_ADDR", default="")
VAULT_ROLE_ID_FILE = env.str("VAULT_ROLE_ID_FILE", default="")
VAULT_SECRET_ID_FILE = env.str("VAULT_SECRET_ID_FILE", default="")
VAULT_MOUNT = env.str("VAULT_MOUNT", default="maas")
# Web processes log in with a role of their own that can put values in and read none. They need no other.
VAULT_ENTRY_ROLE_ID_FILE = env.str("VAULT_ENTRY_ROLE_ID_FILE", default=VAULT_ROLE_ID_FILE)
VAULT_ENTRY_SECRET_ID_FILE = env.str("VAULT_ENTRY_SECRET_ID_FILE", default=VAULT_SECRET_ID_FILE)

# --- files of models ------------------------------------------------------------------------------------------------

# By digest in an S3 bucket where one is named, else in a folder that every process of the portal can write to.
STORAGE_DIR = env.str("MAAS_STORAGE_DIR", default=str(BASE_DIR / "var" / "storage"))
S3_BUCKET = env.str("MAAS_S3_BUCKET", default="")
S3_ENDPOINT = env.str("MAAS_S3_ENDPOINT", default="")
S3_REGION = env.str("MAAS_S3_REGION", default="")
S3_PREFIX = env.str("MAAS_S3_PREFIX", default="")
S3_ACCESS_KEY = env.str("MAAS_S3_ACCESS_KEY", default="")
S3_SECRET_KEY = env.str("MAAS_S3_SECRET_KEY", default="")
# The portal as pods reach it, which may be another address than that of people.
PODS_URL = env.str("MAAS_PODS_URL", default=BASE_URL).rstrip("/")
CARRY_IMAGE = env.str("MAAS_CARRY_IMAGE", default="maas/carry:1")
# Of the pod that reads TensorBoard event files in a job's volume; empty: none does.
EVENTS_IMAGE = env.str("MAAS_EVENTS_IMAGE", default="maas/events:1")
# Of TensorBoard, for people who open one for a job; empty: nobody can. And for how long one is there at most.
TENSORBOARD_IMAGE = env.str("MAAS_TENSORBOARD_IMAGE", default="")
TENSORBOARD_HOURS = env.int("MAAS_TENSORBOARD_HOURS", default=4)
UPLOAD_LIMIT = env.int("MAAS_UPLOAD_LIMIT_GIB", default=160) * 2**30
"""Bytes of all files of one version."""

# --- logs that are kept ----------------------------------------------------------------------------------------------

# In the same storage. 0: without end.
LOG_KEPT_DAYS = env.int("MAAS_LOG_KEPT_DAYS", default=90)
EXPORTERS_FILE = env.str("MAAS_EXPORTERS_FILE", default="")
LOG_KEPT_BYTES = env.int("MAAS_LOG_KEPT_GIB", default=50) * 2**30
"""Compressed bytes of each tenant."""

# --- tenants in clusters ----------------------------------------------------------------------------------------------

# What pods of every tenant may reach beyond their namespace, and who may reach them: name=address[@port+port], …
PORTAL_TENANT_EGRESS = env.list("MAAS_TENANT_EGRESS", default=[])
PORTAL_TENANT_INGRESS = env.list("MAAS_TENANT_INGRESS", default=[])
# What the clusters' API servers put before a group of the identity provider (--oidc-groups-prefix).
PORTAL_CLUSTER_GROUP_PREFIX = env.str("MAAS_CLUSTER_GROUP_PREFIX", default="oidc:")

# --- the gateway to deployed models -----------------------------------------------------------------------------------

# Where clients reach it, and the folder that it takes its routes from. Without them models are deployed, not published.
GATEWAY_URL = env.str("MAAS_GATEWAY_URL", default="").rstrip("/")
GATEWAY_DIR = env.str("MAAS_GATEWAY_DIR", default="")
GATEWAY_HOSTS = env.list("MAAS_GATEWAY_HOSTS", default=[urlsplit(GATEWAY_URL).hostname] if GATEWAY_URL else [])
GATEWAY_SECRET = env.str("MAAS_GATEWAY_SECRET", default="")
"""What it shows when it asks whether a request may pass."""
# It asks under the name that its client used.
ALLOWED_HOSTS += [host for host in GATEWAY_HOSTS if host not in ALLOWED_HOSTS]

# --- who people are (OpenID Connect) --------------------------------------------------------------------------------

AUTH_USER_MODEL = "accounts.User"
AUTHENTICATION_BACKENDS = ["apps.accounts.oidc.Backend"]
LOGIN_REDIRECT_URL = "portal:home"
LOGOUT_REDIRECT_URL = "/"

OIDC_ISSUER = env.str("OIDC_ISSUER", default="http://127.0.0.1:9000")
OIDC_RP_CLIENT_ID = env.str("OIDC_CLIENT_ID", default="maas-portal")
OIDC_RP_CLIENT_SECRET = env.str("OIDC_CLIENT_SECRET", default="")
OIDC_OP_AUTHORIZATION_ENDPOINT = env.str("OIDC_AUTHORIZATION_ENDPOINT", default=f"{OIDC_ISSUER}/auth")
OIDC_OP_TOKEN_ENDPOINT = env.str("OIDC_TOKEN_ENDPOINT", default=f"{OIDC_ISSUER}/token")
OIDC_OP_USER_ENDPOINT = env.str("OIDC_USERINFO_ENDPOINT", default=f"{OIDC_ISSUER}/me")
OIDC_OP_JWKS_ENDPOINT = env.str("OIDC_JWKS_ENDPOINT", default=f"{OIDC_ISSUER}/jwks")
OIDC_OP_END_SESSION_ENDPOINT = env.str("OIDC_END_SESSION_ENDPOINT", default=f"{OIDC_ISSUER}/session/end")
OIDC_RP_SIGN_ALGO = "RS256"
OIDC_RP_SCOPES = env.str("OIDC_SCOPES", default="openid email profile")
OIDC_USE_PKCE = True
OIDC_PKCE_CODE_CHALLENGE_METHOD = "S256"
OIDC_TIMEOUT = (3, 5)
OIDC_AUTHENTICATION_CALLBACK_URL = "accounts:oidc-callback"
OIDC_STORE_ID_TOKEN = OIDC_STORE_ACCESS_TOKEN = False
ALLOW_LOGOUT_GET_METHOD = False
PORTAL_OIDC_GROUPS_ABSENT = env.str("OIDC_GROUPS_ABSENT", default="empty")
PORTAL_OIDC_CHECK_SECONDS = env.int("OIDC_CHECK_SECONDS", default=60)
PORTAL_OIDC_GRACE_SECONDS = env.int("OIDC_GRACE_SECONDS", default=600)
PORTAL_OIDC_GROUPS_FROM = env.str("OIDC_GROUPS_FROM", default="id_token")
PORTAL_OIDC_NAME = env.str("OIDC_NAME", default="")
# Tokens of a person whom the provider has not confirmed for so long are refused until they sign in again.
PORTAL_TOKEN_CONFIRM_DAYS = env.int("MAAS_TOKEN_CONFIRM_DAYS", default=14)
PORTAL_IDLE_SECONDS = env.int("MAAS_IDLE_SECONDS", default=4 * 3600)

SESSION_COOKIE_AGE = env.int("MAAS_SESSION_SECONDS", default=12 * 3600)
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = SECURE
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = CSRF_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "maasportal.health.csrf_failure"
DEFAULT_EXCEPTION_REPORTER_FILTER = "maasportal.health.SafeReports"

# --- what a browser may do ------------------------------------------------------------------------------------------

_issuer = urlsplit(OIDC_ISSUER)
CONTENT_SECURITY_POLICY = {
    "DIRECTIVES": {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        # Tabler draws its check marks and arrows from data: pictures.
        "img-src": ["'self'", "data:"],
        "font-src": ["'self'"],
        "connect-src": ["'self'"],
        "manifest-src": ["'self'"],
        # Signing out is a form that ends at the provider.
        "form-action": ["'self'", f"{_issuer.scheme}://{_issuer.netloc}"],
        "frame-ancestors": ["'none'"],
        "base-uri": ["'none'"],
    }
}
X_FRAME_OPTIONS = "DENY"
SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31536000 if SECURE else 0
SECURE_SSL_REDIRECT = env.bool("MAAS_SSL_REDIRECT", default=False)
DATA_UPLOAD_MAX_MEMORY_SIZE = 2 * 1024 * 1024

# --- languages and time ---------------------------------------------------------------------------------------------

LANGUAGE_CODE = "en"
LANGUAGES = [("en", _("English")), ("zh-hans", _("Simplified Chinese"))]
FORMAT_MODULE_PATH = ["maasportal.formats"]
LOCALE_PATHS = [BASE_DIR / "locale"]
USE_I18N = USE_TZ = True
TIME_ZONE = "UTC"

# --- static files ---------------------------------------------------------------------------------------------------

STATIC_URL = "/static/"
STATIC_ROOT = env.str("MAAS_STATIC_ROOT", default=str(BASE_DIR / "var" / "static"))
_npm = BASE_DIR / "node_modules"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder", "maasportal.storage.VendorFinder"]
VENDOR_FILES = {
    "vendor/tabler": (_npm / "@tabler/core/dist/css", ["tabler.min.css"]),
    "vendor/htmx": (_npm / "htmx.org/dist", ["htmx.min.js"]),
    "vendor/uplot": (_npm / "uplot/dist", ["uPlot.min.css", "uPlot.esm.js"]),
    "vendor/inter": (_npm / "@fontsource-variable/inter", ["wght.css", "files/*-wght-normal.woff2"]),
    "vendor/jetbrains-mono": (_npm / "@fontsource-variable/jetbrains-mono", ["wght.css", "files/*-wght-normal.woff2"]),
}
"""Prefix → folder of an npm package, and which of its files are served."""
ICONS_DIR = _npm / "@tabler/icons/icons"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": env.str("MAAS_STATIC_STORAGE", default="maasportal.storage.ModuleStaticFilesStorage")},
}

# --- REST -----------------------------------------------------------------------------------------------------------

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "apps.accounts.authentication.TokenAuthentication",
        "apps.accounts.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAuthenticated"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "DEFAULT_PAGINATION_CLASS": "maasportal.rest.CursorPagination",
    "EXCEPTION_HANDLER": "maasportal.rest.problem",
    "UNAUTHENTICATED_USER": None,
    "URL_FORMAT_OVERRIDE": None,  # `?format=` filters models
    "PAGE_SIZE": 50,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "MaaS Portal",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "SERVE_AUTHENTICATION": [],
    # Where fields of one name have several sets of values, or one set stands in fields of several names.
    "ENUM_NAME_OVERRIDES": {
        "JobPhaseEnum": list(JobPhase),
        "QuotaStateEnum": list(QuotaState),
        "SecretKindEnum": list(SecretKind),
    },
}

# --- logs -----------------------------------------------------------------------------------------------------------

from maasportal.logs import logging_config  # noqa: E402  (it needs no setting, and a setting needs it)

LOGGING = logging_config(as_json=env.str("MAAS_LOG_FORMAT", default="json") == "json")
SILENCED_SYSTEM_CHECKS: list[str] = []

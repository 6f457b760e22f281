"""Django settings: the one place that reads the environment. Bad values are refused by name."""

from pathlib import Path

from . import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.directory("SIDECHAT_DATA_DIR", default=BASE_DIR / "data")
env.load_dotenv(DATA_DIR / ".env")

DEBUG = env.switch("SIDECHAT_DEBUG", default=False)
SECRET_KEY = env.secret_key("SIDECHAT_SECRET_KEY", DATA_DIR / "secret-key")
SECRET_KEY_FALLBACKS = env.secret_keys("SIDECHAT_SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = env.host_names("SIDECHAT_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.admin.apps.SimpleAdminConfig",  # our own site finds its pages itself
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "ninja",
    "sidechat_web.storage",
    "sidechat_web.accounts",
    "sidechat_web.runtime",
    "sidechat_web.runtime.sidechat",
    "sidechat_web",
]

MIDDLEWARE = [
    "django.middleware.gzip.GZipMiddleware",
    "sidechat_web.api.middleware.ErrorEnvelope",
    "django.middleware.security.SecurityMiddleware",
    "sidechat_web.accounts.middleware.BrowserRules",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "sidechat_web.api.middleware.KnownHosts",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "sidechat_web.accounts.middleware.LocalUserMiddleware",
    "sidechat_web.accounts.middleware.CallLimit",
    "sidechat_web.accounts.middleware.SignInRequired",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "sidechat_web.urls"
ASGI_APPLICATION = "sidechat_web.asgi.application"
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

DATABASES = {"default": env.database("DATABASE_URL", sqlite=DATA_DIR / "sidechat.sqlite3")}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = env.url("REDIS_URL", ["redis", "rediss", "unix"])
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
    if REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}

USE_TZ = True
TIME_ZONE = "UTC"  # pages put times into the browser’s zone
LANGUAGE_CODE = "en"
STATIC_URL = "static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
WHITENOISE_MAX_AGE = 0  # revalidated by ETag
WHITENOISE_ALLOW_ALL_ORIGINS = False
LOGIN_URL = "/accounts/login/"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator"},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
# Other programs on this machine also use localhost, and cookies do not know ports.
SESSION_COOKIE_NAME = "sidechat_session"
SESSION_ENGINE = "sidechat_web.accounts.session_store"
CSRF_COOKIE_NAME = "sidechat_csrf"
CSRF_COOKIE_HTTPONLY = True  # forms and htmx have the token from the page
CSRF_FAILURE_VIEW = "sidechat_web.accounts.views.csrf_failure"
DATA_UPLOAD_MAX_NUMBER_FILES = 10_000  # of a folder that is imported
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 << 20  # a message of a million characters fits however it is escaped

# What stands in front of us and says, by X-Forwarded-For and -Proto, who asks and how.
SIDECHAT_PROXY = env.choice("SIDECHAT_PROXY", ["off", "http", "https"], default="off")
if SIDECHAT_PROXY == "https":
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
    SECURE_HSTS_SECONDS = env.integer("SIDECHAT_HSTS_SECONDS", default=31_536_000, least=0)
    SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = True
    SESSION_COOKIE_NAME, CSRF_COOKIE_NAME = "__Host-sidechat_session", "__Host-sidechat_csrf"

# True on a loopback start: the browser is signed in as the one local user, without a password.
SIDECHAT_LOCAL_MODE = env.switch("SIDECHAT_LOCAL_MODE", default=SIDECHAT_PROXY == "off")
if SIDECHAT_LOCAL_MODE and SIDECHAT_PROXY != "off":
    env.refuse("SIDECHAT_LOCAL_MODE", "on", "off where SIDECHAT_PROXY is set: others come through it")
SIDECHAT_CALLS_PER_MINUTE = env.integer("SIDECHAT_CALLS_PER_MINUTE", default=600, least=0)
SIDECHAT_HANDBACK_MAX_CHARS = env.integer("SIDECHAT_HANDBACK_MAX_CHARS", default=2000, least=200)
SIDECHAT_STREAM_IDLE_SECONDS = env.integer("SIDECHAT_STREAM_IDLE_SECONDS", default=120, least=1)
SIDECHAT_STEP_LIMIT = env.integer("SIDECHAT_STEP_LIMIT", default=50, least=1)
SIDECHAT_ENABLE_SHELL = env.switch("SIDECHAT_ENABLE_SHELL", default=False)
SIDECHAT_WORKSPACES = env.directories("SIDECHAT_WORKSPACES")
SIDECHAT_ADVISOR_SYSTEM_PROMPT = env.text("SIDECHAT_ADVISOR_SYSTEM_PROMPT", default="")
SIDECHAT_LOCAL_MODEL = env.switch("SIDECHAT_LOCAL_MODEL", default=True)
SIDECHAT_DEFAULT_MODEL = env.model("SIDECHAT_DEFAULT_MODEL")
SIDECHAT_RUNNER = env.choice("SIDECHAT_RUNNER", ["inprocess", "procrastinate"], default="inprocess")
if SIDECHAT_RUNNER == "procrastinate":
    env.require("SIDECHAT_RUNNER=procrastinate", ["DATABASE_URL", "REDIS_URL"])
    INSTALLED_APPS.append("procrastinate.contrib.django")

# Providers. The catalogue takes those that are set.
SIDECHAT_OPENAI_BASE_URL = env.url("SIDECHAT_OPENAI_BASE_URL", ["http", "https"])
SIDECHAT_OPENAI_API_KEY = env.api_key("SIDECHAT_OPENAI_API_KEY")
OPENAI_API_KEY = env.api_key("OPENAI_API_KEY")
OPENAI_BASE_URL = env.url("OPENAI_BASE_URL", ["http", "https"])
ANTHROPIC_API_KEY = env.api_key("ANTHROPIC_API_KEY")
ANTHROPIC_BASE_URL = env.url("ANTHROPIC_BASE_URL", ["http", "https"])
DEEPSEEK_API_KEY = env.api_key("DEEPSEEK_API_KEY")
GEMINI_API_KEY = env.api_key("GEMINI_API_KEY")
OLLAMA_HOST = env.server("OLLAMA_HOST")
SIDECHAT_JOIN_USER_MESSAGES = env.subset(
    "SIDECHAT_JOIN_USER_MESSAGES", ["custom", "openai", "anthropic", "deepseek", "gemini", "ollama", "local"]
)

# What is logged, measured and traced; never what anybody said.
SIDECHAT_LOG_LEVEL = env.choice("SIDECHAT_LOG_LEVEL", ["warning", "info"], default="warning")
SIDECHAT_LOG_FORMAT = env.choice("SIDECHAT_LOG_FORMAT", ["plain", "json"], default="plain")
SIDECHAT_METRICS_TOKEN = env.api_key("SIDECHAT_METRICS_TOKEN")
SIDECHAT_TRACES = env.switch("SIDECHAT_TRACES", default=False)
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "plain": {
            "()": "sidechat_web.runtime.observing.journal.Quiet",
            "format": "%(asctime)s %(levelname)s %(name)s: %(message)s",
        },
        "json": {"()": "sidechat_web.runtime.observing.journal.Json"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": SIDECHAT_LOG_FORMAT}},
    "root": {"handlers": ["console"], "level": "WARNING"},
    "loggers": {
        # Answers of 400 to 499 are the client's affair; what failed here is logged with its traceback.
        "django": {"level": "ERROR", "handlers": [], "propagate": True},
        "sidechat": {"level": SIDECHAT_LOG_LEVEL.upper()},
        "sidechat_web": {"level": SIDECHAT_LOG_LEVEL.upper()},
    },
}

"""Django settings: the one place that reads the environment. Bad values are refused by name."""

from pathlib import Path

from . import env

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = env.directory("SIDECHAT_DATA_DIR", default=BASE_DIR / "data")
env.load_dotenv(DATA_DIR / ".env")

DEBUG = env.boolean("SIDECHAT_DEBUG", default=False)
SECRET_KEY = env.secret_key("SIDECHAT_SECRET_KEY", DATA_DIR / "secret-key")
ALLOWED_HOSTS = env.words("SIDECHAT_ALLOWED_HOSTS", default=["localhost", "127.0.0.1", "[::1]"])

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django_htmx",
    "sidechat_web.storage",
    "sidechat_web.accounts",
    "sidechat_web.runtime",
    "sidechat_web.runtime.sidechat",
    "sidechat_web",
]

MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "sidechat_web.accounts.middleware.LocalUserMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
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

REDIS_URL = env.text("REDIS_URL", default="")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {"hosts": [REDIS_URL]},
    }
    if REDIS_URL
    else {"BACKEND": "channels.layers.InMemoryChannelLayer"}
}

USE_TZ = True
LANGUAGE_CODE = "en"
STATIC_URL = "static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
WHITENOISE_USE_FINDERS = True
LOGIN_URL = "/accounts/login/"

# True on a loopback start: the browser is signed in as the one local user, without a password.
SIDECHAT_LOCAL_MODE = env.boolean("SIDECHAT_LOCAL_MODE", default=True)
SIDECHAT_HANDBACK_MAX_CHARS = env.integer("SIDECHAT_HANDBACK_MAX_CHARS", default=2000, least=200)
SIDECHAT_STREAM_IDLE_SECONDS = env.integer("SIDECHAT_STREAM_IDLE_SECONDS", default=120, least=1)
SIDECHAT_STEP_LIMIT = env.integer("SIDECHAT_STEP_LIMIT", default=50, least=1)
SIDECHAT_ENABLE_SHELL = env.boolean("SIDECHAT_ENABLE_SHELL", default=False)
SIDECHAT_ADVISOR_SYSTEM_PROMPT = env.text("SIDECHAT_ADVISOR_SYSTEM_PROMPT", default="")
SIDECHAT_LOCAL_MODEL = env.switch("SIDECHAT_LOCAL_MODEL", default=True)
SIDECHAT_DEFAULT_MODEL = env.text("SIDECHAT_DEFAULT_MODEL", default="")
SIDECHAT_OPENAI_BASE_URL = env.text("SIDECHAT_OPENAI_BASE_URL", default="")
SIDECHAT_OPENAI_API_KEY = env.text("SIDECHAT_OPENAI_API_KEY", default="")
SIDECHAT_JOIN_USER_MESSAGES = env.subset(
    "SIDECHAT_JOIN_USER_MESSAGES", ["custom", "openai", "anthropic", "deepseek", "gemini", "ollama", "local"]
)
SIDECHAT_RUNNER = env.choice("SIDECHAT_RUNNER", ["inprocess", "procrastinate"], default="inprocess")

"""The product's own settings, on a throw-away data directory and without real providers."""

import os
import tempfile

os.environ["SIDECHAT_DATA_DIR"] = os.environ.get("SIDECHAT_TEST_DATA_DIR") or tempfile.mkdtemp(prefix="sidechat-test-")
for _name in list(os.environ):
    if (
        _name.startswith("SIDECHAT_OPENAI")
        or _name.endswith(("_API_KEY", "_BASE_URL"))
        or _name in ("REDIS_URL", "OLLAMA_HOST")
    ):
        del os.environ[_name]

from sidechat_web.settings import *  # noqa: E402, F403
from sidechat_web.settings import DATABASES  # noqa: E402

SIDECHAT_WORKSPACES = ["/"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DATABASES["default"].setdefault("TEST", {})
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    # A file, as in the product: threads have connections of their own.
    DATABASES["default"]["TEST"]["NAME"] = os.path.join(os.environ["SIDECHAT_DATA_DIR"], "test.sqlite3")

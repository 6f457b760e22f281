"""`./sidechat rotate-secrets`: stored secrets under the present secret key."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from sidechat_web.storage import secrets


class Command(BaseCommand):
    help = "Encrypt stored secrets under SIDECHAT_SECRET_KEY; after that SIDECHAT_SECRET_KEY_FALLBACKS can go."

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            count = secrets.rotate_all()
        except secrets.SecretUnreadable as e:
            raise CommandError(f"Nothing was changed: {e.message}.") from None
        self.stdout.write(f"{count} stored secrets are encrypted under the present key.")

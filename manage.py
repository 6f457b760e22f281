#!/usr/bin/env python
"""Django's command line for Sidechat."""

import os
import sys


def main() -> None:
    os.umask(0o077)  # conversations and keys are for this user alone
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "sidechat_web.settings")
    from django.core.exceptions import ImproperlyConfigured
    from django.core.management import execute_from_command_line

    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as e:
        print(e, file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()

"""Exits with 0 if this container's service is connected to PostgreSQL and consumes from RabbitMQ."""

import os
import sys
import urllib.request

try:
    url = f"http://127.0.0.1:{os.environ.get('ORRERY_HTTP_PORT', '8080')}/readyz"
    urllib.request.urlopen(url, timeout=2).close()
except OSError as error:
    sys.exit(f"not ready: {error}")

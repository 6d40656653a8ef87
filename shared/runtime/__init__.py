"""What every service runs in.

`Service` and `Context` (what a composition root receives and returns), `serve` (settings, connections, consumers,
periodic work, HTTP, signals), `web_only` (a service without a database), metrics and logging.
"""

from shared.runtime.service import Context, Periodic, Service

__all__ = ["Context", "Periodic", "Service"]

"""Access to PostgreSQL, which decides.

The pool, the unit of work (state change, outgoing events and inbox in one transaction), numbered migrations run under a
lock, leases with fencing terms, daily partitions.

The schema itself is `migrations/NNNN_*.sql`; it is the contract for tables and columns.
"""

from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork

__all__ = ["Database", "UnitOfWork"]

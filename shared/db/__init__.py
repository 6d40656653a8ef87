"""Access to PostgreSQL, which decides.

The pool, the unit of work (state change, outgoing events and inbox in one transaction), the schema, leases with fencing
terms, daily partitions.

`schema/<subject>.sql` says what each table and column is. `orrery migrate` gives the schema to an empty database.
"""

from shared.db.database import Database
from shared.db.unit_of_work import UnitOfWork

__all__ = ["Database", "UnitOfWork"]

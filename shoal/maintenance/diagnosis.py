"""Whether an unexpected error comes from a damaged value of the library.

Code that reads the library takes its values for what their columns may hold. Where one is not, an operation
may end with almost any error; only then is it worth reading all values.
"""

from __future__ import annotations

from shoal.errors import DamagedDatabaseError
from shoal.maintenance.stored_values import invalid_values
from shoal.storage.database import Database

SUSPECT = (TypeError, ValueError, AttributeError, LookupError, ArithmeticError, AssertionError)
"""What a value of a wrong type or out of range leads to. No error of Shoal is one of these."""


def damage_behind(error: BaseException, database: Database) -> DamagedDatabaseError | None:
    """Return the error that names a damaged value, or None if there is none, or it is not found in the time
    of a read. Reads the whole library."""
    if not isinstance(error, SUSPECT):
        return None
    try:
        with database.snapshot() as snapshot:
            value = next(invalid_values(snapshot), None)
    except DamagedDatabaseError as damage:
        return damage
    except Exception:  # the error to explain may happen again here
        return None
    return None if value is None else DamagedDatabaseError(str(value))

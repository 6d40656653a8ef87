"""Which errors are the database's and which are ours."""

from __future__ import annotations

import asyncpg
import pytest
from asyncpg.exceptions._base import DataError as CannotBeEncoded

from shared.db.database import is_retryable, is_unstorable


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.InternalClientError("cannot switch to state 12; another operation (2) is in progress"),
        asyncpg.SerializationError(),
        asyncpg.DeadlockDetectedError(),
        asyncpg.StatementCompletionUnknownError(),
        asyncpg.ConnectionDoesNotExistError(),
        asyncpg.AdminShutdownError(),
        asyncpg.CannotConnectNowError(),
        asyncpg.TooManyConnectionsError(),
        asyncpg.LockNotAvailableError(),
        asyncpg.IdleInTransactionSessionTimeoutError(),
        asyncpg.InvalidCachedStatementError(),
        asyncpg.InterfaceError("connection is closed"),
        ConnectionRefusedError(),
        TimeoutError(),
    ],
)
def test_the_database_is_to_blame(error: BaseException) -> None:
    assert is_retryable(error)


@pytest.mark.parametrize(
    "error",
    [
        asyncpg.UniqueViolationError(),
        asyncpg.CheckViolationError(),
        asyncpg.UndefinedTableError(),
        asyncpg.DataError(),
        CannotBeEncoded("invalid input for query argument $1: value out of int64 range"),
        asyncpg.InterfaceError("cannot perform operation: another operation is in progress"),
        ValueError(),
        KeyError("nucleus"),
    ],
)
def test_the_statement_is_to_blame(error: BaseException) -> None:
    assert not is_retryable(error)


@pytest.mark.parametrize(
    ("error", "is_about_a_value"),
    [
        (CannotBeEncoded("value out of int64 range"), True),
        (asyncpg.CharacterNotInRepertoireError(), True),
        (asyncpg.UntranslatableCharacterError(), True),
        (asyncpg.StringDataRightTruncationError(), True),
        (asyncpg.NumericValueOutOfRangeError(), True),
        (asyncpg.InterfaceError("connection is closed"), False),
        (asyncpg.CheckViolationError(), False),
        (ValueError(), False),
    ],
)
def test_a_value_that_cannot_be_stored_is_told_from_other_errors(error: BaseException, is_about_a_value: bool) -> None:
    assert is_unstorable(error) is is_about_a_value

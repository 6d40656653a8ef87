"""`orrery migrate`: give an empty database the schema."""

from __future__ import annotations

import asyncio

import typer

from services.cli.commands.options import Json
from services.cli.failures import Refused, Unreachable, WrongUsage
from services.cli.output import told


def register(app: typer.Typer) -> None:
    does = (
        "Give the schema to the empty database that ORRERY_DATABASE_URL names. One that has it is left alone; one of "
        "another commit is refused, with what to do, and so is one that holds other tables."
    )
    app.command("migrate", help=f"{does}\n\nService: none. Role: none, but the database's own.")(migrate)


def migrate(as_json: Json = False) -> None:
    """Exit code 1 if the database is refused; then nothing in it was changed."""
    import asyncpg

    from shared.config.settings import Settings, SettingsError, load_settings
    from shared.db.migrate import SchemaError
    from shared.db.migrate import migrate as give_schema

    try:
        done = asyncio.run(give_schema(load_settings(Settings).database_url))
    except SettingsError as error:
        raise WrongUsage(str(error)) from None
    except SchemaError as error:
        raise Refused(str(error)) from None
    except (OSError, asyncpg.PostgresError) as error:
        raise Unreachable(f"PostgreSQL cannot be used (ORRERY_DATABASE_URL): {type(error).__name__}: {error}") from None
    told({"message": done}, as_json)

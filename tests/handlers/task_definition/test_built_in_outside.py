from __future__ import annotations

import pytest

from shared.catalogue import BuiltInOutside
from shared.db import Database
from tests.catalogues.conformance import Arrive, CatalogueConformance
from tests.rows import change


class TestBuiltIn(CatalogueConformance):
    """The built-in catalogue is a source, a registrar and a mover like any other."""

    @pytest.fixture
    def catalogue(self, database: Database) -> BuiltInOutside:
        return BuiltInOutside(database, moves_s=3600)

    @pytest.fixture
    def scope(self) -> str:
        return "test"

    @pytest.fixture
    def arrive(self, database: Database) -> Arrive:
        async def arrive(rule_id: str) -> None:
            async with database.read() as connection:
                await change(
                    connection, "UPDATE catalogue.rules SET created_at = 'epoch' WHERE rule_id = $1", int(rule_id)
                )

        return arrive

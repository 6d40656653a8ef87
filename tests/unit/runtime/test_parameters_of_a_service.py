"""A service reads its parameters at its start, on news and periodically."""

from shared.config.parameter import Parameter
from shared.config.parameters import REFRESH_EVERY_S, Parameters
from shared.db import Database
from shared.events import ConfigChanged
from shared.runtime.service import Service, with_parameters

MOST = Parameter("sample", "MOST", 1, "jobs", "an example")


async def put(database: Database, value: int) -> None:
    async with database.read() as connection:
        await connection.execute(
            "INSERT INTO parameters (app, component, key, value, type) VALUES ('jedi', 'sample', 'MOST', $1, 'int')"
            " ON CONFLICT (app, component, key, vo) DO UPDATE SET value = excluded.value",
            str(value),
        )
        await connection.execute("UPDATE versions SET version = version + 1 WHERE name = 'config'")


async def test_parameters_are_read_at_the_start_on_news_and_periodically(database: Database) -> None:
    parameters = Parameters()
    service = with_parameters(parameters, database, Service("sample"))
    await put(database, 2)
    [start] = service.on_start
    await start()
    assert parameters.read(MOST) == 2

    await put(database, 3)
    [(event, on_news)] = service.news
    assert event is ConfigChanged and parameters.read(MOST) == 2
    await on_news(ConfigChanged(config_version=3))
    assert parameters.read(MOST) == 3

    await put(database, 4)
    [periodic] = service.periodic
    async with database.begin(reason="periodic") as work:
        await periodic.run(work)
    assert parameters.read(MOST) == 4
    assert (periodic.every_s, periodic.lease) == (REFRESH_EVERY_S, False), "each replica reads its own"

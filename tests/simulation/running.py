"""One seed from a fresh copy of the prepared world to its report."""

import asyncio
import gc
from functools import cache

import uvloop

from shared.auth import Authority
from tests import servers
from tests.simulation.crashes import ServiceDied
from tests.simulation.faults import Faults
from tests.simulation.prepared import ensure_world
from tests.simulation.simulation import Report, Simulation


@cache
def authority() -> Authority:
    """One key for all runs of this process: tokens are not part of what a seed decides."""
    return Authority.generate()


def run(seed: int, faults: Faults | None = None) -> Report:
    """One run in an event loop of its own. Garbage is collected after it: services are built and thrown away often.

    What was there before it (modules, most of all) is not looked through for that.
    """
    gc.disable()
    gc.freeze()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(run_seed(seed, faults))
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()


async def run_seed(seed: int, faults: Faults | None = None) -> Report:
    """Raises what the run raises; the database is gone afterwards."""
    asyncio.get_running_loop().set_exception_handler(_note_death)
    server_url = servers.Servers.find().database_url
    world = await ensure_world(server_url, authority())
    url = await servers.clone_template(server_url, world)
    try:
        return await Simulation(seed, url, authority(), faults).run()
    finally:
        await servers.drop_database(server_url, url)


def _note_death(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """A killed service leaves tasks behind that nobody waits for; anything else is worth a line."""
    if not isinstance(context.get("exception"), ServiceDied):
        loop.default_exception_handler(context)

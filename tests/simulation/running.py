"""One seed from the prepared world to its report."""

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
from tests.simulation.stage import Stage

_free: list[Stage] = []
_loops: list[asyncio.Runner] = []


@cache
def authority() -> Authority:
    """One key for all runs of this process: tokens are not part of what a seed decides."""
    return Authority.generate()


def run(seed: int, faults: Faults | None = None) -> Report:
    """One run. Garbage is collected after it: services are built and thrown away often.

    What was there before it (modules, most of all) is not looked through for that.
    """
    if not _loops:
        _loops.append(asyncio.Runner(loop_factory=uvloop.new_event_loop))
    gc.disable()
    gc.freeze()
    try:
        return _loops[0].run(run_seed(seed, faults))
    finally:
        gc.enable()
        gc.collect()
        gc.unfreeze()


async def run_seed(seed: int, faults: Faults | None = None) -> Report:
    """Raises what the run raises: nothing of a run that failed is used again."""
    asyncio.get_running_loop().set_exception_handler(note_death)
    server_url = servers.Servers.find().database_url
    stage = _free.pop() if _free else await Stage.set_up(server_url, await ensure_world(server_url, authority()))
    try:
        report = await Simulation(seed, stage, authority(), faults).run()
    except BaseException as error:
        if stage.seeds:
            error.add_note(f"It ran in the database of {stage.seeds}: alone it has to end in the same way.")
        await stage.drop(server_url)
        raise
    stage.seeds.append(seed)
    if await stage.is_clean_again():
        _free.append(stage)
    else:
        await stage.drop(server_url)
    return report


def leave() -> None:
    """The end of all runs of this process: their database is dropped."""
    while _free:
        _loops[0].run(_free.pop().drop(servers.Servers.find().database_url))
    while _loops:
        _loops.pop().close()


def note_death(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """A killed service leaves tasks behind that nobody waits for; anything else is worth a line."""
    if not isinstance(context.get("exception"), ServiceDied):
        loop.default_exception_handler(context)

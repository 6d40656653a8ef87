"""Secondary files are part of what a job reads: the scratch disk of a live chunk counts them."""

from __future__ import annotations

import pytest

from services.job_brokerage.app import build
from shared.brokerage.explained import explain_row
from tests import rows
from tests.handlers.events import deliver, started
from tests.handlers.grids import load_grid, small_grid
from tests.handlers.job_brokerage.test_chunks import an_offer, stored

GB = 1024**3


@pytest.mark.parametrize(("ratio", "passes"), [(1, True), (4, False)])
async def test_secondary_files_take_scratch_space_by_their_ratio(database, context, ratio, passes) -> None:
    """2 GB for each secondary file and 0.5 GB of output, at a slot of 5 GB."""
    grid = small_grid()
    for queue in grid["queues"].values():
        queue |= {"maxwdir": 5 * 1024, "capability": "score", "corecount": 1, "direct_access_lan": False}
    await load_grid(database, grid)
    offer = await an_offer(database)
    async with database.read() as connection:
        master = await connection.fetchval("SELECT dataset_id FROM task_datasets WHERE task_id = $1", offer.task_id)
        await rows.dataset(
            connection,
            offer.task_id,
            dataset_name="minbias",
            master_id=master,
            n_files=10,
            attributes={"ratio": ratio},
        )
        await connection.execute(
            "INSERT INTO catalogue.datasets (scope, name, kind, state, n_files, n_bytes) "
            "VALUES ('test', 'minbias', 'dataset', 'frozen', 10, $1)",
            20 * GB,
        )
    (event,) = await deliver(database, await started(build(context)), offer)
    entries = {entry["name"]: entry for entry in explain_row(await stored(database, event.decision_id))}
    assert entries["Q_ALPHA"].get("check") == (None if passes else "scratch_disk")


@pytest.mark.parametrize(("n_bytes", "passes"), [(4 * GB, True), (5 * GB, False)])
async def test_a_queue_needs_room_for_the_largest_boundary_of_the_chunk(database, context, n_bytes, passes) -> None:
    """A boundary is one job; 0.5 GB of output, at a slot of 5 GB."""
    grid = small_grid()
    for queue in grid["queues"].values():
        queue |= {"maxwdir": 5 * 1024, "capability": "score", "corecount": 1, "direct_access_lan": False}
    await load_grid(database, grid)
    offer = await an_offer(database)
    largest = {"n_files": 3, "n_events": 10, "n_bytes": n_bytes, "n_boundaries": 2}
    async with database.read() as connection:
        await connection.execute("UPDATE chunks SET largest_boundary = $1", largest)
    (event,) = await deliver(database, await started(build(context)), offer)
    entries = {entry["name"]: entry for entry in explain_row(await stored(database, event.decision_id))}
    assert entries["Q_ALPHA"].get("check") == (None if passes else "scratch_disk")

from __future__ import annotations

from tests.unit.grid.test_grid_files import QUEUE, STORAGE, files, problems


def test_what_is_listed_but_malformed_is_not_called_missing_as_well() -> None:
    found = problems(
        files(
            queues={"Q": QUEUE | {"corecount": "eight"}, "R": QUEUE | {"siteid": "R"}},
            storages={"S_DATADISK": STORAGE | {"space_total": -1}},
            software_map={"Q": {}},
        )
    )
    assert len(found) == 2, found
    assert {problem.split(":")[0] for problem in found} == {"queues.json", "storages.json"}

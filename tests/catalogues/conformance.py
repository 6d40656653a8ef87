"""What every catalogue has to do that Orrery reads from, registers in and moves data with.

The tests of an adapter derive a class and give it the fixtures `catalogue` (the adapter, on an empty catalogue that
has the storages A_DISK and B_DISK), `scope` (one that exists and in which no name is used) and `arrive` (lets what a
rule wants happen).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from shared.catalogue.outside import (
    CatalogueTrouble,
    DataName,
    FileFacts,
    NewCollection,
    NewRule,
    OutsideCatalogue,
)
from shared.catalogue.port import NewFile, Replica

Arrive = Callable[[str], Awaitable[None]]


def new_file(number: int, storage: str = "A_DISK", dataset: str = "") -> NewFile:
    return NewFile(dataset, f"f.{number}", 100 + number, storage, 5, "ad:0000000a", f"{number:032x}")


async def files_of(catalogue: OutsideCatalogue, name: DataName) -> list[FileFacts]:
    return sorted([one async for some in catalogue.files(name) for one in some], key=lambda one: one.name)


async def copies_of(catalogue: OutsideCatalogue, names: list[DataName]) -> set[tuple[str, str]]:
    return {(file.name, storage) async for some in catalogue.copies_of_files(names) for file, storage in some}


class CatalogueConformance:
    """Source, registrar and mover."""

    async def dataset(self, catalogue: OutsideCatalogue, scope: str, name: str, n_files: int = 0) -> DataName:
        found = DataName(scope, name)
        await catalogue.create([NewCollection(found)])
        if n_files:
            await catalogue.add_files(found, [new_file(number) for number in range(n_files)])
        return found

    async def test_what_is_unknown_is_left_out(self, catalogue: OutsideCatalogue, scope: str) -> None:
        assert await catalogue.collections([DataName(scope, "nothing"), DataName("nowhere", "nothing")]) == {}
        assert await catalogue.copies(DataName(scope, "nothing")) == ()

    async def test_a_new_dataset_is_open_and_empty_however_often_it_is_made(
        self, catalogue: OutsideCatalogue, scope: str
    ) -> None:
        name = DataName(scope, "new")
        for _ in range(2):
            await catalogue.create([NewCollection(name, metadata={"task_id": 77}, lifetime_s=86400)])
        found = (await catalogue.collections([name]))[name]
        assert (found.name, found.kind, found.is_open, found.n_files, found.size_bytes) == (name, "dataset", True, 0, 0)
        assert found.metadata["task_id"] == 77

    async def test_a_container_tells_what_is_directly_in_it(self, catalogue: OutsideCatalogue, scope: str) -> None:
        box, one, two = (DataName(scope, name) for name in ("box", "one", "two"))
        await catalogue.create([NewCollection(box, "container")])
        for _ in range(2):
            await catalogue.create([NewCollection(one, container=box), NewCollection(two, container=box)])
        found = await catalogue.collections([box, one])
        assert found[box].kind == "container" and set(found[box].constituents) == {one, two}
        assert len(found[box].constituents) == 2
        assert found.keys() == {box, one}

    async def test_a_container_is_made_with_its_first_dataset(self, catalogue: OutsideCatalogue, scope: str) -> None:
        box, one = DataName(scope, "made"), DataName(scope, "first")
        await catalogue.create([NewCollection(one, container=box)])
        assert (await catalogue.collections([box]))[box].constituents == (one,)

    async def test_a_name_with_wildcards_stands_for_datasets_of_its_scope(
        self, catalogue: OutsideCatalogue, scope: str
    ) -> None:
        for name in ("w.b_1.x", "w.a_1.x", "w.a11.x", "v.a_1.x"):
            await catalogue.create([NewCollection(DataName(scope, name))])
        await catalogue.create([NewCollection(DataName(scope, "w.a_1.box.x"), "container")])
        found = await catalogue.matching(DataName(scope, "w.*_1.x"), 5)
        assert found == (DataName(scope, "w.a_1.x"), DataName(scope, "w.b_1.x"))
        assert len(await catalogue.matching(DataName(scope, "w.*"), 2)) == 2
        assert await catalogue.matching(DataName(scope, "nothing*"), 5) == ()

    async def test_files_come_back_as_they_were_registered(self, catalogue: OutsideCatalogue, scope: str) -> None:
        name = await self.dataset(catalogue, scope, "full", 3)
        assert await files_of(catalogue, name) == [
            FileFacts(DataName(scope, f"f.{number}"), 100 + number, 5, "ad:0000000a", f"{number:032x}")
            for number in range(3)
        ]
        found = (await catalogue.collections([name]))[name]
        assert (found.n_files, found.size_bytes) == (3, 303)

    async def test_registering_again_changes_nothing_and_new_ones_are_added(
        self, catalogue: OutsideCatalogue, scope: str
    ) -> None:
        name = await self.dataset(catalogue, scope, "again", 2)
        await catalogue.add_files(name, [new_file(number) for number in range(2)])
        await catalogue.add_files(name, [new_file(number) for number in range(1, 4)])
        assert [one.name.name for one in await files_of(catalogue, name)] == ["f.0", "f.1", "f.2", "f.3"]

    async def test_copies_are_told_of_datasets_and_of_files(self, catalogue: OutsideCatalogue, scope: str) -> None:
        name = await self.dataset(catalogue, scope, "copied", 2)
        await catalogue.add_files(name, [new_file(7, "B_DISK")])
        assert await catalogue.copies(name) == (
            Replica("A_DISK", 2, 201, False),
            Replica("B_DISK", 1, 107, False),
        )
        everything = {("f.0", "A_DISK"), ("f.1", "A_DISK"), ("f.7", "B_DISK")}
        assert await copies_of(catalogue, [name]) == everything
        assert await copies_of(catalogue, [DataName(scope, "f.0"), DataName(scope, "f.9")]) == {("f.0", "A_DISK")}

    async def test_a_whole_copy_is_complete(self, catalogue: OutsideCatalogue, scope: str) -> None:
        name = await self.dataset(catalogue, scope, "whole", 2)
        assert await catalogue.copies(name) == (Replica("A_DISK", 2, 201, True),)

    async def test_files_that_are_registered_go_into_further_datasets(
        self, catalogue: OutsideCatalogue, scope: str
    ) -> None:
        await self.dataset(catalogue, scope, "source", 3)
        name = await self.dataset(catalogue, scope, "part")
        for _ in range(2):
            await catalogue.attach(name, [DataName(scope, "f.0"), DataName(scope, "f.2")])
        assert [one.name.name for one in await files_of(catalogue, name)] == ["f.0", "f.2"]
        assert await catalogue.copies(name) == (Replica("A_DISK", 2, 202, True),)

    async def test_files_are_taken_out_once(self, catalogue: OutsideCatalogue, scope: str) -> None:
        name = await self.dataset(catalogue, scope, "less", 2)
        for _ in range(2):
            await catalogue.remove_files(name, [DataName(scope, "f.0")])
        assert [one.name.name for one in await files_of(catalogue, name)] == ["f.1"]

    async def test_a_closed_dataset_takes_no_files_until_it_is_opened_again(
        self, catalogue: OutsideCatalogue, scope: str
    ) -> None:
        name = await self.dataset(catalogue, scope, "closing", 1)
        for _ in range(2):
            await catalogue.close([name])
        assert not (await catalogue.collections([name]))[name].is_open
        with pytest.raises(CatalogueTrouble, match="closed"):
            await catalogue.add_files(name, [new_file(1)])
        for _ in range(2):
            await catalogue.reopen([name])
        await catalogue.add_files(name, [new_file(1)])
        assert len(await files_of(catalogue, name)) == 2

    async def test_lifetime_and_metadata_are_set_and_others_stay(self, catalogue: OutsideCatalogue, scope: str) -> None:
        name = await self.dataset(catalogue, scope, "told")
        await catalogue.describe(name, {"task_id": 5})
        await catalogue.describe(name, {"campaign": "c1"})
        await catalogue.set_lifetime(name, 86400)
        await catalogue.set_lifetime(name, None)
        metadata = (await catalogue.collections([name]))[name].metadata
        assert (metadata["task_id"], metadata["campaign"]) == (5, "c1")
        with pytest.raises(CatalogueTrouble, match="nothing"):
            await catalogue.describe(DataName(scope, "nothing"), {"campaign": "c1"})

    async def test_files_for_a_dataset_that_is_unknown_are_refused(
        self, catalogue: OutsideCatalogue, scope: str
    ) -> None:
        with pytest.raises(CatalogueTrouble, match="nothing"):
            await catalogue.add_files(DataName(scope, "nothing"), [new_file(1)])

    async def test_a_rule_is_found_again_brings_a_copy_and_can_be_cancelled(
        self, catalogue: OutsideCatalogue, scope: str, arrive: Arrive
    ) -> None:
        name = await self.dataset(catalogue, scope, "moved", 2)
        wanted = NewRule(name, "B_DISK", "Production Input", 86400, comment="task 1")
        rule_id = await catalogue.create_rule(wanted)
        assert await catalogue.create_rule(wanted) == rule_id
        assert (await catalogue.look_at([rule_id]))[rule_id].outcome == "moving"
        await arrive(rule_id)
        assert (await catalogue.look_at([rule_id]))[rule_id].outcome == "done"
        assert await copies_of(catalogue, [name]) == {
            (file, storage) for file in ("f.0", "f.1") for storage in ("A_DISK", "B_DISK")
        }
        for _ in range(2):
            await catalogue.cancel(rule_id)

    async def test_a_rule_that_does_not_exist_is_gone(self, catalogue: OutsideCatalogue) -> None:
        unknown = "0123456789abcdef0123456789abcdef"
        assert (await catalogue.look_at([unknown]))[unknown].outcome == "gone"

    async def test_a_rule_for_what_is_unknown_is_refused(self, catalogue: OutsideCatalogue, scope: str) -> None:
        with pytest.raises(CatalogueTrouble, match="nothing"):
            await catalogue.create_rule(NewRule(DataName(scope, "nothing"), "B_DISK", "Express"))

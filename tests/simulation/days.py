"""Many days of a small grid: every day tasks of all kinds are submitted while things go wrong, then the day passes.

Every rule of retention keeps one day. Tables are counted at the end of each day: what grows is named with its rule.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from statistics import mean
from typing import Any
from unittest import mock

from services.job_generation.store.used_up_files import SQL
from services.watchdog import retaining
from services.watchdog.policy import retention as policy
from services.watchdog.policy.retention import Kept, Rule
from services.watchdog.store import retention as store
from shared.config.parameters import Parameters
from shared.db.partitions import keep_partitions
from tests.simulation import workload
from tests.simulation.checking import Observed
from tests.simulation.clock import START
from tests.simulation.faults import Faults
from tests.simulation.simulation import NeverEnded, Simulation
from tests.simulation.users import Users
from tests.simulation.workload import Parameters as TaskParameters
from tests.simulation.workload import Workload

#: steps of each day in which things go wrong, and in which its tasks have to end
FAULTY_STEPS, MOST_STEPS = 80, 8000
#: the rest of a day passes in so many leaps, after each of which all periodic work has its turn
LEAPS = 4
#: a little more than a day: what is done once a day is due when the day is over
A_DAY = timedelta(days=1, minutes=15)
#: waits that are days otherwise
PARAMETERS = [
    {"app": "jedi", "component": "watchdog", "key": "WAIT_FOR_EXHAUSTED_S", "value": 43_200},
    {"app": "jedi", "component": "watchdog", "key": "WAIT_FOR_ACHIEVED_S", "value": 1800},
]
#: a day that is larger by so much, and by more than so many rows, is no chance any more
MOST_GROWTH, MOST_MORE = 0.2, 8.0
#: what a day does not take away: data in the catalogue and what it is called, and days that were
GROW = re.compile(r"catalogue\.|requirement_shapes|retention_sizes|order_keys")
_TABLES = """
SELECT c.oid::regclass::text AS name FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND n.nspname IN ('public', 'catalogue') ORDER BY 1
"""
_COUNT = "SELECT '{0}', count(*) FROM {0}"

Sizes = Mapping[str, int]


@contextmanager
def one_day_kept(*switched_off: str) -> Iterator[None]:
    """Every rule keeps one day, but for some that are switched off."""
    rules = tuple(_short(rule, 0 if rule.name in switched_off else 1) for rule in policy.RULES)
    by_name = {rule.name: rule for rule in rules}
    with (
        mock.patch.object(policy, "RULES", rules),
        mock.patch.object(policy, "BY_NAME", by_name),
        mock.patch.object(store, "RULES", rules),
        mock.patch.object(retaining, "RULES", rules),
    ):
        yield


def _short(rule: Rule, days: int) -> Rule:
    return replace(rule, days=replace(rule.days, default=days, check=None), least_days=1)


def of_day(day: int) -> Workload:
    """What is submitted on a day: every other day the same, with names of their own."""
    seeded = workload.of_seed(workload.KIND_SEEDS + 1 + day % 2)
    plain = workload.of_seed(1)
    kinds = [task for task in seeded.tasks if task["taskName"] in ("sim.events", "sim.copies", "sim.build")]
    parent, child = plain.tasks[plain.parent], plain.tasks[plain.child]
    tasks = [parent, child, *kinds] if day % 2 else [parent, child, plain.tasks[0]]
    return Workload([_named(task, day) for task in tasks], parent=0, growth=0, child=1)


def _named(task: TaskParameters, day: int) -> dict[str, Any]:
    """The task with names of the day: datasets that it writes, and those of its parent, begin with `sim.`."""
    named: dict[str, Any] = json.loads(re.sub(r'"(sim:)?sim\.', rf'"\1sim.d{day}.', json.dumps(task)))
    return named


class Days(Simulation):
    """A simulation of so many days. `sizes`: rows of each table at the end of each."""

    n_days = 30

    def __init__(self, *given: Any, n_days: int, **others: Any) -> None:
        super().__init__(*given, **others)
        self._has_other_kinds = True  # pilots ask at every queue, and the grid is that of event service
        self.n_days = n_days
        self.sizes: list[Sizes] = []
        #: what the check of results says of earlier days, of which rows that it reads were dropped
        self._of_earlier_days: frozenset[str] = frozenset()

    async def _begin(self) -> None:
        await self._open_for_other_kinds()
        for parameter in PARAMETERS:
            await self.users.set(parameter)

    async def _loop(self) -> None:
        for day in range(self.n_days):
            await self._work(day)
            await self._pass(day)
            self.sizes.append(await self._counted())

    async def _work(self, day: int) -> None:
        """Tasks are submitted and worked on until each has ended, or waits for its owner."""
        async with self.database.begin(reason="days of tables") as work:
            await keep_partitions(work.connection)
        before = self.users
        self.users = Users(self.rng, self.services, self._authority, self._note, of_day(day), give_all=False)
        self.users.ended |= before.ended
        await self.users.submit_all()
        self._set_faults(self.faults)
        began, self._seen, self.faulty_steps = self.report.steps, Observed(), self.report.steps + FAULTY_STEPS
        while not self._seen.ended:
            if self.report.steps == self.faulty_steps:
                self._set_faults(Faults())
                await self.users.resume_all()
            if self.report.steps > began + MOST_STEPS:
                await self._judge()
            await self._step(self._choose())
        self._set_faults(Faults())
        self.faulty_steps = self.report.steps

    async def _pass(self, day: int) -> None:
        """The rest of the day: periodic work, messages, and rounds of retention until each rule has nothing more."""
        end = START + (day + 1) * A_DAY
        for left in range(LEAPS, 0, -1):
            self.clock.advance(max(0.0, (end - self.clock()).total_seconds()) / left)
            self.rounds.begin(upkeep=True)
            while self.rounds.under_way:
                await self._step(self.rounds.go_on)
            while ready := self.pilots.ready():
                await self._step(lambda ready=ready: self.pilots.step(ready))  # type: ignore[misc]
            self.schedule.forget()
            while self._outbox_may_have_news or self.transport.waiting:
                await self._step(self._deliver)
            if left == LEAPS:
                self._complain(await self._results())  # before the first of what they read is a day old
        await self.transport.delete_settled()
        await self._delete_used_up_files()
        await self._plant_raised_memory()
        for _ in range(2):
            self.clock.advance(301.0)
            await self._retain()
        self._of_earlier_days = frozenset(await super()._results())

    async def _delete_used_up_files(self) -> None:
        """What ranges of events left in object stores is deleted: until then their tasks are not archived."""
        client = self.services.client("job-generation", self._authority.issue("deleter", ["production", "operator"]))
        async with self.database.read() as connection:
            used = {
                task["task_id"]: await SQL.rows(
                    connection, "used_up_files", task_id=task["task_id"], names=None, at_most=1000
                )
                for task in await self.checker.tasks()
            }
        for task_id, rows in used.items():
            files = [row["name"] for row in rows if row["waits"]]
            if files:
                reply = await client.post("/api/v1/used_up_files/deleted", {"task_id": task_id, "files": files})
                assert reply.status == 200 and reply.json()["success"], reply.text

    async def _plant_raised_memory(self) -> None:
        """Of each task a job had too little memory once; the input that asked for more is processed."""
        async with self.database.begin(reason="days of tables") as work:
            await work.connection.execute(
                "INSERT INTO raised_memory (task_id, ram_mb, n_files) SELECT task_id, 4000, 0 FROM tasks"
                " ON CONFLICT DO NOTHING"
            )

    async def _results(self) -> Sequence[str]:
        return sorted({*await super()._results()} - self._of_earlier_days)

    async def _retain(self) -> None:
        retention = next((name, one) for name, one in self.services.periodics() if one.name == "retention")
        while await self.services.run_periodic(*retention):
            pass

    async def _counted(self) -> Sizes:
        async with self.database.read() as connection:
            names = [row["name"] for row in await connection.fetch(_TABLES)]
            return dict(await connection.fetch(" UNION ALL ".join(_COUNT.format(name) for name in names)))

    async def _judge(self) -> None:
        """Every task is final, or waits for a reason that it says."""
        if not self._seen.ended:
            await super()._judge()
        tasks = await self.checker.tasks()
        silent = [r for r in tasks if r["status"] == "exhausted" and not r["error_dialog"]]
        if silent:
            raise NeverEnded(f"{self.report.replay}: tasks wait and do not say why: {silent}")
        await super()._judge()


def growing(
    sizes: Sequence[Sizes],
    first: range,
    second: range,
    tables: Sequence[str] | None = None,
    most_more: float = MOST_MORE,
) -> list[str]:
    """Name what has more rows on each of the later days than on that of the same kind before, with its rule.

    Every other day is of one kind. One day on which much or little happened is no growth.
    """
    found = []
    for table in tables or sorted(sizes[-1]):
        pairs = [
            (sizes[one].get(table, 0), sizes[other].get(table, 0)) for one, other in zip(first, second, strict=True)
        ]
        is_larger = all(after - before > max(most_more, MOST_GROWTH * before) for before, after in pairs)
        if is_larger and (tables or not GROW.match(table)):
            before, after = (mean(one) for one in zip(*pairs, strict=True))
            found.append(f"{table} had {before:.0f} rows and has {after:.0f}: {_rule_of(table)}")
    return found


def _rule_of(table: str) -> str:
    """The rule that should have dropped rows of a table, and that for which it keeps them."""
    rule = next((rule for rule in policy.RULES if table in rule.tables), None)
    if rule is None:
        return "no rule of retention is about it"
    kept: Kept = policy.kept(rule, Parameters().read)
    because = f", which keeps them for rule {kept.for_rule}" if kept.for_rule else ""
    return f"rule {rule.name}{because}"

"""Which queues are asked at all (PanDA brokerage: preliminary candidates; queue status)."""

from __future__ import annotations

from shared.brokerage.check import YES_NO, Check, Tier, Verdict, decides
from shared.brokerage.columns import STATUSES, TYPES
from shared.brokerage.request import JobRequest
from shared.brokerage.world import World
from shared.model.queue import QueueStatus, QueueType

PREASSIGNED = Check(1, "preassigned", Tier.POLICY, False, "named by the task or chunk", "must be", words=YES_NO)
INCLUDED = Check(2, "included_sites", Tier.POLICY, False, "among the included queues", "must be", words=YES_NO)
EXCLUDED = Check(3, "excluded_sites", Tier.POLICY, False, "among the excluded queues", "must be", words=YES_NO)
TEST_QUEUE = Check(4, "test_queue", Tier.CONFIGURATION, False, "'test' in the name", "must be", words=YES_NO)
QUEUE_TYPE = Check(
    5,
    "queue_type",
    Tier.CONFIGURATION,
    False,
    "type of the queue",
    "unified or",
    words=tuple(str(one) for one in TYPES),
)
STATUS = Check(
    6,
    "status",
    Tier.CONFIGURATION,
    False,
    "status of the queue",
    "status needed",
    words=tuple(str(one) for one in STATUSES),
)


@decides(PREASSIGNED)
def preassigned(world: World, request: JobRequest) -> Verdict | None:
    """Only the queues that the task or chunk names, or those of the sites it names, if it names any."""
    if not request.preassigned:
        return None
    passes = world.columns.rows_named(request.preassigned)
    return Verdict(passes, passes, 1.0)


@decides(INCLUDED)
def included(world: World, request: JobRequest) -> Verdict | None:
    """`includedSite`: only these queues and those of these sites."""
    if not request.included:
        return None
    passes = world.columns.rows_named(request.included)
    return Verdict(passes, passes, 1.0)


@decides(EXCLUDED)
def excluded(world: World, request: JobRequest) -> Verdict | None:
    """`excludedSite`: none of these queues, nor those of these sites."""
    if not request.excluded:
        return None
    named = world.columns.rows_named(request.excluded)
    return Verdict(~named, named, 0.0)


@decides(TEST_QUEUE)
def not_a_test_queue(world: World, request: JobRequest) -> Verdict | None:
    """Production uses queues with 'test' in the name only when they are named."""
    if request.preassigned or request.is_analysis:
        return None
    return Verdict(world.columns.is_no_test, world.columns.is_test, 0.0)


@decides(QUEUE_TYPE)
def queue_type(world: World, request: JobRequest) -> Verdict | None:
    """Production needs type production or unified, analysis needs analysis or unified.

    The document starts production with "all queues": taken are those of its type.
    """
    wanted = TYPES.index(QueueType.ANALYSIS if request.is_analysis else QueueType.PRODUCTION)
    found = world.columns.type
    takes = world.columns.takes_analysis if request.is_analysis else world.columns.takes_production
    return Verdict(takes, found, float(wanted))


@decides(STATUS)
def status(world: World, request: JobRequest) -> Verdict | None:
    """Online; standby only where slots are set. Queues that were named are used whatever their status.

    The document has online alone: standby with slots is taken from the field.
    For analysis the included queues are pre-assigned ones too.
    """
    if request.preassigned or (request.is_analysis and request.included):
        return None
    found = world.columns.status
    online = STATUSES.index(QueueStatus.ONLINE)
    standby = (found == STATUSES.index(QueueStatus.STANDBY)) & (world.load.n_slots > 0)
    return Verdict((found == online) | standby, found, float(online))

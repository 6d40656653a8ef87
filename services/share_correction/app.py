"""The composition root of share correction."""

from __future__ import annotations

from services.share_correction.api.shares import web_application
from services.share_correction.collecting import FORGET_EVERY_S, UsageCollection
from services.share_correction.explaining import Explanations
from services.share_correction.handlers import ShareCorrection
from services.share_correction.policy.plugin import GROUP, ShareCorrector
from shared.config.parameters import Parameters
from shared.events import JobsEvent, JobsExpired, JobsFailed, JobsStarted, OutputsProduced
from shared.plugins import find
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid
from shared.web.json_text import BodyLimits

#: how often each turn is tried; the real periods are runtime parameters
TICK_S = 10.0
#: every event whose jobs begin or end to run; those that finish have left their cores before
RUN_EVENTS: tuple[type[JobsEvent], ...] = (JobsStarted, OutputsProduced, JobsFailed, JobsExpired)


def find_corrector(name: str) -> ShareCorrector:
    """Find the installed corrector of this name. Raises PluginError."""
    corrector: ShareCorrector = find(GROUP, "any", name)()
    return corrector


def build(context: Context) -> Service:
    parameters = Parameters()
    correction = ShareCorrection(parameters, find_corrector)
    grid = KnownGrid(context.cache)
    usage = UsageCollection(grid, correction.longest_span_s)
    service = Service(
        name="share-correction",
        body_limits={"/api/v1/share/load": BodyLimits(2**20, n_values=50_000)},
        work=[(event, usage.on_jobs_moved) for event in RUN_EVENTS],
        periodic=[
            Periodic("compare-usage", TICK_S, usage.compare),
            Periodic("forget-usage", FORGET_EVERY_S, usage.forget),
            Periodic("correction", TICK_S, correction.correct_shares),
            Periodic("forget-terms", FORGET_EVERY_S, correction.forget_terms),
        ],
        web=web_application(context.database, Explanations(context.database, grid)),
    )
    return with_parameters(parameters, context.database, service)

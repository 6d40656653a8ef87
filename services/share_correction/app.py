"""The composition root of share correction."""

from __future__ import annotations

from services.share_correction.api.shares import web_application
from services.share_correction.handlers import ShareCorrection
from services.share_correction.policy.plugin import GROUP, ShareCorrector
from shared.config.parameters import Parameters
from shared.plugins import find
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.web.json_text import BodyLimits

#: how often each turn is tried; the real periods are runtime parameters
TICK_S = 10.0


def find_corrector(name: str) -> ShareCorrector:
    """The installed corrector of this name. Raises PluginError."""
    corrector: ShareCorrector = find(GROUP, "any", name)()
    return corrector


def build(context: Context) -> Service:
    parameters = Parameters()
    correction = ShareCorrection(parameters, find_corrector)
    service = Service(
        name="share-correction",
        body_limits={"/api/v1/share/load": BodyLimits(2**20, n_values=50_000)},
        periodic=[
            Periodic("usage", TICK_S, correction.collect_usage),
            Periodic("correction", TICK_S, correction.correct_shares),
        ],
        web=web_application(context.database),
    )
    return with_parameters(parameters, context.database, service)

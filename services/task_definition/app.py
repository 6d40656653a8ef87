"""The composition root: every object of the service is built here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from fastapi import FastAPI

from services.task_definition.data.api.catalogue import catalogue_routes
from services.task_definition.data.api.catalogue_requests import request_routes
from services.task_definition.data.api.scopes import scope_routes
from services.task_definition.data.cataloguing.hearing import Hearing
from services.task_definition.data.cataloguing.moving import OutsideMoving
from services.task_definition.data.cataloguing.working import RequestWorker
from services.task_definition.data.cataloguing.writing import OutsideWriting
from services.task_definition.data.expiring import Expiring
from services.task_definition.data.registering import Data
from services.task_definition.data.telling import Telling
from services.task_definition.data.wishing import Wishes
from services.task_definition.desk.api.accounts import account_routes
from services.task_definition.desk.api.config import config_routes
from services.task_definition.desk.api.file_server import UPLOAD, download_routes, upload_routes
from services.task_definition.desk.api.login import login_routes
from services.task_definition.desk.api.system import system_routes
from services.task_definition.desk.api.token import token_routes
from services.task_definition.desk.api.work_queues import work_queue_routes
from services.task_definition.desk.sandboxing import Sandboxes
from services.task_definition.environment import TaskDefinitionSettings
from services.task_definition.handlers import Handlers
from services.task_definition.metrics import DefinitionMetrics
from services.task_definition.tasks.api.command import command_routes
from services.task_definition.tasks.api.explain import explain_routes
from services.task_definition.tasks.api.lost_files import lost_file_routes
from services.task_definition.tasks.api.offered import offer_routes
from services.task_definition.tasks.api.periodic_task import periodic_routes
from services.task_definition.tasks.api.task import submission_routes, task_routes
from services.task_definition.tasks.api.task_files import task_file_routes
from services.task_definition.tasks.api.task_lists import task_list_routes
from services.task_definition.tasks.api.workflow import workflow_routes
from services.task_definition.tasks.closing import ClosingDatasets
from services.task_definition.tasks.commanding.changing import Changes
from services.task_definition.tasks.commanding.commands import Commands
from services.task_definition.tasks.comparing import Comparing
from services.task_definition.tasks.completing import Completion
from services.task_definition.tasks.defining.checking import InputChecks
from services.task_definition.tasks.defining.definition import Definition
from services.task_definition.tasks.defining.reading import ContentsReader
from services.task_definition.tasks.defining.reading_outside import OutsideReading
from services.task_definition.tasks.explaining import Explanation
from services.task_definition.tasks.notifying.noting import FORGET_EVERY_S, WAITING_EVERY_S, Notices
from services.task_definition.tasks.notifying.sending import Sending, smtp
from services.task_definition.tasks.queue_explaining import QueueExplanation
from services.task_definition.tasks.staging.staging import Staging
from services.task_definition.tasks.staging.staging_outside import OutsideStaging
from services.task_definition.tasks.store.task_files import TaskFiles
from services.task_definition.tasks.submitting.periodic import PeriodicTasks
from services.task_definition.tasks.submitting.resubmission import Resubmission
from services.task_definition.tasks.submitting.secret_requests import SecretRequests
from services.task_definition.tasks.submitting.submission import Submission
from shared.catalogue import BuiltInCatalogue
from shared.catalogue.catalogues import open_catalogue, read_catalogues
from shared.catalogue.outside import OutsideCatalogue
from shared.config.parameters import Parameters
from shared.config.settings import load_settings
from shared.messaging.messages_outside import MessagesOutside
from shared.messaging.topology import Topology
from shared.runtime.service import Context, Periodic, Service, with_parameters
from shared.snapshot import KnownGrid
from shared.web.json_route import add_routes
from shared.web.json_text import BodyLimits

#: a task with its lists of files, parameters and templates; a catalogue of up to 100 000 files by name, more in series
BODY_LIMITS = {
    "/api/v1/task/submit": BodyLimits(4 * 2**20, n_values=200_000),
    "/api/v1/task/retry": BodyLimits(2**20, n_values=50_000),
    "/api/v1/task/reload_input": BodyLimits(2**20, n_values=50_000),
    "/api/v1/task/recover_lost_files": BodyLimits(4 * 2**20, n_values=20_000),
    "/api/v1/periodic_task/submit": BodyLimits(4 * 2**20, n_values=200_000),
    "/api/v1/user/load": BodyLimits(16 * 2**20, n_values=2_000_000),
    "/api/v1/group/load": BodyLimits(2 * 2**20, n_values=100_000),
    "/api/v1/work_queue/load": BodyLimits(2**20, n_values=20_000),
    "/api/v1/catalogue/import": BodyLimits(16 * 2**20, n_values=1_000_000),
    UPLOAD: BodyLimits(streamed=True),
}
REOPENINGS_EVERY_S, STAGE_INS_EVERY_S = 1.0, 5.0
FORGET_SANDBOXES_EVERY_S, FORGET_REQUESTS_EVERY_S, EXPIRED_DATA_EVERY_S = 3600.0, 60.0, 60.0


def build(context: Context, outside: Mapping[str, OutsideCatalogue] | None = None) -> Service:
    """Task definition; `outside`: catalogues by VO instead of those that the settings name."""
    settings = context.settings
    if not isinstance(settings, TaskDefinitionSettings):
        settings = load_settings(TaskDefinitionSettings, database_url=settings.database_url)
    parameters, catalogue = Parameters(), BuiltInCatalogue()
    grid = KnownGrid(context.cache)
    known = read_catalogues(settings.catalogues_file) if settings.catalogues_file and outside is None else {}
    catalogues = {vo: open_catalogue(one) for vo, one in known.items()} if outside is None else dict(outside)
    wishes = Wishes(catalogues, parameters)
    expiring = Expiring(catalogue, wishes, parameters)
    completion = Completion(Comparing(catalogue, grid), parameters, ClosingDatasets(catalogue, wishes), expiring)
    secrets = SecretRequests(context.database, context.metrics)
    changes = Changes(secrets.count)
    commands = Commands(changes, completion.settle, catalogue, wishes, grid, parameters)
    metrics = DefinitionMetrics.of(context.metrics)
    data = Data(catalogue, parameters, context.random, grid, wishes, metrics.unregistered_files)
    again = Resubmission(changes, commands)
    submission = Submission(catalogue, grid, parameters, again, wishes.vos)
    telling = Telling(metrics)
    series = PeriodicTasks(submission, parameters, secrets, telling)
    reader = ContentsReader(grid)
    staging = Staging(catalogue, wishes, grid, parameters)
    definition = Definition(catalogue, parameters, reader, wishes, staging, telling)
    checks = InputChecks(parameters, definition.read_again, wishes, definition.compare_unknown)
    worker = _worker(context, catalogues, wishes, data, definition, parameters, grid, staging)
    notices = Notices(sends=bool(settings.mail_server))
    handlers = Handlers(definition, completion, commands, data, notices)
    sandboxes = Sandboxes(context.database, parameters)
    service = Service(
        name="task-definition",
        work=handlers.work(),
        periodic=[
            Periodic("transfers", settings.transfers_every_s, data.look_after_transfers),
            Periodic("reopenings", REOPENINGS_EVERY_S, commands.work_off),
            Periodic("stage-ins", STAGE_INS_EVERY_S, staging.look),
            Periodic("contents", settings.contents_every_s, definition.read_on),
            Periodic("input-checks", settings.input_checks_every_s, checks.look),
            Periodic("left-overs", settings.left_overs_every_s, completion.settle_left_overs),
            Periodic("periodic-tasks", settings.periodic_tasks_every_s, series.submit_due),
            Periodic("expired-data", EXPIRED_DATA_EVERY_S, expiring.delete_due),
            Periodic("sandboxes", FORGET_SANDBOXES_EVERY_S, sandboxes.forget_unused),
            Periodic("catalogue-requests", FORGET_REQUESTS_EVERY_S, worker.forget),
            Periodic("waiting-for-owners", WAITING_EVERY_S, notices.look),
            Periodic("notices", FORGET_EVERY_S, notices.forget),
        ],
        background=[
            *([worker.run, *_hearing(context, settings, wishes)] if catalogues else []),
            *_sending(context, settings),
        ],
        web=_web(context, commands, submission, series, secrets, telling, parameters, grid, sandboxes, wishes),
        body_limits=BODY_LIMITS,
    )
    return with_parameters(parameters, context.database, service)


def _hearing(context: Context, settings: TaskDefinitionSettings, wishes: Wishes) -> list[Callable[[], Awaitable[None]]]:
    """What reads the messages of catalogues, where there is a broker that they are sent to."""
    if settings.rabbitmq_url is None:
        return []
    hear = Hearing(context.database, wishes).hear
    topology = Topology(settings.bus_namespace)
    topic, queue = settings.catalogue_topic, "catalogue-messages"
    return [MessagesOutside(settings.rabbitmq_url, topic, queue, hear, topology).run]


def _sending(context: Context, settings: TaskDefinitionSettings) -> list[Callable[[], Awaitable[None]]]:
    """What sends letters to owners, where there is a mail server."""
    if not settings.mail_server:
        return []
    return [Sending(context.database, smtp(settings), settings.mail_domain, context.metrics).run]


def _worker(
    context: Context,
    catalogues: Mapping[str, OutsideCatalogue],
    wishes: Wishes,
    data: Data,
    definition: Definition,
    parameters: Parameters,
    grid: KnownGrid,
    staging: Staging,
) -> RequestWorker:
    database = context.database
    moving = OutsideMoving(database, BuiltInCatalogue(), parameters, wishes)
    writing = OutsideWriting(database, data, grid)
    reading = OutsideReading(database, BuiltInCatalogue())
    carry_out = {"read": reading.read, "move": moving.move, "release": moving.release, **writing.kinds()}
    carry_out["stage"] = OutsideStaging(staging, wishes, parameters).stage
    return RequestWorker(database, catalogues, wishes, carry_out, definition.hold_unread)


def _web(
    context: Context,
    commands: Commands,
    submission: Submission,
    series: PeriodicTasks,
    secrets: SecretRequests,
    telling: Telling,
    parameters: Parameters,
    grid: KnownGrid,
    sandboxes: Sandboxes,
    wishes: Wishes,
) -> FastAPI:
    web = FastAPI(title="Orrery task definition")
    explanation, queues = Explanation(grid, parameters), QueueExplanation(grid, parameters)
    add_routes(
        web,
        submission_routes(context.database, submission, secrets, telling),
        task_routes(context.database),
        task_list_routes(context.database),
        command_routes(context.database, commands),
        offer_routes(context.database),
        periodic_routes(context.database, series, secrets, telling),
        task_file_routes(context.database, TaskFiles(BuiltInCatalogue()), grid),
        catalogue_routes(context.database, grid, telling),
        scope_routes(context.database, BuiltInCatalogue()),
        request_routes(context.database, wishes),
        config_routes(context.database),
        token_routes(context.database),
        explain_routes(context.database, explanation, queues),
        account_routes(context.database),
        work_queue_routes(context.database),
        lost_file_routes(context.database, commands),
        system_routes(context.database),
        login_routes(),
        workflow_routes(),
        upload_routes(sandboxes),
    )
    web.router.routes.extend(download_routes(sandboxes, context.source_keys, parameters))
    return web

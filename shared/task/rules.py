"""The rules of a task, each declared once.

A rule that another service is to read is declared here and nowhere else.

`attribute: type = rule("jsonName", "XX", what it means, who reads it, default=..., unit=..., retry=..., live=...)`:
the type has the range (`types`), the default is what holds where a task says nothing. `StatedRules` are those that the
form of a submission has, `WorkedOutRules` follow from them when the task is defined, or are measured later.
"""

from __future__ import annotations

from typing import Any, Literal

from shared.task.about import TaskFields, rule
from shared.task.types import (
    Attempts,
    Boundary,
    Consumers,
    DestinationName,
    Events,
    FieldNumbers,
    Files,
    Flag,
    Gigabytes,
    Hours,
    Identifiers,
    LongText,
    Megabytes,
    MostCores,
    NameList,
    Network,
    OwnPriority,
    Percent,
    Points,
    SearchJobs,
    Sites,
    Tenths,
    Text32,
    Weight,
)

_BROKERAGE, _NEEDS = "shared.brokerage", "shared.task.needs"
_DEFINITION, _NUCLEUS = "services.task_definition", "services.task_brokerage"
_QUEUES, _JOBS, _WATCH = "services.job_brokerage", "services.job_generation", "services.watchdog"
_GIVEN_UP = "services.job_generation.kinds.event_service.failing"
#: a job takes so many master files or ranges of events at most, unless the task says otherwise
MAX_FILES_PER_JOB = 200
#: a job merges the outputs of so many jobs at most, unless the task says otherwise
MAX_FILES_PER_MERGE_JOB = 50
#: how far the pre-processing job is: to do, its job was made, done
TO_PREPROCESS, PREPROCESSING, PREPROCESSED = 1, 2, 3


# fmt: off
class PayloadRules(TaskFields):
    """What runs, with what it is told."""

    user_priority: OwnPriority | None = rule("userPriority", None, "which of their own jobs users want first", _JOBS)
    no_exec_str_cnv: Flag = rule("noExecStrCnv", "NC", "the command line reaches the program as it is", _JOBS,
                                 default=False)
    source_url: LongText | None = rule("sourceURL", None, "server of sandboxes that jobs load", _JOBS)
    transfer_type: Text32 | None = rule("transferType", None, "how a job reads its input", _JOBS)
    use_secrets: Flag = rule("useSecrets", "ST", "jobs get the secrets of the task's owner", _JOBS, default=False)
    enc_job_params: Flag = rule("encJobParams", "EJ", "command lines reach pilots as base64", _JOBS, default=False)
    debug_mode: Flag = rule("debugMode", "DM", "pilots send the end of the payload's log", _JOBS, default=False)
    no_looping_check: Flag = rule("noLoopingCheck", "LC", "a payload that writes nothing is not ended", _JOBS,
                                  default=False, live=True)
    official: Flag = rule("official", None, "production alone submits it; it may skip its scouts", _DEFINITION,
                          default=False)
    destination: DestinationName | None = rule("destination", None, "storage or site that keeps outputs without one of "
                                               "their own", "services.job_dispatch")
    merge_output: Flag = rule("mergeOutput", "MO", "outputs are merged by further jobs", _JOBS, default=False)
    um_name_at_end: Flag = rule("umNameAtEnd", None, "unmerged files are marked at the end of their names", _DEFINITION,
                                default=False)


class PlaceRules(TaskFields):
    """Where jobs run and where their outputs go."""

    included_site: NameList | None = rule("includedSite", None, "sites or queues, and no others", _BROKERAGE,
                                          retry=True)
    excluded_site: NameList | None = rule("excludedSite", None, "sites or queues that get no jobs", _BROKERAGE,
                                          retry=True)
    sam_stations: NameList | None = rule("samStations", None, "stations of SAM-Grid, and no others", _BROKERAGE)
    requirements: LongText | None = rule("requirements", None, "expression about what a site advertises", _BROKERAGE)
    tags: NameList | None = rule("tags", None, "what a pilot must offer", _JOBS)
    ip_connectivity: Network | None = rule("ipConnectivity", "IP", "network that jobs reach", _NEEDS)
    ip_stack: Literal["IPv4", "IPv6", ""] | None = rule("ipStack", "IK", "version of IP that jobs need", _NEEDS)
    t1_weight: Weight | None = rule("t1Weight", "TW", "how much weight queues of the nucleus get", _BROKERAGE,
                                    unit="weight", live=True)
    avoid_vp: Flag = rule("avoidVP", "AV", "queues of virtual placement get no jobs", _QUEUES, default=False, live=True)
    disable_reassign: Flag = rule("disableReassign", "DI", "jobs and task stay where they are", _WATCH, default=False)
    full_chain: Literal["only", "require", "capable"] | None = rule("fullChain", "FU", "whether a whole chain of tasks "
                                                                    "runs at its nucleus", _BROKERAGE)
    only_tags_for_fc: Flag = rule("onlyTagsForFC", "OT", "containers are found by their tags alone", _BROKERAGE,
                                  default=False, live=True)
    alt_stage_out: Text32 | None = rule("altStageOut", "AT", "whether outputs may go to another storage", _JOBS)
    cloud_as_vo: Flag = rule("cloudAsVO", "CV", "the cloud in a job is the task's own", _JOBS, default=False)
    stay_output_on_site: Flag = rule("stayOutputOnSite", "SO", "outputs stay where they were made", _DEFINITION,
                                     default=False)
    put_log_to_os: Flag = rule("putLogToOS", "PO", "logs go to an object store", _JOBS, default=False)
    intermediate_task: Flag = rule("intermediateTask", "IN", "outputs are kept by no rule of the catalogue",
                                   _DEFINITION, default=False)
    os_matching: Flag = rule("osMatching", "OS", "jobs run on the system that the task was submitted on", default=False,
                             kept="brokerage looks at no system that a task was submitted on, as in the field: name "
                             "the platform in architecture", warned=True)
    ddm_back_end: Text32 | None = rule("ddmBackEnd", "DE", "catalogue of the task",
                                       kept="the catalogue of a VO is set by its operators", warned=True)
    task_broker_on_master: Flag = rule("taskBrokerOnMaster", None, "only primary input says where data is",
                                       _NUCLEUS, default=False)


class NeedsRules(TaskFields):
    """What jobs need beside the amounts that are columns."""

    max_core_count: MostCores | None = rule("maxCoreCount", "CC", "cores that jobs of any number of cores take at most",
                                            _NEEDS, unit="cores", live=True)


class AttemptRules(TaskFields):
    """How often work is tried, what scouts measure, and when the task is good enough."""

    fail_when_goal_unreached: Flag = rule("failWhenGoalUnreached", "FG", "the task fails below its goal", _DEFINITION,
                                          default=False)
    use_exhausted: Flag = rule("useExhausted", "UX", "the owner decides below its goal", _DEFINITION, default=False)
    disable_auto_finish: Flag = rule("disableAutoFinish", "DF", "an exhausted task waits for its owner without end",
                                     _WATCH, default=False)
    disable_auto_retry: Flag = rule("disableAutoRetry", "DR", "nothing is tried twice", _DEFINITION, default=False)
    min_cpu_efficiency_percent: Percent | None = rule("minCpuEfficiency", "MC", "median below which scouts exhaust the "
                                                      "task", _JOBS, unit="%")
    retry_ram_offset_mb: Megabytes | None = rule("retryRamOffset", "RX", "first memory of jobs that ran out of it",
                                                 _JOBS, unit="MB")
    retry_ram_step_mb: Megabytes | None = rule("retryRamStep", "RY", "what each further attempt gets more", _JOBS,
                                               unit="MB")
    retry_ram_max_mb: Megabytes | None = rule("retryRamMax", "RZ", "most memory of further attempts", _JOBS, unit="MB")
    skip_scout: Flag = rule("skipScout", "US", "no jobs go first to measure", _JOBS, default=False)
    scout_success_rate: Tenths | None = rule("scoutSuccessRate", "SS", "scouts that must succeed", _JOBS, unit="tenths")
    respects_split_rule: Flag = rule("respectSplitRule", "RR", "scouts are as large as other jobs", _JOBS,
                                     default=False)
    no_throttle: Flag = rule("noThrottle", None, "jobs are made however many wait", _DEFINITION, default=False)
    no_auto_pause: Flag = rule("noAutoPause", "NP", "failures do not pause the task", _WATCH, default=False, live=True)


class PointRules(TaskFields):
    """How many points of a search are evaluated by how many jobs (PanDA client: phpo)."""

    evaluates_points: Flag = rule("hpoWorkflow", "HO", "jobs evaluate points of a search", _JOBS, default=False)
    most_jobs: SearchJobs | None = rule("maxNumJobs", "MN", "jobs that a search makes at most", _JOBS, unit="jobs")
    n_points: Points | None = rule("totNumJobs", "TJ", "points of a search", _JOBS, unit="points")


class EventServiceRules(TaskFields):
    """How events are handed out, tried again and merged while jobs run."""

    events_per_range: Events | None = rule("nEventsPerWorker", "ES", "events are handed out in ranges of so many",
                                           _JOBS, unit="events", live=True)
    n_consumers: Consumers = rule("nEsConsumers", "EC", "jobs that share the input of one at a queue", _JOBS, default=1,
                                  unit="jobs", live=True)
    n_sites_per_job: Sites = rule("nSitesPerJob", "NS", "queues that get jobs for the same input", _JOBS, default=1,
                                  unit="sites")
    range_attempts: Attempts = rule("maxAttemptES", "XA", "attempts of a range", _JOBS, default=10, unit="attempts")
    consumer_attempts: Attempts = rule("maxAttemptEsJob", "XJ", "attempts of the jobs of a job set", _JOBS, default=3,
                                       unit="attempts")
    keeps_processed_events: Flag = rule("notDiscardEvents", "ND", "ranges that are processed stay so when their files "
                                        "are tried again; without it all are processed again", _GIVEN_UP, default=False)
    attempts_only_of_failed: Flag = rule("decAttOnFailedES", "XF", "an attempt counts only where the range itself "
                                         "failed", _JOBS, default=False)
    resurrects_consumers: Flag = rule("resurrectConsumers", "SC", "a job set gets as many jobs again as at first",
                                      _JOBS, default=False)
    merges_at_store: Flag = rule("mergeEsOnOS", "ME", "outputs are merged where their store is", _JOBS, default=False)
    loses_some: Flag = rule("allowPartialFinish", "AP", "processed events are merged although others of their input "
                            "failed for good", _JOBS, default=False)
    numbers_within_files: Flag = rule("inFilePosEvtNum", "IF", "numbers of events begin anew in each file", _JOBS,
                                      default=False)
    n_jumbo_jobs: Consumers | None = rule("nJumboJobs", "NJ", "jobs that take ranges of the whole task", _JOBS,
                                          unit="jobs", live=True)
    n_jumbo_jobs_per_site: Consumers | None = rule("maxJumboPerSite", "MJ", "jumbo jobs of one site at most", _JOBS,
                                                   unit="jobs")
    is_fine_grained: Flag = rule("fineGrainedProc", "FP", "one job has all ranges of its input", _JOBS, default=False)
    cloning: Literal["runonce", "storeonce"] | None = rule("useJobCloning", "UC", "copies of a job race, or of their "
                                                           "outputs", _JOBS)


class SplittingRules(TaskFields):
    """How input becomes jobs, and unmerged output merge jobs."""

    n_files: Files | None = rule("nFiles", None, "input that is taken", _DEFINITION, unit="files", retry=True)
    n_events: Events | None = rule("nEvents", None, "input that is taken", _DEFINITION, unit="events", retry=True)
    n_files_per_job: Files | None = rule("nFilesPerJob", "NF", "primary files of a job", _JOBS, unit="files",
                                         retry=True, live=True)
    n_events_per_job: Events | None = rule("nEventsPerJob", "NE", "events of a job, within one file", _JOBS,
                                           unit="events")
    target_events_per_job: Events | None = rule("tgtNumEventsPerJob", None, "events of a job, over borders of files",
                                                _JOBS, unit="events")
    n_events_per_input_file: Events | None = rule("nEventsPerInputFile", "EI", "events that each primary file counts",
                                                  _JOBS, unit="events")
    n_gb_per_job: Gigabytes | None = rule("nGBPerJob", "NG", "input and output of a job at most", _JOBS, unit="GB",
                                          retry=True, live=True)
    n_max_files_per_job: Files | None = rule("nMaxFilesPerJob", "MF", "primary files of a job at most", _JOBS,
                                             unit="files", live=True)
    max_events_per_job: Events | None = rule("maxEventsPerJob", "MX", "events of a job at most", _JOBS, unit="events")
    max_walltime_h: Hours | None = rule("maxWalltime", "MW", "expected time of a job at most", _JOBS, unit="h")
    target_output_gb: Gigabytes | None = rule("tgtMaxOutputForNG", "TN", "largest output that a job aims at", _JOBS,
                                              unit="GB")
    skip_files_used_by: Identifiers | None = rule("skipFilesUsedBy", None, "tasks whose input is left out", _DEFINITION)
    use_real_num_events: Flag = rule("useRealNumEvents", "UE", "numbers of events are the catalogue's", _DEFINITION,
                                     default=False)
    respects_lumi_block: Flag = rule("respectLB", "RL", "a job has files of one luminosity block", _JOBS, default=False)
    order_by_lb: Flag = rule("orderByLB", "OL", "files are taken by luminosity block", _DEFINITION, default=False)
    releases_whole_lumi_blocks: Flag = rule("releasePerLB", "RP", "a luminosity block is taken when it is whole", _JOBS,
                                            default=False)
    order_input_by: Literal["eventsAlignment"] | None = rule("orderInputBy", "OI", "files that fill whole jobs come "
                                                             "first", _DEFINITION)
    skip_short_input: Flag = rule("skipShortInput", None, "files without events for whole jobs are left out",
                                  _DEFINITION, default=False)
    skips_short_output: Flag = rule("skipShortOutput", None, "no job is made of less than a whole one's input", _JOBS,
                                    default=False)
    n_chunks_to_wait: Files | None = rule("nChunksToWait", "NT", "so many jobs' input is waited for", _JOBS,
                                          unit="jobs")
    takes_input_at_once: Flag = rule("noInputPooling", "NI", "a job is made as soon as some input is there", _JOBS,
                                     default=False, live=True)
    add_nth_field_to_lfn: FieldNumbers | None = rule("addNthFieldToLFN", "AN", "fields of input names that go into "
                                                     "output names", _JOBS)
    names_from_files: Flag = rule("useFileAsSourceLFN", "UF", "these fields are of the file, not of its dataset", _JOBS,
                                  default=False)
    group_boundary: Boundary | None = rule("groupBoundaryID", "GB", "1, 2: a job has files of one boundary; 3, 4: all "
                                           "of it", _JOBS)
    n_files_per_merge_job: Files | None = rule("nFilesPerMergeJob", "ZF", "outputs of so many jobs are merged", _JOBS,
                                               unit="files")
    n_max_files_per_merge_job: Files = rule("nMaxFilesPerMergeJob", "ZM", "outputs of so many jobs at most", _JOBS,
                                            default=MAX_FILES_PER_MERGE_JOB, unit="files")
    n_gb_per_merge_job: Gigabytes | None = rule("nGBPerMergeJob", "ZG", "largest output of a merge job at most", _JOBS,
                                                unit="GB")
    n_events_per_merge_job: Events | None = rule("nEventsPerMergeJob", "ZE", "events of a merge job at most", _JOBS,
                                                 unit="events")
    merges_on_site: Flag = rule("onSiteMerging", "OM", "one merge job has what is at its queue", _JOBS, default=False)


class InputRules(TaskFields):
    """How input is found and read."""

    no_input: Flag = rule("noInput", None, "jobs read no dataset of the task", _DEFINITION, default=False)
    input_pre_staging: Flag = rule("inputPreStaging", "IS", "input is brought from tapes before jobs are made",
                                   _DEFINITION, default=False)
    wait_input: Flag = rule("waitInput", "WI", "input that is not there yet is waited for", _DEFINITION, default=False)
    no_wait_parent: Flag = rule("noWaitParent", "NW", "what a parent has made is read while it works", _DEFINITION,
                                default=False)
    ignore_missing_in_ds: Flag = rule("ignoreMissingInDS", "IM", "datasets and files that are missing are left out",
                                      _DEFINITION, default=False, retry=True, live=True)
    reuse_sec_on_demand: Flag = rule("reuseSecOnDemand", "RO", "secondary files are read again where they are too few",
                                     _DEFINITION, default=False)
    allow_incomplete_in_ds: Flag = rule("allowIncompleteInDS", "AI", "incomplete datasets are taken", default=False,
                                        kept="incomplete datasets are always taken", live=True)
    run_until_closed: Flag = rule("runUntilClosed", "RC", "open input is followed until it is closed", _DEFINITION,
                                  default=False)
    allow_empty_input: Flag = rule("allowEmptyInput", "AE", "a task without input ends well", _DEFINITION,
                                   default=False)
    copies_to_scratch: Flag = rule("useLocalIO", "LI", "jobs copy their input before they read it", _JOBS,
                                   default=False, live=True)
    write_input_to_file: Flag = rule("writeInputToFile", "WF", "long lists of files go into a file", _JOBS,
                                     default=False)
    use_prefetcher: Flag = rule("usePrefetcher", "UT", "pilots fetch input of ranges ahead", _JOBS, default=False)
    allow_input_lan: Literal["use", "only"] | None = rule("allowInputLAN", "IL", "whether jobs read input without "
                                                          "copying it", _BROKERAGE, live=True)


class WorkedOutRules(TaskFields):
    """What follows from other rules when the task is defined, and what is kept of it while it lives."""

    granularity: Events | None = rule("dynamicNumEvents", "DY", "the queue decides how many ranges of so many events",
                                      _JOBS, unit="events")
    seed_offset: int = rule("randomSeedOffset", "RS", "what seeds are above the number of a job", _JOBS, default=0)
    uses_build: Flag = rule("useBuild", "UB", "sources are compiled once for each site", _JOBS, default=False)
    preprocessing: int | None = rule("usePrePro", "UP", "how far the pre-processing job is", _DEFINITION)
    merges_from_scratch: Flag | None = rule("mergeUseLocalIO", None, "merge jobs copy their input first", _JOBS)
    points_per_generation: Points | None = rule("nPointsPerGeneration", None, "points that follow together", _JOBS)
    min_unevaluated_points: int = rule("minUnevaluatedPoints", None, "points to evaluate below which more follow",
                                       _JOBS, default=0)
    before_reduced: dict[str, Any] | None = rule("beforeReducedInput", None, "what was stated before input was "
                                                 "reduced", _JOBS)


class FormRules(TaskFields):
    """Rules with letters that stay in the form: nothing is decided by them."""

    segmented_work: Flag = rule("segmentedWork", "SW", "the task says how its input is segmented", _DEFINITION,
                                default=False)
    message_driven: Flag = rule("messageDriven", "MD", "messages drive the task", default=False,
                                kept="every task is driven by messages")
    push_status_changes: Flag = rule("pushStatusChanges", "PC", "changes of its status are published", default=False,
                                     kept="the changes of every task are published")
# fmt: on


class StatedRules(
    InputRules,
    SplittingRules,
    EventServiceRules,
    PointRules,
    AttemptRules,
    NeedsRules,
    PlaceRules,
    PayloadRules,
):
    """Every rule that a submission may state, those of the last base first."""

"""The commands on tasks: one row each, from which API, command line and documents are made.

Source: JEDI: Task retry and resubmission, Task aborting and forced termination, Using scout jobs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from services.task_definition.tasks.policy.task_command import Given, TaskCommand
from shared.states import TASK, Owner
from shared.states.task import MEANINGS, REASSIGNABLE, TaskStatus

_OVER: tuple[TaskStatus, ...] = ("finished", "done", "prepared", "broken", "aborted", "toabort", "aborting", "failed")
_ENDED: tuple[TaskStatus, ...] = ("finished", "failed", "aborted", "exhausted")
_UNDER_WAY: tuple[TaskStatus, ...] = ("ready", "scouting", "scouted", "running", "pending", "throttled", "paused")
_CHANGEABLE = frozenset({*_UNDER_WAY, "registered", "defined", "assigning", "exhausted"})
_RELEASABLE: tuple[TaskStatus, ...] = ("scouting", "pending", "running", "ready", "assigning", "defined")


def _sources(target: TaskStatus, without: Iterable[TaskStatus] = ()) -> frozenset[TaskStatus]:
    return frozenset(TASK.sources(target, Owner.TASK_DEFINITION)) - set(without)


_PARAMETERS = Given(
    "new_parameters", "parameters", "task parameters that change, as NAME=VALUE; several times", option="--set"
)
#: needs that may change while a task lives, and how copies of jobs count
ATTRIBUTES = ("ramCount", "wallTime", "cpuTime", "coreCount")
CLONING_MODES = ("runonce", "storeonce")
#: what happens to the jobs of a task that is reassigned
REASSIGNMENT_MODES = ("soft", "nokill", "hard")

COMMANDS: tuple[TaskCommand, ...] = (
    TaskCommand(
        "kill",
        "End a task and all its jobs.",
        _sources("aborting", _OVER),
        "aborting, aborted",
        jobs="killed",
        children="killed",
        right="cancel",
    ),
    TaskCommand(
        "finish",
        "End a task with what it has: no new jobs.",
        _sources("finishing", _OVER),
        "finishing, then its final status",
        jobs="killed; soft: those that run go on",
        takes=(
            Given(
                "soft", "flag", "kill running jobs instead of waiting for them", False, option="--hard", inverted=True
            ),
        ),
        right="cancel",
    ),
    TaskCommand(
        "retry",
        "Try again what failed in a task that ended (exhausted production tasks: production only).",
        frozenset(_ENDED),
        "ready; from exhausted where it was; assigning without a nucleus",
        jobs="new ones",
        files="failed ones re-opened with 5 more attempts",
        children="retried, unless aborted, broken or failed",
        takes=(
            _PARAMETERS,
            Given("no_child_retry", "flag", "leave children as they are", False),
            Given("discard_events", "flag", "process again the events that were processed and not merged", False),
            Given("disable_staging_mode", "flag", "do not wait for input that is being staged", False),
            Given(
                "keep_gshare_priority", "flag", "keep share and priority as they are now, not as they were given", False
            ),
            Given("ignore_hard_exhausted", "flag", "ignore the limits of retries", False),
        ),
    ),
    TaskCommand(
        "incexec",
        "Incremental execution: merge new parameters, read the input again, try what failed or was lost again.",
        frozenset({*_ENDED, "done", "pending"}),
        "rerefine, defined; pending: looked at now",
        jobs="new ones",
        files="failed, lost and missing ones re-opened, new ones added; memory as the parameters say",
        takes=(_PARAMETERS,),
        path="reload_input",
    ),
    TaskCommand(
        "reactivate",
        "Try an ended task again with all its attempts, or end the waiting of a pending one.",
        frozenset({*_ENDED, "pending"}),
        "as retry; pending: where it was",
        jobs="new ones",
        files="failed ones re-opened",
        children="retried, unless aborted, broken or failed",
        takes=(Given("keep_attempt_nr", "flag", "give no more attempts", False),),
    ),
    TaskCommand(
        "pause",
        "Make and start no jobs until the task is resumed.",
        _sources("paused"),
        "paused",
        jobs="activated ones throttled; after 10 minutes those before it given back; running ones go on",
        files="of jobs given back: ready",
    ),
    TaskCommand(
        "resume",
        "Go on with a task that is paused or throttled, or with one whose input is being staged as it is.",
        frozenset({"paused", "throttled", "staging"}),
        "where it was; staging: staged",
        jobs="throttled ones activated",
        files="staging ones ready",
    ),
    TaskCommand(
        "reassign",
        "Send a task to a site, cloud or nucleus, or to wherever the task brokerage sends it.",
        frozenset(REASSIGNABLE),
        "reassigning, then where it was; without a target assigning",
        jobs="soft (usual): those that have not started closed; hard: running ones too; nokill: go on",
        takes=(
            Given("site", "place", "a site or queue"),
            Given("cloud", "place", "a cloud"),
            Given("nucleus", "place", "a nucleus"),
            Given("mode", "text", "what happens to its jobs", choices=REASSIGNMENT_MODES),
            Given("soft", "flag", "the mode in the words of older clients: false is hard", None, option=""),
        ),
        by_production=True,
    ),
    TaskCommand(
        "avalanche",
        "Do not wait for the scouts.",
        frozenset({"scouting"}),
        "scouted, running",
        files="all opened",
        by_production=True,
    ),
    TaskCommand(
        "release",
        "Take input that is being staged as staged; a pending task goes on now.",
        frozenset(_RELEASABLE),
        "as it is; pending: where it was",
        files="staging ones ready",
    ),
    TaskCommand(
        "recover_lost_files",
        "Make lost outputs again from their input, also in the tasks that made input that is lost too.",
        frozenset({*_ENDED, "done", *_UNDER_WAY}),
        "ended: ready; rerefine where input is lost too; else as it is",
        jobs="new ones",
        files="input of lost files re-opened; lost ones, and others of the same jobs, leave their dataset",
        children="stay",
        takes=(
            Given(
                "files",
                "names",
                "names of lost outputs; otherwise those that the catalogue lost",
                option="--file",
            ),
            Given("new_dataset_suffix", "text", "end of the names of new datasets, instead of those that are there"),
            Given("dry_run", "flag", "say what would be made again, and change nothing", False),
        ),
    ),
    TaskCommand(
        "increase_attempts",
        "More attempts for every unit of input that is not processed.",
        frozenset(_UNDER_WAY),
        "as it is",
        files="failed ones re-opened",
        takes=(Given("increase", "number", "how many more", 5),),
    ),
    TaskCommand(
        "change_priority",
        "Change the priority of a task and of its waiting jobs; owners up to what their class of work allows.",
        frozenset(MEANINGS) - set(_OVER),
        "as it is",
        jobs="waiting ones follow",
        takes=(Given("priority", "number", "the larger, the earlier within a share", required=True, option=""),),
        verb="set-priority",
    ),
    TaskCommand(
        "change_share",
        "Move a task, with its jobs that wait, to another share.",
        frozenset(MEANINGS) - set(_OVER),
        "as it is",
        jobs="waiting ones follow",
        takes=(Given("share", "text", "a leaf of the shares", required=True, option=""),),
        verb="set-share",
        by_production=True,
    ),
    TaskCommand(
        "change_split_rule",
        "Change a split rule of a live task, from its next jobs on.",
        frozenset({*_UNDER_WAY, "registered", "defined", "assigning"}),
        "as it is",
        takes=(
            Given("attribute_name", "text", "a parameter or its two letters", required=True, option=""),
            Given("value", "rule", "its value; none: without the rule", option=""),
            Given("attribute_value", "rule", "another name of value", option=""),
        ),
        verb="set-rule",
    ),
    TaskCommand(
        "change_attribute",
        "Change what the jobs of a live task need, from its next jobs on.",
        _CHANGEABLE,
        "as it is",
        takes=(
            Given("attribute_name", "text", "which need", required=True, option="", choices=ATTRIBUTES),
            Given("value", "number", "how much, in the unit that the task states", required=True, option=""),
        ),
        verb="set-need",
        by_production=True,
    ),
    TaskCommand(
        "enable_jumbo_jobs",
        "Let jumbo jobs process the events of a live task, or none any more.",
        _CHANGEABLE,
        "as it is; scouting: scouted",
        jobs="jumbo jobs made, or taken back",
        takes=(
            Given("jumbo_jobs_total", "number", "how many at a time; 0: none", required=True, option=""),
            Given(
                "jumbo_jobs_per_site", "number", "how many at a site; 0: as many as there are", 0, option="--per-site"
            ),
        ),
        verb="set-jumbo",
        by_production=True,
    ),
    TaskCommand(
        "enable_job_cloning",
        "Make several copies of each further job of a live task, of which one counts.",
        _CHANGEABLE,
        "as it is",
        takes=(
            Given("mode", "text", "which copy counts: the first to run, or to store", choices=CLONING_MODES),
            Given("multiplicity", "number", "copies of each job", 2),
            Given("num_sites", "number", "sites that they are spread over", 2),
        ),
        by_production=True,
        id_name="jedi_task_id",
    ),
    TaskCommand(
        "disable_job_cloning",
        "Make one job again where copies were made.",
        _CHANGEABLE,
        "as it is",
        by_production=True,
        id_name="jedi_task_id",
    ),
)
BY_NAME: Mapping[str, TaskCommand] = {one.name: one for one in COMMANDS}
#: names that older callers use
OTHER_NAMES: Mapping[str, str] = {"reload_input": "incexec"}


def named(name: str) -> TaskCommand | None:
    """The command of this name, or None."""
    return BY_NAME.get(OTHER_NAMES.get(name, name))


def states_in_words(states: Iterable[TaskStatus]) -> str:
    """The states, in the order of a task's life."""
    wanted = set(states)
    return ", ".join(one for one in MEANINGS if one in wanted)


def states_in_short(states: Iterable[TaskStatus]) -> str:
    """The same, by those that are left out where these are fewer."""
    wanted = set(states)
    others = set(MEANINGS) - wanted
    return states_in_words(wanted) if len(wanted) <= len(others) else f"all but {states_in_words(others)}"

"""Who may submit what: tasks of one's VOs; production there what is beyond one's own analysis."""

from __future__ import annotations

from services.task_definition.tasks.policy.client_defaults import HIGHEST_OF_USERS
from services.task_definition.tasks.policy.owners import MOST_ATTEMPTS_BY_OWNER
from services.task_definition.tasks.policy.task_spec import TaskSpec
from shared.auth import Caller, access
from shared.auth.access import Whose
from shared.model.analysis import ANALYSIS
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

USER_LABELS = ("user", "panda", "test", "ptest")
#: analysis jobs start from it; above it work is urgent (PanDA brokerage: urgent chunks), which is not a user's to say
MOST_PRIORITY_OF_USERS = 1000
#: owners order their tasks among themselves by currentPriority (PanDA client: --priority)
MOST_CURRENT_PRIORITY_OF_USERS = HIGHEST_OF_USERS


def owner_of(spec: TaskSpec, caller: Caller) -> str:
    """Users own what they submit, whatever the JSON says.

    Production may submit in another name of its own issuer.
    """
    named = spec.parameters.user_name or caller.name
    return named if _may_produce(spec, caller) and access.may_name(caller, named) else caller.name


def secrets_asked_of(spec: TaskSpec, caller: Caller) -> str | None:
    """Whose secrets a task would use that somebody else submits.

    None where it uses the caller's own, or none.
    """
    named = spec.parameters.user_name
    is_others = bool(named) and named != caller.name and _may_produce(spec, caller)
    return named if is_others and spec.parameters.use_secrets else None


def names_missing(spec: TaskSpec, caller: Caller) -> list[FieldProblem]:
    """What production may not do in another name: in one of another issuer anything, in any use secrets."""
    named, found = spec.parameters.user_name, list[FieldProblem]()
    if named and _may_produce(spec, caller) and not access.may_name(caller, named):
        allowed = f"the name is of another issuer than {caller.name}; allowed: {caller.names.meaning}"
        found.append(problem("userName", named, allowed))
    if (owner := secrets_asked_of(spec, caller)) is not None:
        allowed = f"the secrets of {owner} go to tasks that {owner} submits; allowed: false"
        found.append(problem("useSecrets", True, allowed))
    return found


def _may_produce(spec: TaskSpec, caller: Caller) -> bool:
    return caller.may_for(spec.parameters.vo, "production")


def may_submit_for(caller: Caller, vo: str) -> bool:
    """Whether tasks of a VO are a caller's to submit: what it has is told to nobody else."""
    return access.SUBMITTING.allows(caller, Whose(vo=vo))


def rights_missing(
    spec: TaskSpec, caller: Caller, most_attempts: int = MOST_ATTEMPTS_BY_OWNER.default
) -> list[FieldProblem]:
    """What a caller without the role production in the task's VO may not ask for.

    `most_attempts`: of a unit of input, as retries of an owner may allow (MOST_ATTEMPTS_BY_OWNER).
    """
    if _may_produce(spec, caller):
        return names_missing(spec, caller)
    given, found = spec.parameters, list[FieldProblem]()
    if not caller.is_of(given.vo):
        vos = ", ".join(sorted(caller.vos or ())) or "none"
        found.append(problem("vo", given.vo, f"{caller.name} acts for other VOs; allowed: {vos}"))
        if caller.may("production"):
            return found
    if given.prod_source_label not in USER_LABELS:
        allowed = f"needs the role production; allowed: {', '.join(USER_LABELS)}"
        found.append(problem("prodSourceLabel", given.prod_source_label, allowed))
    if not spec.is_analysis:
        found.append(problem("taskType", given.task_type, f"needs the role production; allowed: {ANALYSIS!r}"))
    if given.working_group and given.working_group not in caller.groups:  # it decides whose share the task uses
        groups = ", ".join(sorted(caller.groups)) or "none"
        allowed = f"needs the role production or that group; groups of {caller.name}: {groups}"
        found.append(problem("workingGroup", given.working_group, allowed))
    for name, priority, most in (
        ("taskPriority", given.task_priority, MOST_PRIORITY_OF_USERS),
        ("currentPriority", given.current_priority, MOST_CURRENT_PRIORITY_OF_USERS),
    ):
        if priority is not None and priority > most:
            allowed = f"needs the role production; allowed: at most {most}"
            found.append(problem(name, priority, allowed))
    if given.max_attempt is not None and given.max_attempt > most_attempts:
        allowed = f"needs the role production; allowed: at most {most_attempts}"
        found.append(problem("maxAttempt", given.max_attempt, allowed))
    skips_scouts = given.skip_scout and not given.evaluates_points  # a search has none (PanDA client, phpo)
    for name, value in (("skipScout", skips_scouts), ("gshare", given.gshare), ("official", given.official)):
        if value:
            found.append(problem(name, value, "needs the role production"))
    return found

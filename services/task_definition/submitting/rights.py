"""Who may submit what: tasks of one's VOs; production there what is beyond one's own analysis."""

from __future__ import annotations

from services.task_definition.policy.task_spec import TaskSpec
from shared.auth import Caller
from shared.model.analysis import ANALYSIS
from shared.model.problems import FieldProblem
from shared.model.task_spec_problems import problem

USER_LABELS = ("user", "panda", "test", "ptest")
#: analysis jobs start from it; above it work is urgent (PanDA brokerage: urgent chunks), which is not a user's to say
MOST_PRIORITY_OF_USERS = 1000


def owner_of(spec: TaskSpec, caller: Caller) -> str:
    """Users own what they submit, whatever the JSON says; production may submit in another name."""
    return (spec.parameters.user_name or caller.name) if _may_produce(spec, caller) else caller.name


def _may_produce(spec: TaskSpec, caller: Caller) -> bool:
    return caller.may_for(spec.parameters.vo, "production")


def rights_missing(spec: TaskSpec, caller: Caller) -> list[FieldProblem]:
    """What a caller without the role production in the task's VO may not ask for."""
    if _may_produce(spec, caller):
        return []
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
    for name, priority in (("taskPriority", given.task_priority), ("currentPriority", given.current_priority)):
        if priority is not None and priority > MOST_PRIORITY_OF_USERS:
            allowed = f"needs the role production; allowed: at most {MOST_PRIORITY_OF_USERS}"
            found.append(problem(name, priority, allowed))
    skips_scouts = given.skip_scout and not given.hpo_workflow  # a search has none (PanDA client, phpo)
    for name, value in (("skipScout", skips_scouts), ("gshare", given.gshare), ("official", given.official)):
        if value:
            found.append(problem(name, value, "needs the role production"))
    return found

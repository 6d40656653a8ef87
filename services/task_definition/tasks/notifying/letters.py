"""The letters of VOs without a plugin of their own."""

from __future__ import annotations

from services.task_definition.tasks.notifying.plugin import Letter, Occasion
from services.task_definition.tasks.policy.generation_texts import moment
from shared.model.visible_text import visible

_MEANS = {
    "done": "is done: all of its input was processed",
    "finished": "has finished with part of its input",
    "failed": "has failed",
    "broken": "is broken: it cannot be carried out as it was defined",
    "aborted": "was aborted",
    "exhausted": "is exhausted: it waits until you retry or finish it",
    "waits": "waits for something that only a change of the task, or of the grid, can give it",
}


class PlainLetters:
    """A letter about every cause.

    It goes to the address that is the user's name, or to the user at the domain of the settings.
    """

    name = "plain"

    def letter(self, about: Occasion) -> Letter | None:
        """Say what happened, since when, and where to look."""
        to = about.user_name if "@" in about.user_name else f"{about.user_name}@{about.domain}"
        means = _MEANS.get(about.cause, f"is {about.cause}")
        name = visible(about.task_name)
        lines = [f"Your task {about.task_id} {name} {means}, since {moment(about.since)}."]
        if about.progress is not None:
            lines.append(f"{about.progress} % of its input are processed.")
        if about.error:
            lines.append(f"It says: {visible(about.error)}")
        lines += ["", f"More is told by: orrery explain task {about.task_id}"]
        return Letter(to, f"Task {about.task_id} {about.cause}: {name}", "\n".join(lines) + "\n")

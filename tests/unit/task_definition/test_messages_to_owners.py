"""What a mail program knows a letter by."""

from __future__ import annotations

from dataclasses import replace

from services.task_definition.tasks.notifying.plugin import Letter
from services.task_definition.tasks.notifying.sending import message_of

LETTER = Letter("ada@site.org", "Task 7 failed: user.ada.x", "Your task 7 user.ada.x has failed since 12:00.")


def test_a_letter_that_goes_again_has_the_same_id_and_one_about_another_time_has_not() -> None:
    first, again = (message_of(LETTER, "Orrery <orrery@site.org>") for _ in range(2))
    later = message_of(replace(LETTER, text=LETTER.text.replace("12:00", "13:00")), "Orrery <orrery@site.org>")
    assert first["Message-ID"] == again["Message-ID"] != later["Message-ID"]
    assert first["Message-ID"].startswith("<") and first["Message-ID"].endswith("@site.org>")

from __future__ import annotations

import pytest

PATH = "harvester/add_target_slots"


@pytest.mark.parametrize(
    ("arguments", "body", "said"),
    [
        (["300"], {"slots": 300}, "Q: 300 slots"),
        (["0", "--resource-type", "MCORE"], {"slots": 0, "resource_type": "MCORE"}, "Q: 0 slots of MCORE"),
        (["5", "--until", "2026-12-01"], {"slots": 5, "expiration_date": "2026-12-01"}, "slots until"),
        (["--unset"], {"slots": None}, "Q: no slots are set"),
    ],
)  # fmt: skip
def test_slots_of_a_queue_are_set_and_taken_back(services, orrery, arguments, body, said):
    services.says(PATH)
    outcome = orrery("slots", "Q", *arguments)
    assert outcome.code == 0 and said in outcome.out
    assert services.asked(PATH) == [
        {"panda_queue": "Q", "slots": None, "resource_type": None, "expiration_date": None, **body}
    ]


@pytest.mark.parametrize("arguments", [[], ["5", "--unset"], ["--unset", "--until", "2026-12-01"], ["-1"], ["many"]])
def test_what_makes_no_sense_is_asked_of_nobody(services, orrery, arguments):
    assert orrery("slots", "Q", *arguments).code == 2
    assert services.requests == []


def test_a_refusal_is_told(services, orrery):
    services.says(PATH, message="panda_queue 'Q' is unknown; allowed: a queue of the grid", success=False)
    outcome = orrery("slots", "Q", "5")
    assert outcome.code == 1 and "panda_queue 'Q' is unknown" in outcome.err


def test_the_verb_says_which_service_and_role_it_needs(orrery):
    text = orrery("slots", "--help").out
    assert "Service: job_brokerage" in text and "Role: production of all VOs of the queue" in text

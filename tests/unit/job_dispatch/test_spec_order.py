"""What a specification says of share and priority when a pilot takes the job."""

from __future__ import annotations

import orjson
import pytest

from services.job_dispatch.policy.spec_order import in_order

MADE = {"PandaID": 7, "currentPriority": 500, "jobPars": '{"currentPriority":700,"gshare":"Data"}', "gshare": "MC"}
TEXTS = [orjson.dumps(MADE).decode(), '{"gshare": "MC", "currentPriority": 500, "PandaID": 7}']


@pytest.mark.parametrize("text", TEXTS)
def test_a_job_that_has_what_it_was_made_with_keeps_its_text(text: str) -> None:
    assert in_order(text, "MC", 500) is text


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize(("gshare", "priority"), [("MC", 700), ("Data", 500), ("Data", 700), ("MC", 50), ("MC", 5000)])
def test_a_job_that_was_reordered_is_told_what_it_has(text: str, gshare: str, priority: int) -> None:
    before, told = orjson.loads(text), orjson.loads(in_order(text, gshare, priority))
    assert (told["gshare"], told["currentPriority"]) == (gshare, priority)
    assert told == {**before, "gshare": gshare, "currentPriority": priority}


def test_a_share_with_a_quote_in_its_name_is_compared_as_it_is_written() -> None:
    text = orjson.dumps({"gshare": 'a "b"', "currentPriority": -3}).decode()
    assert in_order(text, 'a "b"', -3) is text


def test_what_a_text_does_not_tell_is_not_added() -> None:
    assert in_order('{"PandaID":7}', "MC", 500) == '{"PandaID":7}'
    assert in_order('{"gshare":"MC"}', "Data", 500) == '{"gshare":"Data"}'

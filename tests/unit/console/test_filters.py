"""What is written into the box of a list becomes questions, or a word that is named with what is allowed."""

from __future__ import annotations

import pytest

from services.console.policy.filters import JOBS, MOST_CHARACTERS, TASKS, quoted, read_filter


def test_words_become_what_the_api_is_asked() -> None:
    found = read_filter("  status=running,scouting vo=atlas  user=ada ", TASKS)
    assert found.asks == {"status": "running,scouting", "vo": "atlas", "user_name": "ada"}
    assert found.wrong == []


def test_nothing_asks_for_everything() -> None:
    assert read_filter("", TASKS) == read_filter("", JOBS)
    assert read_filter("", TASKS).asks == {}


@pytest.mark.parametrize(
    ("text", "word", "allowed"),
    [
        ("status=runing", "status=runing", "running? one of registered, "),
        ("statsu=running", "statsu=running", "status=? one of status=, vo=, user="),
        ("running", "running", "one of status="),
        ("vo=", "vo=", "a value behind ="),
        ("waits>", "waits>", "a value behind >"),
        ("waits>1", "waits>1", "a number and s, m, h or d"),
        ("waits=1h", "waits=1h", "waits>? one of status="),
        ("vo>atlas", "vo>atlas", "vo=? one of status="),
        ("vo=atlas vo=cms", "vo=cms", "vo= once"),
        ("<script>alert(1)</script>", "<script>alert(1)</script>", "one of status="),
        ("name=v1.x*", "name=v1.x*", "three letters or digits together, or more"),
    ],
)
def test_the_word_that_is_wrong_is_named_with_what_is_allowed(text: str, word: str, allowed: str) -> None:
    (wrong,) = read_filter(text, TASKS).wrong
    assert wrong.word == word and wrong.allowed.startswith(allowed)


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5", "٣", "9" * 30, "1_0"])
def test_an_id_is_a_whole_number_greater_than_zero(value: str) -> None:
    (wrong,) = read_filter(f"task={value}", JOBS).wrong
    assert wrong.allowed == "a whole number greater than zero"


def test_a_job_has_one_state_and_a_task_may_have_several() -> None:
    assert read_filter("status=failed,closed", TASKS).wrong != []
    assert read_filter("status=failed,broken", TASKS).wrong == []
    assert read_filter("status=failed,closed", JOBS).wrong != []


@pytest.mark.parametrize(
    ("span", "seconds"), [("90s", "90"), ("15m", "900"), ("1h", "3600"), ("1.5h", "5400"), ("2d", "172800")]
)
def test_how_long_a_task_waits_is_a_span_of_time(span: str, seconds: str) -> None:
    found = read_filter(f"status=pending waits>{span}", TASKS)
    assert found.asks == {"status": "pending", "waits_longer_s": seconds} and not found.wrong


def test_a_text_without_end_is_no_filter() -> None:
    found = read_filter("vo=" + "x" * MOST_CHARACTERS, TASKS)
    assert found.asks == {} and len(found.wrong) == 1 and len(found.text) == MOST_CHARACTERS


def test_a_value_with_spaces_stands_in_quotation_marks() -> None:
    wanted = read_filter('status=running user="Ada Lovelace"', TASKS)
    assert wanted.asks == {"status": "running", "user_name": "Ada Lovelace"} and not wanted.wrong
    assert quoted("Ada Lovelace") == '"Ada Lovelace"' and quoted("ada") == "ada"
    assert [one.word for one in read_filter('user="Ada Love', TASKS).wrong] == ["Love"]

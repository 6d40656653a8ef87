"""After signing in one goes on at a page of the console, wherever a link says."""

from __future__ import annotations

import pytest

from services.console.policy.sessions import HOME, Kept, Session, path_after
from services.console.sealing import Seals
from shared.auth.keyring import Keyring

ADA = Session("s", "token", "ada", "user,operator", "atlas", "submit", 100.0)


@pytest.mark.parametrize(
    "path", ["/console/", "/console", "/console/tasks/7/why?decision=3", "/console/tasks?q=status%3Drunning"]
)
def test_a_page_of_the_console_is_gone_back_to(path: str) -> None:
    assert path_after(path) == path


@pytest.mark.parametrize(
    "path",
    [
        None, "", "/", "/api/v1/task/list", "/consoles", "https://elsewhere/console/", "//elsewhere/console/",
        "///console/", "/\\elsewhere", "/console/\r\nSet-Cookie: a=b", "javascript:alert(1)", "/console/../api/v1/",
        "/console/sign-in", "/console/sign-out", "/console/" + "x" * 2000, "console/tasks",
    ],
)  # fmt: skip
def test_what_leads_elsewhere_leads_home(path: str | None) -> None:
    assert path_after(path) == HOME


def test_a_session_says_what_was_sealed_and_when_it_is_over() -> None:
    assert Session.of(ADA.content()) == ADA and ADA.is_operator
    assert not ADA.is_over(99.9) and ADA.is_over(100.0)


@pytest.mark.parametrize("content", [None, {}, {"name": "ada"}, {**ADA.content(), "more": 1}])
def test_what_is_of_another_version_is_no_session(content: dict | None) -> None:
    assert Session.of(content) is None


def test_what_was_sealed_for_one_purpose_opens_for_no_other_and_with_no_other_key() -> None:
    seals = Seals(Keyring.generate())
    word = seals.seal({"name": "ada"}, "console session")
    assert seals.open(word, "console session") == {"name": "ada"}
    assert seals.open(word, "console link") is None
    assert Seals(Keyring.generate()).open(word, "console session") is None
    assert [seals.open(one, "console session") for one in ("", ".", "x.y", word[:-1], f"{word}é")] == [None] * 5


def test_what_renews_a_session_knows_the_first_token_and_the_newest_however_often_it_is_renewed() -> None:
    kept = Kept("session", "ada", "refresh", 0.0, 1.0, ["first id", "first digest"])
    for n in range(50):
        kept = kept.followed_by("", [f"id {n}", f"digest {n}"])
    assert kept.refresh_token == "refresh" and kept.followed_by("other", []).refresh_token == "other"
    assert [*kept.marks[:3], *kept.marks[-2:]] == ["first id", "first digest", "id 38", "id 49", "digest 49"]

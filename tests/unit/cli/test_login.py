"""Commands to a system at another machine: its address, a token of its issuer, and what is never sent there."""

from __future__ import annotations

import json
import stat
import time
from typing import Any

import jwt
import pytest

from services.cli.addresses import SERVICES, find_addresses, variable_of
from services.cli.failures import WrongUsage
from services.cli.logins import Logins, SystemLogin, logins_file, read_logins, write_logins
from services.cli.tokens import token_for
from shared.auth import Authority
from tests.unit.cli.fake_services import FakeServices, fake_services


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch: pytest.MonkeyPatch):
    """A person without settings, in a directory where no system runs."""
    for name in ("ORRERY_URL", "ORRERY_TOKEN", "ORRERY_TOKEN_KEY_FILE", *(variable_of(one) for one in SERVICES)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    monkeypatch.setenv("ORRERY_RUN_FILE", str(tmp_path / "none.json"))


@pytest.fixture
def remote():
    with fake_services() as fake:
        known = {"REMOTE_USER": "iam:ada", "ROLES": "user", "VO": "atlas"}
        fake.says("system/get_attributes", {"environment": known})
        fake.says("task/list", [])
        yield fake


def token_of(lifetime_s: float, name: str = "ada") -> str:
    return jwt.encode({"sub": name, "exp": int(time.time() + lifetime_s)}, "k" * 32)


def give_issuer(remote: FakeServices, *answers: tuple[int, dict[str, Any]]) -> None:
    """The system names an issuer, which answers the questions for a token one after the other."""
    given = iter(answers)
    remote.answers["/auth/atlas_auth_config.json"] = (200, {
        "oidc_config_url": f"{remote.url}/.well-known/openid-configuration", "client_id": "cli", "client_secret": "",
        "audience": "", "vo": "atlas"})  # fmt: skip
    remote.answers["/.well-known/openid-configuration"] = (200, {
        "device_authorization_endpoint": f"{remote.url}/device", "token_endpoint": f"{remote.url}/token"})  # fmt: skip
    remote.answers["/device"] = (200, {
        "device_code": "d-1", "user_code": "AB-CD", "interval": 0.01, "expires_in": 60,
        "verification_uri_complete": "https://iam.example/\x1b[2Jdevice?c=AB-CD"})  # fmt: skip
    remote.answers["/token"] = lambda asked: next(given)


def test_one_variable_names_the_system_at_another_machine_for_every_verb(remote, orrery, monkeypatch) -> None:
    monkeypatch.setenv("ORRERY_URL", f"{remote.url}/")
    monkeypatch.setenv("ORRERY_TOKEN", "mine")
    assert orrery("tasks", "--json").code == 0
    assert remote.headers[-1]["Authorization"] == "Bearer mine"
    assert all(find_addresses().urls_of(one) == (remote.url,) for one in SERVICES)
    monkeypatch.setenv("ORRERY_URL", "orrery.example.org")
    outcome = orrery("tasks")
    assert outcome.code == WrongUsage.exit_code and "ORRERY_URL='orrery.example.org': must start with" in outcome.err


def test_a_token_of_this_machines_key_is_never_sent_to_another(remote, orrery, tmp_path, monkeypatch) -> None:
    Authority.create_file(tmp_path / ".local" / "token_key.pem")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ORRERY_URL", remote.url)
    outcome = orrery("tasks")
    assert outcome.code == WrongUsage.exit_code and f"orrery login {remote.url}" in outcome.err
    assert remote.requests == []


def test_a_login_by_the_device_flow_shows_the_address_and_waits_until_it_is_confirmed(remote, orrery) -> None:
    token = token_of(3600)
    pending = (400, {"error": "authorization_pending"})
    give_issuer(remote, pending, pending, (200, {"id_token": token, "access_token": "a", "refresh_token": "r"}))
    outcome = orrery("login", remote.url, "--vo", "atlas")
    assert outcome.code == 0, outcome.err
    assert r"open https://iam.example/\x1b[2Jdevice?c=AB-CD in a browser and confirm the code AB-CD" in outcome.out
    assert f"logged in at {remote.url} as iam:ada: roles user; VO atlas" in outcome.out
    (asked,) = remote.asked("/device")
    assert asked["client_id"] == "cli" and "openid" in asked["scope"].split()
    assert [one["grant_type"].rpartition(":")[2] for one in remote.asked("/token")] == ["device_code"] * 3
    # later commands go there with that token, without a variable
    assert orrery("tasks", "--json").code == 0
    assert remote.headers[-1]["Authorization"] == f"Bearer {token}"
    assert stat.S_IMODE(logins_file().stat().st_mode) == 0o600


def test_a_login_that_is_refused_in_the_browser_is_told_and_nothing_is_remembered(remote, orrery) -> None:
    give_issuer(remote, (400, {"error": "access_denied", "error_description": "the user said no"}))
    outcome = orrery("login", remote.url, "--vo", "atlas")
    assert outcome.code == 1 and "the user said no" in outcome.err
    assert not logins_file().exists()


def test_a_pasted_token_is_read_from_the_input_and_kept_only_if_the_system_takes_it(remote, orrery) -> None:
    outcome = orrery("login", remote.url, "--token", "--json", stdin=f"{token_of(600)}\n")
    assert outcome.code == 0, outcome.err
    told = json.loads(outcome.out)
    assert (told["name"], told["url"], told["renews"]) == ("iam:ada", remote.url, False)
    remote.answers["system/get_attributes"] = (401, {"success": False, "message": "token refused", "data": None})
    assert orrery("login", remote.url, "--token", stdin="other").code == 1
    assert read_logins().of[remote.url].token != "other"
    assert orrery("login", remote.url, "--token", stdin="two words").code == WrongUsage.exit_code


def test_a_system_without_an_issuer_for_logins_says_how_to_log_in_instead(remote, orrery) -> None:
    outcome = orrery("login", remote.url)
    assert outcome.code == 1 and f"orrery login {remote.url} --token" in outcome.err


def test_a_token_that_is_about_to_expire_is_renewed_and_the_new_one_is_kept(remote) -> None:
    new = token_of(3600, "renewed")
    give_issuer(remote, (200, {"id_token": new}))
    old = SystemLogin(token_of(10), time.time() + 10, "r-1", f"{remote.url}/token", "cli")
    write_logins(Logins().with_login(remote.url, old))
    assert token_for(find_addresses()) == new
    assert remote.asked("/token") == [{"client_id": "cli", "grant_type": "refresh_token", "refresh_token": "r-1"}]
    assert (read_logins().of[remote.url].token, read_logins().of[remote.url].refresh_token) == (new, "r-1")


def test_an_expired_token_that_nothing_renews_is_told_before_anything_is_sent(remote, orrery) -> None:
    write_logins(Logins().with_login(remote.url, SystemLogin("old", 1_700_000_000.0)))
    outcome = orrery("tasks")
    assert outcome.code == WrongUsage.exit_code and "expired at 2023-11-14 22:13 UTC: log in again" in outcome.err
    assert remote.requests == []


def test_a_system_that_runs_here_counts_more_than_a_login_and_who_logs_in_is_told(
    remote, orrery, tmp_path, monkeypatch
) -> None:
    (tmp_path / "run.json").write_text(json.dumps({"urls": {"task-definition": ["http://127.0.0.1:9"]}}))
    monkeypatch.setenv("ORRERY_RUN_FILE", str(tmp_path / "run.json"))
    outcome = orrery("login", remote.url, "--token", stdin=token_of(600))
    assert outcome.code == 0 and f"set ORRERY_URL={remote.url} for this one" in outcome.err
    assert find_addresses().elsewhere is None
    (tmp_path / "run.json").write_text(json.dumps({"state": "stopped", "urls": {}}))
    assert find_addresses().elsewhere == remote.url


def test_who_logs_out_has_no_token_there_any_more(remote, orrery) -> None:
    write_logins(Logins().with_login(remote.url, SystemLogin("mine")))
    assert orrery("logout").code == 0
    assert read_logins() == Logins()
    assert orrery("logout").code == 1


def test_every_variable_that_is_known_is_listed_with_its_meaning_and_no_secret(orrery, monkeypatch) -> None:
    from shared.config.variables import known_variables

    monkeypatch.setenv("ORRERY_DATABASE_URL", "postgresql://me:pass@word@h/db")
    monkeypatch.setenv("ORRERY_TOKEN", "secret-token")
    outcome = orrery("settings", "--json")
    rows = {one["variable"]: one for one in json.loads(outcome.out)}
    assert rows.keys() == known_variables() and all(one["meaning"] for one in rows.values())
    assert rows["ORRERY_DATABASE_URL"]["value"] == "postgresql://me:(not shown)@h/db"
    assert rows["ORRERY_DATABASE_POOL_SIZE"]["default"] == "8" and rows["ORRERY_DATABASE_URL"]["default"] == "needed"
    assert rows["ORRERY_TOKEN"]["value"] == "(not shown)" and "secret-token" not in outcome.out
    shown = orrery("settings", "--set").out
    assert "ORRERY_TOKEN" in shown and "ORRERY_RANDOM_SEED" not in shown

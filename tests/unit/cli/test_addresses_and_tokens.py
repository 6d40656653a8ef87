import json

import jwt
import pytest

from services.cli.addresses import find_addresses
from services.cli.failures import Unreachable, WrongUsage
from services.cli.tokens import issue, token_for
from shared.auth import Authority, NotAuthenticated


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch):
    for name in ("ORRERY_TOKEN", "ORRERY_TOKEN_KEY_FILE", "ORRERY_RUN_FILE", "ORRERY_JOB_DISPATCH_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def record(tmp_path, monkeypatch):
    path = tmp_path / ".local" / "run.json"
    path.parent.mkdir()
    Authority.create_file(tmp_path / "key.pem")
    urls = {"job-dispatch": ["http://127.0.0.1:1/", "http://127.0.0.1:2"], "watchdog": ["http://127.0.0.1:3"]}
    path.write_text(json.dumps({"urls": urls, "token_key_file": str(tmp_path / "key.pem")}))
    return path


def test_the_supervisors_record_is_found_from_a_directory_below_it(record, tmp_path):
    below = tmp_path / "some" / "where"
    below.mkdir(parents=True)
    addresses = find_addresses(below)
    assert addresses.urls_of("job_dispatch") == ("http://127.0.0.1:1", "http://127.0.0.1:2")
    assert addresses.record == record


def test_the_environment_wins_over_the_record(record, tmp_path, monkeypatch):
    monkeypatch.setenv("ORRERY_JOB_DISPATCH_URL", "http://elsewhere:80/")
    assert find_addresses(tmp_path).urls_of("job_dispatch") == ("http://elsewhere:80",)


def test_an_address_that_is_no_url_is_a_configuration_error_naming_the_variable(record, tmp_path, monkeypatch):
    monkeypatch.setenv("ORRERY_JOB_DISPATCH_URL", "elsewhere:80")
    with pytest.raises(WrongUsage, match="ORRERY_JOB_DISPATCH_URL='elsewhere:80'"):
        find_addresses(tmp_path)


def test_a_service_nobody_names_is_unreachable_and_says_how_to_name_it(record, tmp_path):
    with pytest.raises(Unreachable, match="ORRERY_TASK_DEFINITION_URL"):
        find_addresses(tmp_path).urls_of("task_definition")


def test_a_record_that_is_not_json_is_a_configuration_error(record, tmp_path):
    record.write_text("{")
    with pytest.raises(WrongUsage, match="not JSON"):
        find_addresses(tmp_path)


def test_without_a_token_one_is_made_with_the_development_key(record, tmp_path):
    caller = Authority.from_file(tmp_path / "key.pem").verify(token_for(find_addresses(tmp_path)))
    assert caller.may("production")


def test_a_given_token_is_used_as_it_is(record, tmp_path, monkeypatch):
    monkeypatch.setenv("ORRERY_TOKEN", "mine\n")
    assert token_for(find_addresses(tmp_path)) == "mine"


def test_an_unknown_role_is_refused_with_those_allowed(record, tmp_path):
    with pytest.raises(WrongUsage, match="allowed are user, pilot"):
        issue(find_addresses(tmp_path), "somebody", ["emperor"])


def test_a_token_is_limited_to_rights_and_an_unknown_one_is_refused(record, tmp_path):
    found = find_addresses(tmp_path)
    limited = jwt.decode(issue(found, "x", ["user"], rights=["submit"]), options={"verify_signature": False})
    assert limited["scope"] == "compute.read compute.create"
    assert "scope" not in jwt.decode(issue(found, "x", ["user"]), options={"verify_signature": False})
    with pytest.raises(WrongUsage, match="allowed are submit, cancel, modify"):
        issue(found, "x", ["user"], rights=["delete"])


def test_a_token_is_revoked_by_its_id_and_is_not_sent_itself(record, services, orrery, tmp_path):
    services.says("token/revoke", {"revocations_version": 1})
    token = issue(find_addresses(tmp_path), "x", ["user"])
    claims = jwt.decode(token, options={"verify_signature": False})
    assert orrery("token", "revoke", token, "--reason", "lost").code == 0
    assert services.asked("token/revoke") == [
        {"token_id": claims["jti"], "expires_at": claims["exp"], "reason": "lost"}
    ]
    other = jwt.encode({"iss": "https://iam.example", "jti": "7"}, "k" * 32)
    assert orrery("token", "revoke", "-", stdin=f"{other}\n").code == 0
    assert services.asked("token/revoke")[-1] == {"token_id": "https://iam.example#7", "reason": ""}
    assert orrery("token", "revoke", "--subject", "pilot-1").out == "revoked: all that pilot-1 got so far\n"
    assert services.asked("token/revoke")[-1] == {"subject": "pilot-1", "reason": ""}
    for wrong in ((), ("x",), ("--id", "1", "--subject", "a")):
        assert orrery("token", "revoke", *wrong).code == WrongUsage.exit_code


def test_a_new_key_signs_and_an_older_token_is_good_until_the_older_keys_are_dropped(record, orrery, tmp_path):
    key, public = tmp_path / "key.pem", tmp_path / "public.pem"
    old = Authority.from_file(key).issue("x", ["user"])
    outcome = orrery("token", "rotate-key", str(key), "--public", str(public))
    assert outcome.out == f"{key}: a new key signs; tokens of the older ones go on until they expire\n"
    assert Authority.from_file(public).verify(old).name == "x"
    assert orrery("token", "rotate-key", str(key), "--drop-older").out.startswith(f"{key}: 1 older keys dropped")
    with pytest.raises(NotAuthenticated):
        Authority.from_file(key).verify(old)
    assert orrery("token", "rotate-key", str(public)).code == WrongUsage.exit_code


def test_a_key_that_cannot_be_read_is_a_configuration_error(record, tmp_path, monkeypatch):
    (tmp_path / "key.pem").write_text("not a key")
    with pytest.raises(WrongUsage, match="key"):
        token_for(find_addresses(tmp_path))


def test_a_misspelt_variable_is_told_on_standard_error_and_the_command_runs(services, orrery, monkeypatch):
    monkeypatch.setenv("ORRERY_TOKN", "x")
    services.says("task/list", [])
    outcome = orrery("tasks", "--json")
    assert outcome.code == 0 and outcome.out.strip() == "[]"
    assert outcome.err == "warning: ORRERY_TOKN is not a setting and is ignored; did you mean ORRERY_TOKEN?\n"


def test_pilots_of_a_queue_that_does_not_exist_are_refused_with_names_like_it(services, orrery):
    services.says("grid/queues", [{"queue": "CERN_PROD", "status": "online", "data": {}}])
    outcome = orrery("pilots", "--queue", "CERN_PRD", "--queue", "MARS=2", "--count", "3")
    assert outcome.code == 1
    assert "there is no queue CERN_PRD; did you mean CERN_PROD?" in outcome.err
    assert "there is no queue MARS" in outcome.err

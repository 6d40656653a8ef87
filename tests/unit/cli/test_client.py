import httpx
import pytest

from services.cli.addresses import Addresses
from services.cli.client import Client, problems_in
from services.cli.failures import Refused, Unreachable


def client(answer, urls=("http://one",)):
    return Client(Addresses({"watchdog": urls}), token="t", transport=httpx.MockTransport(answer))


def test_the_data_of_an_envelope_is_returned_and_the_token_is_sent():
    seen = []

    def answer(request):
        seen.append(request)
        return httpx.Response(200, json={"success": True, "message": "", "data": [1]})

    assert client(answer).get("watchdog", "check", limit=3, nothing=None) == [1]
    assert seen[0].headers["authorization"] == "Bearer t"
    assert str(seen[0].url) == "http://one/api/v1/check?limit=3"


def test_a_refusal_in_an_envelope_carries_every_problem():
    problems = [
        {"field": "nEvents", "value": -1, "allowed": "1 or more"},
        {"field": "taskName", "message": "is missing"},
    ]
    body = {"success": False, "message": "2 problems", "data": 5, "problems": problems}
    with pytest.raises(Refused) as caught:
        client(lambda _: httpx.Response(200, json=body)).post("watchdog", "x")
    assert [str(one) for one in caught.value.problems] == ["nEvents: value -1: 1 or more", "taskName: is missing"]
    assert caught.value.exit_code == 1


def test_a_problem_of_a_file_names_the_file_and_its_key():
    one = {
        "file": "queues",
        "key": "Q",
        "field": "status",
        "reason": "no",
        "value": "",
        "allowed": "no",
        "message": "m",
    }
    assert [str(found) for found in problems_in({"problems": [one]})] == ["queues: Q: status: no"]


@pytest.mark.parametrize(("status", "words"), [(401, "not authenticated"), (403, "not allowed"), (404, "refused")])
def test_client_errors_are_refusals(status, words):
    with pytest.raises(Refused, match=words):
        client(lambda _: httpx.Response(status, json={"success": False, "message": "no", "data": None})).get(
            "watchdog", "check"
        )


def test_a_server_error_means_that_the_service_cannot_be_used():
    with pytest.raises(Unreachable, match="503"):
        client(lambda _: httpx.Response(503, text="starting")).get("watchdog", "check")


def test_the_next_copy_is_asked_when_one_does_not_answer():
    def answer(request):
        if request.url.host == "one":
            raise httpx.ConnectError("refused")
        return httpx.Response(200, json={"success": True, "message": "", "data": "two"})

    assert client(answer, ("http://one", "http://two")).get("watchdog", "check") == "two"


def test_no_copy_answering_is_unreachable():
    def answer(request):
        raise httpx.ConnectError("refused")

    with pytest.raises(Unreachable, match="watchdog"):
        client(answer, ("http://one", "http://two")).get("watchdog", "check")


def test_a_request_that_may_have_been_received_is_not_sent_to_another_copy():
    asked = []

    def answer(request):
        asked.append(request.url.host)
        raise httpx.ReadTimeout("slow")

    with pytest.raises(Unreachable, match="no answer"):
        client(answer, ("http://one", "http://two")).post("watchdog", "bus/replay", {})
    assert asked == ["one"]

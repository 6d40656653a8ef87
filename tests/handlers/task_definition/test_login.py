"""Where members of a VO get a token is told to anybody, in the fields that PanDA's client reads."""

from __future__ import annotations

import httpx
import pytest

from services.task_definition.desk.api.login import login_document
from shared.auth import Authority
from shared.auth.configuration import IdentityFile, IssuerSection, LoginSection
from shared.runtime.service import Service
from tests.applications import application_of


def issuer(host: str, **login: object) -> IssuerSection:
    section = LoginSection.model_validate({"client_id": "orrery-cli", **login})
    return IssuerSection(issuer=f"https://{host}/", audience=("orrery-cli",), prefix=f"{host}:", login=section)


def test_a_vo_is_told_its_own_issuer_and_others_the_one_for_everybody() -> None:
    identity = IdentityFile(
        issuers=(issuer("iam.example.org"), issuer("cms.example.org", vos=["cms"], client_secret="s", audience="a"))
    )
    assert login_document(identity, "cms") == {
        "oidc_config_url": "https://cms.example.org/.well-known/openid-configuration",
        "client_id": "orrery-cli", "client_secret": "s", "audience": "a", "vo": "cms",
    }  # fmt: skip
    other = login_document(identity, "atlas")
    assert other is not None and other["oidc_config_url"].startswith("https://iam.example.org/")
    assert login_document(IdentityFile(issuers=(issuer("x.org", vos=["cms"]),)), "atlas") is None


def test_a_login_whose_tokens_would_be_refused_stops_the_start() -> None:
    with pytest.raises(ValueError, match=r"login.client_id: value 'cli' is not in audience.*allowed: orrery"):
        IssuerSection(issuer="https://x.org", audience=("orrery",), login=LoginSection(client_id="cli"))


async def test_without_an_issuer_the_answer_names_what_is_missing(service: Service, authority: Authority) -> None:
    client = httpx.AsyncClient(transport=httpx.ASGITransport(application_of(service, authority)), base_url="http://x")
    answer = await client.get("/auth/atlas_auth_config.json")
    assert answer.status_code == 404 and "ORRERY_IDENTITY_FILE names no issuer" in answer.json()["message"]

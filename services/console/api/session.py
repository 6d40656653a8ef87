"""Signing in at an issuer, by a link of the command line or with a token, and signing out."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from services.console.api.visits import Console, fields_of
from services.console.asking import Away, Refused, SignedOut
from services.console.identifying import BACK, SIGN_IN_S, Given, Issuer
from services.console.policy.sessions import HOME, Kept, Session, path_after
from services.console.showing.pages import Page
from services.console.showing.rendering import HEADERS
from services.console.signing import ForgedForm
from shared.web.envelope import Envelope


class SessionRoutes:
    """Asked by whoever is not signed in yet."""

    def __init__(self, console: Console, issuer: Issuer | None) -> None:
        self._console, self._issuer = console, issuer

    def routes(self) -> list[Route]:
        return [
            Route(f"{HOME}sign-in", self.sign_in, methods=["GET"]),
            Route(f"{HOME}sign-in", self.begin, methods=["POST"]),
            Route(f"{HOME}sign-in/issuer", self.ask_issuer, methods=["GET"]),
            Route(BACK, self.come_back, methods=["GET"]),
            Route(f"{HOME}sign-in/links", self.make_link, methods=["POST"]),
            Route(f"{HOME}sign-in/link/{{word}}", self.follow_link, methods=["GET"]),
            Route(f"{HOME}sign-out", self.end, methods=["POST"]),
        ]

    async def sign_in(self, request: Request) -> Response:
        """Show how to sign in, and where one goes on."""
        return self._form(request, {"next": path_after(request.query_params.get("next"))})

    async def follow_link(self, request: Request) -> Response:
        """Ask whoever opened a link whether they are the one whom it signs in."""
        word = request.path_params["word"]
        session = await self._console.signing.opened_link(word, use=False)
        if session is None:
            return self._form(request, {"problem": "This link is too old or was used before: make another one."}, 403)
        after = path_after(request.query_params.get("next"))
        return self._form(request, {"link": word, "person": session, "next": after})

    async def ask_issuer(self, request: Request) -> Response:
        """Send a browser to the issuer; `next`: where it goes on when it is back."""
        after = path_after(request.query_params.get("next"))
        if self._issuer is None:
            return self._form(request, {"problem": "No issuer is set up for this console.", "next": after}, 404)
        try:
            asked = await self._issuer.ask(after)
        except (Away, Refused) as error:
            return self._form(request, {"problem": str(error), "next": after}, 503)
        response = RedirectResponse(asked.address, 303, {**HEADERS, "Referrer-Policy": "no-referrer"})
        self._console.signing.remember_asked(request, response, asked.question, asked.word, SIGN_IN_S)
        return response

    async def come_back(self, request: Request) -> Response:
        """Sign in who comes back from the issuer with a code, which is taken there once."""
        signing, issuer = self._console.signing, self._issuer
        state = request.query_params.get("state", "")
        word = signing.asked_of(request, state)
        after = path_after(issuer.path_after(word) if issuer else None)
        try:
            if issuer is None:
                raise Refused("No issuer is set up for this console.")
            given = await issuer.given(word, request.query_params)
            session = await signing.session_for(self._console.api(request, given.id_token), given.id_token)
        except (Refused, Away, SignedOut) as error:
            what = f"The token of the issuer is not believed: {error}" if isinstance(error, SignedOut) else str(error)
            response = self._form(request, {"problem": what, "next": after}, 403)
        else:
            response = await self._begun(request, session, after, given)
        signing.forget_asked(response, state)
        return response

    async def begin(self, request: Request) -> Response:
        """Sign somebody in who brings a token or a link."""
        signing, fields = self._console.signing, dict[str, str]()
        try:
            fields = await fields_of(request)
            signing.check_form(request, fields, signing.visitor_of(request))
            session = await self._session(request, fields)
        except (ForgedForm, Refused, Away, SignedOut) as error:
            what = f"The token is not believed: {error}" if isinstance(error, SignedOut) else str(error)
            return self._form(request, {"problem": what, "next": path_after(fields.get("next"))}, 403)
        return await self._begun(request, session, path_after(fields.get("next")))

    async def _begun(self, request: Request, session: Session, after: str, given: Given | None = None) -> Response:
        """Give a browser a new session; nothing renews any more the one that it had."""
        signing, renewing = self._console.signing, self._console.renewing
        if kept := await signing.renewal_of(request):
            await signing.end(kept.session_id)
        response = RedirectResponse(after, 303, HEADERS)
        signing.begin(response, session)
        if renewing is not None and given is not None:
            renewing.begin(response, session, given)
        else:
            signing.forget_renewal(response)
        return response

    async def _session(self, request: Request, fields: Mapping[str, str]) -> Session:
        signing = self._console.signing
        if link := fields.get("link"):
            session = await signing.opened_link(link, use=True)
            if session is None:
                raise Refused("This link is too old or was used before: make another one.")
            return session
        token = fields.get("token", "").strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise Refused("A token is one word of letters and digits; `orrery token` prints one.")
        return await signing.session_for(self._console.api(request, token), token)

    async def make_link(self, request: Request) -> Response:
        """Make the link for the command line, which shows its token: the path that signs a browser in."""
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        signing = self._console.signing
        try:
            if scheme.lower() != "bearer" or not token:
                raise SignedOut("a header 'Authorization: Bearer TOKEN' is needed")
            session = await signing.session_for(self._console.api(request, token), token)
        except SignedOut as error:
            return Envelope(None, str(error), success=False, status_code=401, headers={"WWW-Authenticate": "Bearer"})
        except Away as error:
            return Envelope(None, str(error), success=False, status_code=503)
        except Refused as error:
            return Envelope(None, str(error), success=False, status_code=400)
        path = f"{HOME}sign-in/link/{signing.link_word(session)}"
        return Envelope({"path": path, "address": signing.public_url, "name": session.name})

    async def end(self, request: Request) -> Response:
        """Sign out at this browser, and with every copy of its cookies; a token that was pasted lives on.

        That of a session which is over, but could be renewed, is ended as well. Who signed in at an issuer where one
        can sign out is led there, too: by a page, as the browser sends the answer of a form nowhere else (content
        security policy).
        """
        signing = self._console.signing
        session, kept = await signing.session_of(request), await signing.renewal_of(request)
        if (one := session or kept) is None:  # nothing to end: a form of another site brings no cookies
            return RedirectResponse(f"{HOME}sign-in", 303, HEADERS)
        try:
            signing.check_form(request, await fields_of(request), one.session_id)
        except (ForgedForm, Refused) as error:
            return self._form(request, {"problem": str(error)}, 403)
        for ended in {one.session_id, kept.session_id if kept else one.session_id}:
            await signing.end(ended)
        response = await self._left(request, session, kept)
        signing.forget(response)
        return response

    async def _left(self, request: Request, session: Session | None, kept: Kept | None) -> Response:
        """Answer who signed out; the issuer forgets the refresh token."""
        issuer = self._issuer
        if issuer is None:
            return RedirectResponse(f"{HOME}sign-in", 303, HEADERS)
        if kept is not None:
            await issuer.revoke(kept.refresh_token)
        subject = issuer.subject_of(session.token) if session else kept.subject if kept else ""
        leaving = await issuer.leaving(subject) if subject else ""
        if not leaving:
            return RedirectResponse(f"{HOME}sign-in", 303, HEADERS)
        data = {"leaving": leaving, "issuer": issuer.name}
        response = self._console.shown(request, Page("sign_out.html", "Signed out", data=data), None)
        response.headers["Referrer-Policy"] = "no-referrer"
        return response

    def _form(self, request: Request, shown: Mapping[str, object], status: int = 200) -> Response:
        signing = self._console.signing
        visitor = signing.visitor_of(request)
        issuer = self._issuer.name if self._issuer else ""
        filled = {"problem": "", "link": "", "person": None, "next": HOME, "issuer": issuer, **shown}
        page = Page("sign_in.html", "Sign in", status=status, shown={**filled, "word": signing.form_word(visitor)})
        response = self._console.shown(request, page, None)
        response.headers["Referrer-Policy"] = "no-referrer"  # the address may be a link that signs in
        signing.remember_visitor(response, visitor)
        return response

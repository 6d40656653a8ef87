"""Clients of one Rucio server: logged in, each used by one thread, every call with a limit of time."""

from __future__ import annotations

import asyncio
import logging
import tempfile
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import requests
from rucio.client.client import Client
from rucio.common.exception import CannotAuthenticate, RucioException, ServerConnectionException

from shared.catalogue.outside import SLICE, CatalogueLies, CatalogueTrouble
from shared.catalogue.rucio.settings import Login, RucioSettings

log = logging.getLogger(__name__)
T = TypeVar("T")
#: what Rucio says about itself is longer than anybody reads
TOLD_CHARACTERS = 300
#: a call that is cut into slices, or repeated by the library, may take so many times its limit
LIBRARY_TRIES = 4


class _LoggedIn(Client):
    """A client whose token is in a private folder, or in a file that somebody else renews."""

    auth_token: str

    def __init__(self, settings: RucioSettings, folder: Path) -> None:
        self._own_token = folder / "token"
        self._given_token = settings.login.token_file
        super().__init__(
            rucio_host=settings.host,
            auth_host=settings.auth_host or settings.host,
            account=settings.account,
            ca_cert=None if settings.ca_file is None else str(settings.ca_file),
            auth_type=_library_kind(settings.login),
            creds=_credentials(settings.login),
            timeout=int(settings.timeout_s),
            user_agent="orrery",
            vo=settings.rucio_vo,
            logger=logging.getLogger("rucio"),
        )

    def _get_auth_tokens(self) -> tuple[str | None, str, str, str]:
        file = self._given_token or self._own_token
        return None, f"{self._own_token}.expires", str(file), str(self._own_token.parent)

    def _BaseClient__read_token(self) -> bool:
        """A token of a file may end with its line; the library takes the whole line."""
        if self._given_token is None:
            return bool(super()._BaseClient__read_token())
        self._use(read_secret(self._given_token))
        return True

    def _use(self, token: str) -> None:
        self.auth_token = token
        self.headers["X-Rucio-Auth-Token"] = token

    def _BaseClient__get_token(self) -> None:
        """Log in; with a token of a file: read it again, as somebody may have renewed it."""
        if self._given_token is None:
            super()._BaseClient__get_token()
            return
        token = read_secret(self._given_token)
        if token == self.auth_token:
            raise CannotAuthenticate(f"the token in {self._given_token} is not accepted")
        self._use(token)


def read_secret(file: Path) -> str:
    """The first line of a file. Raises CatalogueTrouble if it cannot be read."""
    try:
        return file.read_text().strip().partition("\n")[0]
    except OSError as error:
        raise CatalogueTrouble(f"{file} cannot be read: {error.strerror}") from None


def _library_kind(login: Login) -> str:
    # A given token needs no log-in of the library's: its interactive one must never be reached.
    return "userpass" if login.kind == "token" else login.kind


def _credentials(login: Login) -> dict[str, str]:
    if login.kind == "x509":
        return {"client_cert": str(login.certificate_file), "client_key": str(login.key_file)}
    if login.kind == "x509_proxy":
        return {"client_proxy": str(login.certificate_file)}
    if login.kind == "token" or login.password_file is None:
        return {"username": "", "password": ""}
    return {"username": login.user_name or "", "password": read_secret(login.password_file)}


class Session:
    """Runs calls of the library; what goes wrong is a CatalogueTrouble with one line of text."""

    def __init__(self, settings: RucioSettings) -> None:
        self._settings = settings
        self._threads = ThreadPoolExecutor(settings.threads, thread_name_prefix=f"rucio-{settings.account}")
        self._clients = threading.local()
        self._folder = tempfile.TemporaryDirectory(prefix="orrery-rucio-")

    @property
    def account(self) -> str:
        return self._settings.account

    async def call(self, work: Callable[[Any], T]) -> T:
        """The result of `work(client)`, made in a thread. Raises CatalogueTrouble; RucioException passes."""
        limit_s = self._settings.timeout_s * LIBRARY_TRIES
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(limit_s):
                return await loop.run_in_executor(self._threads, self._in_thread, work)
        except TimeoutError:
            raise CatalogueTrouble(f"{self._settings.host} did not answer within {limit_s:g} s") from None

    async def slices(self, work: Callable[[Any], Iterator[T]]) -> AsyncIterator[list[T]]:
        """What `work(client)` iterates over, in lists of at most `SLICE`."""
        rows = iter(await self.call(work))
        while some := await self.call(lambda _: list(islice(rows, SLICE))):
            yield some

    def _in_thread(self, work: Callable[[Any], T]) -> T:
        try:
            client = getattr(self._clients, "client", None)
            if client is None:
                client = self._clients.client = _LoggedIn(self._settings, Path(self._folder.name))
            return work(client)
        except RucioException as error:
            if isinstance(error, CannotAuthenticate):
                self._clients.client = None
                raise CatalogueTrouble(f"{self._settings.host} does not let {self.account} in: {told(error)}") from None
            if isinstance(error, ServerConnectionException):
                raise CatalogueTrouble(f"{self._settings.host} cannot be reached") from None
            raise
        except requests.Timeout:
            text = f"{self._settings.host} did not answer within {self._settings.timeout_s:g} s"
            raise CatalogueTrouble(text) from None
        except requests.RequestException as error:
            raise CatalogueTrouble(f"{self._settings.host} cannot be reached: {type(error).__name__}") from None
        except (ValueError, KeyError, TypeError) as error:
            log.warning("an answer of %s cannot be read", self._settings.host, exc_info=True)
            raise CatalogueLies(f"{self._settings.host} answered what cannot be read: {told(error)}") from None

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._folder.cleanup()


def told(error: Exception) -> str:
    """One line of an exception's text."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= TOLD_CHARACTERS else text[: TOLD_CHARACTERS - 3] + "..."

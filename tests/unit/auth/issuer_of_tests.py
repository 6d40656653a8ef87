"""A small OpenID Connect issuer: an HTTP server with discovery and keys, which signs tokens."""

from __future__ import annotations

import json
import time
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm

PrivateKey = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey


def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def jwk_of(key: PrivateKey, key_id: str) -> dict[str, Any]:
    kinds = {rsa.RSAPrivateKey: RSAAlgorithm, ec.EllipticCurvePrivateKey: ECAlgorithm}
    algorithm = next((one for kind, one in kinds.items() if isinstance(key, kind)), OKPAlgorithm)
    return {**json.loads(algorithm.to_jwk(key.public_key())), "kid": key_id, "use": "sig"}


class Issuer:
    """`async with Issuer() as issuer`; `keys` may be changed at any time, `asked` counts who read them."""

    def __init__(self) -> None:
        self.keys: dict[str, PrivateKey] = {"rsa-1": rsa_key()}
        self.more: list[dict[str, Any]] = []
        self.asked = 0
        self.is_away = False
        self.url = ""

    async def __aenter__(self) -> Issuer:
        app = web.Application()
        app.router.add_get("/.well-known/openid-configuration", self._discovery)
        app.router.add_get("/jwks", self._jwks)
        self._runner = web.AppRunner(app)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    async def _discovery(self, request: web.Request) -> web.Response:
        if self.is_away:
            return web.Response(status=503)
        return web.json_response({"issuer": self.url, "jwks_uri": f"{self.url}/jwks"})

    async def _jwks(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.json_response({"keys": [*self.more, *(jwk_of(key, name) for name, key in self.keys.items())]})

    def token(self, key_id: str = "rsa-1", *, algorithm: str = "RS256", key: Any = None, **claims: Any) -> str:
        """With these claims instead of the usual ones; times are seconds from now, None leaves a claim out."""
        now = int(time.time())
        claims |= {name: now + claims[name] for name in ("exp", "nbf") if claims.get(name) is not None}
        person = {"sub": "3f-1", "preferred_username": "ada", "name": "Ada Byron"}
        usual = {"iss": self.url, "aud": "orrery", "iat": now, "exp": now + 600, **person}
        given = {name: one for name, one in {**usual, **claims}.items() if one is not None}
        return jwt.encode(given, key or self.keys[key_id], algorithm=algorithm, headers={"kid": key_id})

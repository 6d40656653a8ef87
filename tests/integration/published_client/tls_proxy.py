"""A TLS proxy as sites have it: it asks for a client certificate, and tells the server behind it whose it is."""

from __future__ import annotations

import datetime
import ssl
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

_SHORT = {"organizationName": "O", "commonName": "CN"}


def write_certificate(path: Path, name: str) -> Path:
    """A certificate of its own authority with its key, as grid proxies have it; for this machine too."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, "test"), x509.NameAttribute(NameOID.COMMON_NAME, name)]
    )
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=12))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM
    secret = key.private_bytes(form, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(certificate.public_bytes(form) + secret)
    return path


@contextmanager
def tls_proxy(directory: Path, behind: str, holder: Path) -> Iterator[str]:
    """Its address; it accepts the certificate of one holder."""
    own = write_certificate(directory / "proxy.pem", "127.0.0.1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    context.load_verify_locations(holder)
    context.verify_mode = ssl.CERT_REQUIRED

    class Passes(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            told = {name: value for name, value in self.headers.items() if not name.lower().startswith("x-ssl-")}
            told |= {"X-SSL-Client-Verify": "SUCCESS", "X-SSL-Client-S-DN": self._subject()}
            told["X-SSL-Client-FQAN"] = "/atlas/Role=NULL/Capability=NULL"
            data = body if self.command == "POST" else None
            asked = urllib.request.Request(f"{behind}{self.path}", data, told, method=self.command)
            try:
                with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked, timeout=60) as answer:
                    self._answer(answer.status, answer.read())
            except urllib.error.HTTPError as error:
                self._answer(error.code, error.read())

        do_GET = do_POST

        def _subject(self) -> str:
            parts = self.connection.getpeercert()["subject"]  # type: ignore[attr-defined]
            return "".join(f"/{_SHORT[kind]}={value}" for ((kind, value),) in parts)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: object) -> None:
            """Nothing is printed."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Passes)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(10)

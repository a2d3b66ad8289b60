"""An issuer of tokens, as an identity provider is one: its keys, and a web server with them.

with Issuer() as issuer:
    issuer.keys_url, issuer.token_url
    issuer.token("alice")
"""

import json
import threading
import time
from base64 import b64decode
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qs

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

NAME: Final = "https://issuer.example"
AUDIENCE: Final = "tidelog"


class Issuer:
    """Its keys are `first` (RSA) and `second` (EC, P-256). What it serves may be changed."""

    keys: Final = {
        "first": rsa.generate_private_key(65537, 2048),
        "second": ec.generate_private_key(ec.SECP256R1()),
    }
    """Of all issuers: to make one takes long."""

    def __init__(self) -> None:
        # Which of the keys are published.
        self.published = ["first", "second"]
        # What the web server answers with instead, if anything.
        self.status = 200
        # The clients of the token endpoint and their secrets.
        self.clients = {"node": "node-s3cret", "alice": "alice-s3cret"}
        # How long its tokens last.
        self.lasts_s = 3600.0
        # Requests so far, by path.
        self.asked: list[str] = []

    def document(self) -> bytes:
        """The JWKS."""
        rows = []
        for name in self.published:
            public = self.keys[name].public_key()
            algorithm = RSAAlgorithm if name == "first" else ECAlgorithm
            row = algorithm.to_jwk(public, as_dict=True)  # type: ignore[arg-type]
            rows.append({**row, "kid": name, "use": "sig"})
        return json.dumps({"keys": rows}).encode()

    def token(self, name: str, key: str = "first", **changes: Any) -> str:
        """A token; a change of `None` takes a claim out."""
        now = time.time()
        claims = {
            "sub": name,
            "iss": NAME,
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + self.lasts_s,
            **changes,
        }
        kept = {claim: value for claim, value in claims.items() if value is not None}
        algorithm = "RS256" if key == "first" else "ES256"
        return jwt.encode(kept, self.keys[key], algorithm, {"kid": key})  # type: ignore[arg-type]

    # The web server --------------------------------------------------------------------------

    def __enter__(self) -> Self:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked.append(self.path)
                self._answer(issuer.document())

            def do_POST(self) -> None:
                issuer.asked.append(self.path)
                form = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
                assert form["grant_type"] == ["client_credentials"]
                shown = self.headers["Authorization"].removeprefix("Basic ")
                name, _, secret = b64decode(shown).decode().partition(":")
                if issuer.clients.get(name) != secret:
                    self.send_error(401)
                    return
                answer = {"access_token": issuer.token(name), "expires_in": int(issuer.lasts_s)}
                self._answer(json.dumps(answer).encode())

            def _answer(self, content: bytes) -> None:
                self.send_response(issuer.status)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self.keys_url, self.token_url = f"{url}/keys", f"{url}/token"
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

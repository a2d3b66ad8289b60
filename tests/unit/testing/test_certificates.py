"""Goal: an authority outlives the process that made it, and its files are secret."""

import ssl
from pathlib import Path

from tidelog.testing.certificates import Authority


def test_an_authority_is_kept_and_goes_on_signing(tmp_path: Path) -> None:
    path = tmp_path / "ca.key.pem"
    made, again = Authority.kept_in(path), Authority.kept_in(path)
    assert made.pem == again.pem
    assert path.stat().st_mode & 0o777 == 0o600
    own = tmp_path / "own.pem"
    own.write_text(again.issue("node-1", ["localhost", "::1"]))
    context = ssl.create_default_context(cadata=made.pem)
    context.load_cert_chain(own)
    assert len(context.get_ca_certs()) == 1

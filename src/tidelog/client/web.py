"""Documents of an issuer of tokens: from its web server, or from a file.

Every URL here stands in the configuration of the node or of the client. A fetch takes no more than
`limits.WEB_DEADLINE_MS` and `limits.MAX_WEB_ANSWER_BYTES`. It follows no redirection and uses no
proxy: the server that answers must be the one that was asked. A reason never has the URL's query,
the answer, or what was sent, since all of them may have secrets.
"""

import ssl
import time
from collections.abc import Mapping
from email.message import Message
from typing import IO, Final
from urllib.error import HTTPError
from urllib.parse import unquote, urlencode, urlsplit
from urllib.request import (
    HTTPHandler,
    HTTPRedirectHandler,
    HTTPSHandler,
    OpenerDirector,
    ProxyHandler,
    Request,
    build_opener,
)

from tidelog.errors import UsageError
from tidelog.limits import MAX_WEB_ANSWER_BYTES, WEB_DEADLINE_MS
from tidelog.tls.stores import read_file

_CHUNK_BYTES: Final = 64 << 10


class FetchFailed(Exception):
    """What was wanted is not to be had now; the text is why."""


class _NoRedirections(HTTPRedirectHandler):
    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Leaves a redirection an error."""


def is_file(url: str) -> bool:
    """Whether a URL names a file."""
    return url.lower().startswith("file:")


def fetch_file(setting: str, url: str, *, is_secret: bool) -> bytes:
    """The content of a file. Raises `FetchFailed`."""
    path = unquote(urlsplit(url).path)
    try:
        return read_file(setting, path, is_secret=is_secret, max_bytes=MAX_WEB_ANSWER_BYTES)
    except UsageError as error:
        raise FetchFailed(f"{error.message}; {error.hint}") from None


def fetch_web(
    url: str,
    context: ssl.SSLContext | None = None,
    form: Mapping[str, str] | None = None,
    headers: Mapping[str, str] | None = None,
) -> bytes:
    """The answer of a web server to a GET, or to the POST of a form. Raises `FetchFailed`."""
    deadline = time.monotonic() + WEB_DEADLINE_MS / 1000
    data = None if form is None else urlencode(form).encode()
    try:
        request = Request(url, data, {"Accept": "application/json", **(headers or {})})
        with _opener(context).open(request, timeout=WEB_DEADLINE_MS / 1000) as answer:
            found = b""
            while chunk := answer.read1(_CHUNK_BYTES):
                found += chunk
                if len(found) > MAX_WEB_ANSWER_BYTES:
                    raise FetchFailed(f"the answer has more than {MAX_WEB_ANSWER_BYTES} bytes")
                if time.monotonic() > deadline:
                    raise FetchFailed("the answer did not come in time")
    except HTTPError as error:
        error.close()
        raise FetchFailed(f"the server answers with status {error.code}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise FetchFailed(f"the server cannot be asked: {str(reason)[:200]}") from None
    return found


def _opener(context: ssl.SSLContext | None) -> OpenerDirector:
    return build_opener(
        ProxyHandler({}), _NoRedirections, HTTPHandler, HTTPSHandler(context=context)
    )

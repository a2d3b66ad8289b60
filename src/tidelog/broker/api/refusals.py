"""How a refusal of a whole controller request is told, whatever the API."""

from tidelog.controller.messages import Refused, Response
from tidelog.errors import ErrorCode


def refusal(response: Response) -> tuple[ErrorCode, str]:
    """Code and message of a response that is not the result the handler knows."""
    assert isinstance(response, Refused), f"unexpected answer of the controller: {response!r}"
    return response.error_code, response.message


def code_of(response: Response) -> ErrorCode:
    """The top-level code: NONE for a result, else that of the refusal."""
    return response.error_code if isinstance(response, Refused) else ErrorCode.NONE

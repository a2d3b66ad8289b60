"""The old name of `tidelog.client`, for one release."""

from tidelog.client import AdminClient, AdminError, Unreachable

__all__ = ["AdminClient", "AdminError", "Unreachable"]

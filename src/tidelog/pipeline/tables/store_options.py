"""Options of object stores: the names that delta-rs knows, and settings that would lose commits.

delta-rs ignores a name that it does not know, so a misspelt one is refused here. Names are those of
Rust's object_store; case does not matter, as in the environment, which has the same names.

A table's log is safe between two writers by conditional puts (`addresses.py`). For S3 that is said
in each address; delta-rs has no lock in DynamoDB any more.
"""

import os
from collections.abc import Mapping
from typing import Final

from tidelog.errors import UsageError

OPTION: Final = "--table-option"
_CONNECTION: Final = (
    *("allow_http", "allow_invalid_certificates", "connect_timeout", "timeout"),
    *("proxy_url", "proxy_ca_certificate", "max_retries", "retry_timeout"),
)
_S3: Final = (
    *("aws_access_key_id", "aws_secret_access_key", "aws_session_token", "aws_region"),
    *("aws_default_region", "aws_endpoint_url", "aws_endpoint_url_s3", "aws_allow_http"),
    *("aws_virtual_hosted_style_request", "aws_conditional_put", "aws_skip_signature"),
    *("aws_role_arn", "aws_role_session_name", "aws_web_identity_token_file"),
    *("aws_endpoint_url_sts", "aws_imdsv1_fallback", "aws_metadata_endpoint"),
    *("aws_container_credentials_relative_uri", "aws_container_credentials_full_uri"),
    *("aws_container_authorization_token_file", "aws_server_side_encryption"),
    *("aws_sse_kms_key_id", "aws_sse_bucket_key_enabled", "aws_sse_customer_key_base64"),
    *("aws_checksum_algorithm", "aws_unsigned_payload", "aws_disable_tagging"),
    *("aws_request_payer", "aws_s3_express"),
)
_GOOGLE: Final = (
    *("google_service_account", "google_service_account_key", "google_application_credentials"),
    *("google_base_url", "google_skip_signature"),
)
_AZURE: Final = (
    *("azure_storage_account_name", "azure_storage_account_key", "azure_storage_sas_key"),
    *("azure_storage_client_id", "azure_storage_client_secret", "azure_storage_tenant_id"),
    *("azure_storage_authority_host", "azure_storage_token", "azure_storage_endpoint"),
    *("azure_msi_endpoint", "azure_object_id", "azure_msi_resource_id"),
    *("azure_federated_token_file", "azure_use_fabric_endpoint", "azure_use_azure_cli"),
    *("azure_storage_use_emulator", "azure_skip_signature", "azure_disable_tagging"),
)
SCHEMES: Final = {
    **dict.fromkeys(("s3", "s3a"), _S3),
    "gs": _GOOGLE,
    **dict.fromkeys(("abfss", "abfs", "az"), _AZURE),
}
"""The schemes of object stores, with the names of their own options."""
_ONE_WRITER: Final = "a version of the table would not be given to one writer only"
_UNSAFE: Final = {
    "aws_s3_allow_unsafe_rename": ("true", "1"),
    "allow_unsafe_rename": ("true", "1"),
    "aws_s3_locking_provider": ("dynamodb",),
}
"""Names, also in the environment, and the values with which they turn the safety off, or another
one on that delta-rs has no more."""
_CONDITIONAL_PUT: Final = "aws_conditional_put"
_SAFE_PUT: Final = "etag"


def checked_options(scheme: str, options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The options of an address of the scheme, names in lower case. Raises `UsageError` for unknown
    and for unsafe ones; then also where the environment has them."""
    given: dict[str, str] = {}
    for name, value in options.items():
        if given.setdefault(name.lower(), value) != value:
            raise UsageError(f"`{OPTION} {name}` is given twice", "give it once")
    if SCHEMES[scheme] is _S3:
        _check_safe(given, OPTION)
        _check_safe({name.lower(): text for name, text in os.environ.items()}, "the environment's")
        given[_CONDITIONAL_PUT] = _SAFE_PUT
    known = (*SCHEMES[scheme], *_CONNECTION)
    for name in given:
        if name not in known:
            raise UsageError(
                f"`{OPTION} {name}` is not known for `{scheme}:`", f"give one of {', '.join(known)}"
            )
    return tuple(sorted(given.items()))


def _check_safe(given: Mapping[str, str], where: str) -> None:
    for name, values in _UNSAFE.items():
        if given.get(name, "").lower() in values:
            raise UsageError(
                f"{where} `{name}={given[name]}` is not safe: {_ONE_WRITER}",
                "leave it out: the table's commits are conditional puts; all writers of the table "
                "must make theirs so",
            )
    put = given.get(_CONDITIONAL_PUT, _SAFE_PUT)
    if put.strip().lower() != _SAFE_PUT:
        raise UsageError(
            f"{where} `{_CONDITIONAL_PUT}={put}` is not safe: {_ONE_WRITER}",
            f"leave it out, or say `{_SAFE_PUT}`; a store without conditional puts has no tables",
        )

"""Records that the image keeps as they are: ACLs, credentials, delegation tokens, quotas.

A part of `MetadataDelta`. Nothing here reads these records; one is kept under its
identity until one with the same identity replaces or removes it.

Source: KIP-48, KIP-801, KIP-900, KIP-546; Kafka's deltas of the same names.
"""

from collections.abc import Mapping

from tidelog.metadata.records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    MetadataRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)

KeptRecords = Mapping[tuple[object, ...], MetadataRecord]
"""By identity: the number of the kind, then what names one of that kind."""


class KeptRecordsDelta:
    """What records leave to be kept on top of those that an image keeps."""

    def __init__(self, records: KeptRecords) -> None:
        # Those of the image below; never changed.
        self._below = records
        # An own copy, made by the first change.
        self._own: dict[tuple[object, ...], MetadataRecord] | None = None

    @property
    def records(self) -> KeptRecords:
        """What is kept after what was replayed."""
        return self._below if self._own is None else self._own

    def _keep(self, identity: tuple[object, ...], record: MetadataRecord | None) -> None:
        if self._own is None:
            self._own = dict(self._below)
        if record is None:
            self._own.pop(identity, None)
        else:
            self._own[identity] = record

    def on_access_control_entry(self, record: AccessControlEntryRecord) -> None:
        """An ACL exists."""
        self._keep((AccessControlEntryRecord.__record_id__, record.id), record)

    def on_remove_access_control_entry(self, record: RemoveAccessControlEntryRecord) -> None:
        """An ACL is gone."""
        self._keep((AccessControlEntryRecord.__record_id__, record.id), None)

    def on_scram_credential(self, record: UserScramCredentialRecord) -> None:
        """A SCRAM credential exists."""
        kind = UserScramCredentialRecord.__record_id__
        self._keep((kind, record.name, record.mechanism), record)

    def on_remove_scram_credential(self, record: RemoveUserScramCredentialRecord) -> None:
        """A SCRAM credential is gone."""
        kind = UserScramCredentialRecord.__record_id__
        self._keep((kind, record.name, record.mechanism), None)

    def on_delegation_token(self, record: DelegationTokenRecord) -> None:
        """A delegation token exists."""
        self._keep((DelegationTokenRecord.__record_id__, record.token_id), record)

    def on_remove_delegation_token(self, record: RemoveDelegationTokenRecord) -> None:
        """A delegation token is gone."""
        self._keep((DelegationTokenRecord.__record_id__, record.token_id), None)

    def on_client_quota(self, record: ClientQuotaRecord) -> None:
        """A quota is set or removed."""
        # Kafka compares entities as maps: the order of their parts does not count.
        parts = sorted((part.entity_type, part.entity_name or "") for part in record.entity)
        nameless = sorted(part.entity_type for part in record.entity if part.entity_name is None)
        identity = (ClientQuotaRecord.__record_id__, *parts, *nameless, record.key)
        self._keep(identity, None if record.remove else record)

"""SCRAM's users, as the metadata of the node has them."""

from collections.abc import Sequence

from tidelog.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage
from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.metadata.scram_keys import SCRAM_NUMBERS
from tidelog.model import Mechanism
from tidelog.security.scram import ScramCredential


class Credentials:
    """Follows the metadata: a change counts for the next login."""

    def __init__(self) -> None:
        # The newest image that was published on this node.
        self._image = EMPTY_IMAGE
        # Who may log in before the metadata has its first records, which come as one transaction:
        # controllers elect a leader first.
        self.first_users: Sequence[UserScramCredentialRecord] = ()

    def on_image(self, image: MetadataImage) -> None:
        """There is newer metadata."""
        self._image = image

    def find(self, mechanism: Mechanism, name: str) -> ScramCredential | None:
        """The credential of a user for a mechanism."""
        number = SCRAM_NUMBERS[mechanism]
        if METADATA_VERSION not in self._image.features:
            for user in self.first_users:
                if (user.name, user.mechanism) == (name, number):
                    return _credential(user)
        record = self._image.scram_credential(name, number)
        return None if record is None else _credential(record)


def _credential(record: UserScramCredentialRecord) -> ScramCredential:
    """What a record of the metadata says."""
    return ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations)

"""SCRAM's users and delegation tokens, as the metadata of the node has them."""

from collections.abc import Sequence

from tidelog.metadata.image import EMPTY_IMAGE, METADATA_VERSION, MetadataImage
from tidelog.metadata.records import UserScramCredentialRecord
from tidelog.metadata.scram_keys import SCRAM_NUMBERS
from tidelog.model import Mechanism, Secret
from tidelog.security.delegation import account_of
from tidelog.security.scram import Account, ScramCredential


class Credentials:
    """Follows the metadata: a change counts for the next login. The `Accounts` of a node."""

    def __init__(self, token_secret: Secret) -> None:
        # Makes the passwords of tokens.
        self._token_secret = token_secret
        # The newest image that was published on this node.
        self._image = EMPTY_IMAGE
        # Who may log in before the metadata has its first records, which come as one transaction:
        # controllers elect a leader first.
        self.first_users: Sequence[UserScramCredentialRecord] = ()

    def on_image(self, image: MetadataImage) -> None:
        """There is newer metadata."""
        self._image = image

    def of_user(self, mechanism: Mechanism, name: str) -> Account | None:
        """With a password."""
        number = SCRAM_NUMBERS[mechanism]
        record = None
        if METADATA_VERSION not in self._image.features:
            for user in self.first_users:
                if (user.name, user.mechanism) == (name, number):
                    record = user
        record = record or self._image.scram_credential(name, number)
        if record is None:
            return None
        keys = record.stored_key, record.server_key
        return Account(name, ScramCredential(record.salt, *keys, record.iterations))

    def of_token(self, mechanism: Mechanism, token_id: str) -> Account | None:
        """With a delegation token."""
        return account_of(self._image, self._token_secret, mechanism, token_id)

"""The difference between two metadata images: records replayed on top of an image.

(signatures first; the replayers follow)
"""

from tidelog.metadata.image import ConfigResource, MetadataImage, TopicImage
from tidelog.model import TopicId


class MetadataDelta:
    """Collects records on top of `image`; `apply` yields the next image."""

    def __init__(self, image: MetadataImage) -> None:
        # The image below; never changed.
        self.image = image
        # Topics created or with a changed partition, and still there.
        self.changed_topic_ids: set[TopicId] = set()
        # Topics of `image` that are gone, in the order of their removal.
        self.deleted_topics: list[TopicImage] = []
        # Brokers registered, changed or unregistered.
        self.changed_brokers: set[int] = set()
        # Resources with a config set or removed.
        self.changed_configs: set[ConfigResource] = set()
        # Whether a feature level was written.
        self.features_changed = False

    def replay(self, record: object, offset: int) -> None:
        """Adds one decoded record that stands at `offset`; never fails for a valid log."""
        raise NotImplementedError

    def apply(self, offset: int, epoch: int) -> MetadataImage:
        """The image with everything replayed so far; `offset` is the last one contained."""
        raise NotImplementedError

"""ImageIsFoldOfLog (I18): images at the same offset of the metadata log are equal on all nodes."""

from tidelog.metadata.image import MetadataImage
from tidelog.sim.checkers.base import Evidence, Violation
from tidelog.sim.host import Host


class ImageIsFoldOfLog:
    """Remembers the first image seen at each offset, for as long as the run needs."""

    name = "ImageIsFoldOfLog"

    def __init__(self) -> None:
        self._images: dict[int, MetadataImage] = {}
        # Images that were compared already, by host.
        self._last: dict[int, MetadataImage] = {}

    def on_event(self, evidence: Evidence, host: Host) -> None:
        """Compares a new image with what others had at that offset."""
        assert host.node is not None, f"{host.name} has no process"
        image = host.node.broker.image
        if self._last.get(host.node_id) is image:
            return
        self._last[host.node_id] = image
        known = self._images.setdefault(image.offset, image)
        if known is not image and known != image:
            raise Violation(self.name, f"{host.name} has another image at {image.offset}")

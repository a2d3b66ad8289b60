"""ImageIsFoldOfLog (I18): images at the same offset of the metadata log are equal on all nodes."""

from tidelog.metadata.image import MetadataImage
from tidelog.sim.checkers.base import Violation
from tidelog.sim.host import Host


class ImageIsFoldOfLog:
    """Remembers the first image seen at each offset."""

    name = "ImageIsFoldOfLog"

    def __init__(self) -> None:
        self._images: dict[int, MetadataImage] = {}

    def on_image(self, host: Host, image: MetadataImage) -> None:
        """Compares a new image with what others had at that offset."""
        known = self._images.setdefault(image.offset, image)
        if known is not image and known != image:
            raise Violation(self.name, f"{host.name} has another image at {image.offset}")

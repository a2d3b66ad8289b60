"""Which sources are these? A short name that changes when any file that a simulated run could
execute changes.

A version number or a commit does not do: a working tree may differ from its commit, and an
installed package knows none. Left out are the rooms that no simulated run enters.
"""

import hashlib
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[2]
_NEVER_PLAYED: Final = frozenset(("cli", "dashboard", "pipeline", "runtime", "testing"))


def source_revision(package: Path = _PACKAGE) -> str:
    """12 hexadecimal digits over the names and contents of the package's modules."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if place.parts[0] not in _NEVER_PLAYED:
            content = path.read_bytes()
            digest.update(b"%s %d\n" % (place.as_posix().encode(), len(content)))
            digest.update(content)
    return digest.hexdigest()

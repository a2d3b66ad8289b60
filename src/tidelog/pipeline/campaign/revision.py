"""The revision of the sources: a short name that changes with any file that a simulated run may
execute.

A version number or a commit is not enough: a working tree may differ from its commit, and an
installed package has no commit. Left out are the packages that no simulated run imports.
"""

import hashlib
from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).parents[2]
_NOT_SIMULATED: Final = frozenset(("cli", "dashboard", "pipeline", "runtime", "testing"))


def source_revision(package: Path = _PACKAGE) -> str:
    """12 hexadecimal digits over the names and contents of the package's modules."""
    digest = hashlib.blake2b(digest_size=6)
    for path in sorted(package.rglob("*.py")):
        place = path.relative_to(package)
        if place.parts[0] not in _NOT_SIMULATED:
            content = path.read_bytes()
            digest.update(b"%s %d\n" % (place.as_posix().encode(), len(content)))
            digest.update(content)
    return digest.hexdigest()

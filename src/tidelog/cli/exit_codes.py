"""What the code of a command's end says; `main.py` needs it before anything else is imported."""

from typing import Final

EXIT_DONE: Final = 0
EXIT_BAD: Final = 1
"""It has answered, and the answer is bad: the cluster refused, or what was checked is not so."""
EXIT_USAGE: Final = 2
EXIT_NO_ANSWER: Final = 3
EXIT_INTERRUPTED: Final = 130

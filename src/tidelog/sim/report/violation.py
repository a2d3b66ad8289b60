"""How every checker reports: the name of the property that broke, and what was seen."""


class Violation(AssertionError):
    """A property does not hold."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(f"{name}: {message}")
        self.name = name

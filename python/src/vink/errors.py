"""What goes wrong. Messages are Vink's own: what was tried, what was found, and what to do."""

from __future__ import annotations

from collections.abc import Sequence


class Error(Exception):
    """Any error of Vink."""


class NotFoundError(Error):
    """Something is missing on the host: the executable, a lab file, a running lab."""


class StartError(Error):
    """The control process could not be started."""


class ConnectionLostError(Error):
    """The control process went away, or its answer was not understood."""


class LabFileError(Error):
    """A lab file has mistakes. The message has each of them with file, line, column and fix."""


class RefusedError(Error):
    """The control process refused a request."""

    def __init__(self, status: int, error: str, hint: str | None, paths: Sequence[str] = ()) -> None:
        super().__init__("; ".join(part for part in (error, hint) if part))
        self.status = status
        """The HTTP status: docs/api.md has their meaning."""
        self.error = error
        """What was tried and what was found."""
        self.hint = hint
        """What to do."""
        self.paths = list(paths)
        """Where in the request, as JSON pointers."""

    def __reduce__(self) -> tuple[object, ...]:
        # An exception is otherwise made again of its message alone, which no process pool survives.
        return (type(self), (self.status, self.error, self.hint, self.paths))

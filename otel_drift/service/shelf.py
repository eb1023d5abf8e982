"""Sessions that wait on disk between being rebuilt and being judged, so that memory holds only those being judged."""

from __future__ import annotations

import pickle
import tempfile
from types import TracebackType

from otel_drift.errors import SourceError
from otel_drift.model import Session


class Shelf:
    """A private temporary file without a name; it is gone with the process."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(prefix="otel-drift-")  # noqa: SIM115

    def put(self, session: Session) -> int:
        """Put a session down, and return its place.

        Raises:
            SourceError: the disk refuses it.
        """
        try:
            place = self._file.seek(0, 2)
            pickle.dump(session, self._file, pickle.HIGHEST_PROTOCOL)
        except OSError as problem:
            raise SourceError(
                f"{tempfile.gettempdir()}: cannot write the sessions that wait to be judged ({problem.strerror}); free "
                "some space, or set TMPDIR to a folder that has it"
            ) from problem
        return place

    def take(self, place: int) -> Session:
        """The session at a place."""
        self._file.seek(place)
        session: Session = pickle.load(self._file)  # noqa: S301 - our own objects, from a file nobody else can open
        return session

    def __enter__(self) -> Shelf:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

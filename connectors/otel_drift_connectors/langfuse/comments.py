"""Comments on answers with a finding, where asked for: text that people see beside the answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from otel_drift.errors import PlatformError, RetryablePlatformError
from otel_drift.model import Annotation, Rejection
from otel_drift_connectors.langfuse.connection import Connection
from otel_drift_connectors.langfuse.scores import NO_FINDING

PATH = "/api/public/comments"
LONGEST = 5_000
PAGE = 100


class Comments:
    """Writes comments into one project, each once: they have no id of ours and can be neither changed nor deleted."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def write(self, annotations: Sequence[Annotation]) -> list[Rejection]:
        """Comment each answer of which one of the annotations is an audit's finding.

        Returns:
            The annotations whose comment could not be written; to be tried again where the server is overloaded or
            the answer cannot be read yet (404).
        """
        refused: list[Rejection] = []
        for one in annotations:
            if one.target != "span" or one.name != one.audit or one.withdrawn or one.label in NO_FINDING:
                continue
            try:
                if not self._is_there(one):
                    self._post(one)
            except PlatformError as error:
                again = error.status == 404 or isinstance(error, RetryablePlatformError)
                why = "its answer cannot be read there (yet)" if error.status == 404 else str(error)
                refused.append(Rejection(one.id, f"the score is written, the comment not: {why}", retryable=again))
        return refused

    def _is_there(self, annotation: Annotation) -> bool:
        marker = _marker(annotation)
        page = 1
        while True:
            query = {"objectType": "OBSERVATION", "objectId": annotation.span_id, "limit": PAGE, "page": page}
            answer = self._connection.http.get(PATH, query).json()
            if any(marker in one["content"] for one in answer["data"]):
                return True
            if page >= answer["meta"]["totalPages"]:
                return False
            page += 1

    def _post(self, annotation: Annotation) -> None:
        head = f"**otel-drift** {_plain(annotation.audit)}: {_plain(annotation.label)}"
        marker = _marker(annotation)
        room = LONGEST - len(head) - len(marker) - 4
        text = _plain(annotation.explanation or "")[:room].rstrip("\\")
        body = {
            "projectId": self._connection.project.id,
            "objectType": "OBSERVATION",
            "objectId": annotation.span_id,
            "content": f"{head}\n\n{text}\n\n{marker}",
        }
        # Not sent again where the answer is lost: it may be there, which the next delivery looks up.
        self._connection.http.request("POST", PATH, json=body, retried=False)


def _marker(annotation: Annotation) -> str:
    """Once an audit, answer and severity: a comment cannot be taken back, but another one be added."""
    return f"<!-- otel-drift:{annotation.id}:{re.sub('[^A-Za-z0-9_]', '', annotation.label)} -->"


def _plain(text: str) -> str:
    """Trace text as Markdown that is only text: no image to load, no link, no mention (CommonMark 2.4)."""
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)

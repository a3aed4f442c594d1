"""A session that is opened when there is something to ask, and again after it has ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self, TypeVar

from django_dbqueue.spark.admission import Requirement, admitted, open_lasting
from django_dbqueue.spark.connection import Connection, is_away
from django_dbqueue.spark.credentials import Credentials
from django_dbqueue.spark.outage import Patience

Result = TypeVar("Result")


class Lasting:
    """A session that outlives its end: it is opened again, and the work in progress is repeated.

    Not shared between threads, and not pickled. Closing it loses nothing, and so reports nothing about a session that
    ended. ``stands``: it lives as long as a query, and so waits for no place (``admission.py``).
    ``requires`` is what it must show, on a replica.
    """

    def __init__(
        self,
        credentials: Credentials,
        *,
        outage: float,
        stands: bool = False,
        requires: Requirement | None = None,
    ) -> None:
        self.credentials = credentials
        self.patience = Patience(outage)
        self.server = credentials.server
        self._stands = stands
        self._requires = requires
        self._connection: Connection | None = None

    @property
    def vendor(self) -> str:
        return self.credentials.vendor

    def ask(self, work: Callable[[Connection], Result]) -> Result:
        """Run ``work``, which may run twice: a commit whose reply was lost may or may not have arrived."""
        while True:
            try:
                if self._connection is None:
                    self._connection = self._opened()
                result = work(self._connection)
            except Exception as error:
                if is_away(error):
                    self.close()
                self.patience.wait(error)
            else:
                self.patience.answered()
                return result

    def _opened(self) -> Connection:
        if self._stands:
            return open_lasting(self.credentials)
        return admitted(self.credentials, outage=self.patience.seconds, requires=self._requires)

    def rest(self) -> None:
        """Leave the session to others until the next question, if sessions are counted."""
        if self.credentials.is_counted:
            self.close()

    def close(self) -> None:
        """End the session; the next question opens another."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

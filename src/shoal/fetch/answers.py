"""What may come on a connection for one request: a few interim answers, one answer, and not much besides its body.

aiohttp parses all that has come in one go, and reads any number of interim answers (1xx) without a pause: a server that
pours these, or answers to requests that nobody made, would keep the loop from all other fetches. So a head is parsed in
small portions, and whoever goes beyond a cap is cut off in the middle of what he sends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp.client_proto import ResponseHandler

from shoal.errors import FetchError
from shoal.fetch.line import MAX_FRAMING, MAX_HEAD_BYTES, MAX_INTERIM

if TYPE_CHECKING:
    from aiohttp.http import RawResponseMessage
    from aiohttp.streams import StreamReader

_UNTIL_ANSWERED = 2 * MAX_HEAD_BYTES
"""Bytes up to the end of the answer's head: other heads are before it, and more than names and values are in each."""
_PORTION = 8_192
"""Bytes that are parsed at once until there is an answer: a few hundred interim answers, a few tenths of a
millisecond."""
_SWITCHING = 101


class OneAnswer(ResponseHandler):
    """aiohttp's side of a connection, with an end to everything."""

    _interim = 0
    _answered = False
    _came = 0
    """Bytes, since the request."""
    _body_began = 0
    """At which of them the body did, or so; that of the answer is `_body`."""
    _body: StreamReader | None = None
    _refused = False

    def set_response_params(self, **params: object) -> None:
        """For the next request."""
        self._interim, self._answered, self._came, self._body_began, self._body = 0, False, 0, 0, None
        super().set_response_params(**params)  # type: ignore[arg-type]

    def data_received(self, data: bytes) -> None:
        """All of it at once as soon as there is an answer; in portions before that."""
        at = 0
        while len(data) - at > _PORTION and not self._answered and not self._is_over:
            self._take(data[at : at + _PORTION])
            at += _PORTION
        if not self._is_over:
            self._take(data[at:] if at else data)

    def feed_data(self, data: tuple[RawResponseMessage, StreamReader], size: int = 0) -> None:
        """A message that was parsed."""
        if self._answered:  # to nothing that was asked
            self._close()
            return
        code = data[0].code
        is_interim = 100 <= code <= 199 and code != _SWITCHING
        self._interim += is_interim
        if self._interim > MAX_INTERIM:
            return
        if not is_interim:
            self._answered, self._body_began, self._body = True, self._came, data[1]
        super().feed_data(data, size)

    @property
    def _is_over(self) -> bool:
        return self._refused or self._exception is not None

    def _take(self, portion: bytes) -> None:
        self._came += len(portion)
        super().data_received(portion)
        if self._exception is not None:
            self._fail_body(self._exception)
        if self._is_over or self._parser is None:
            return
        if not self._answered:
            if self._interim > MAX_INTERIM:
                self._refuse(f"more than {MAX_INTERIM} interim answers (1xx)")
            elif self._came > _UNTIL_ANSWERED:
                self._refuse(f"no answer within {_UNTIL_ANSWERED} bytes")
        elif self._body is not None and not self._body.is_eof():
            framing = self._came - self._body_began - self._body.total_bytes
            if framing > MAX_FRAMING + self._body.total_bytes:
                self._refuse(f"more than {MAX_FRAMING} bytes around a body of {self._body.total_bytes}")

    def _refuse(self, why: str) -> None:
        error = FetchError("bad_http", why)
        self._buffer.clear()
        self.set_exception(error)
        self._fail_body(error)
        self._close()

    def _fail_body(self, error: BaseException) -> None:
        """Whoever reads it is told why, and not that the connection was lost."""
        if self._body is not None and not self._body.is_eof() and self._body.exception() is None:
            self._body.set_exception(error)

    def _close(self) -> None:
        self._refused = True
        self.force_close()
        if self.transport is not None:
            self.transport.close()

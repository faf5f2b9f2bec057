"""Where the API listens."""

from __future__ import annotations

import pytest

from shoal.api.serve import base_url


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:8000"),
        ("localhost", "http://localhost:8000"),
        ("0.0.0.0", "http://127.0.0.1:8000"),
        ("::", "http://[::1]:8000"),
        ("::1", "http://[::1]:8000"),
        ("10.0.0.5", "http://10.0.0.5:8000"),
    ],
)
def test_the_address_is_one_that_a_client_here_can_use(host: str, url: str) -> None:
    assert base_url(host, 8000) == url

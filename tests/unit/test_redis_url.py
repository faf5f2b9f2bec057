"""One Redis URL for three databases, and no password in any message."""

from __future__ import annotations

import pytest

from shoal.errors import InputError
from shoal.redis_url import RedisUrls, redacted, redis_of


@pytest.mark.parametrize(
    ("url", "broker", "results", "frontier"),
    [
        ("redis://h", "redis://h/0", "redis://h/1", "redis://h/2"),
        ("redis://h:6379", "redis://h:6379/0", "redis://h:6379/1", "redis://h:6379/2"),
        ("redis://h:6379/", "redis://h:6379/0", "redis://h:6379/1", "redis://h:6379/2"),
        ("redis://h:6379/5", "redis://h:6379/5", "redis://h:6379/6", "redis://h:6379/7"),
        ("REDIS://h/5", "redis://h/5", "redis://h/6", "redis://h/7"),
        ("redis://u:p@h:6380/1", "redis://u:p@h:6380/1", "redis://u:p@h:6380/2", "redis://u:p@h:6380/3"),
        ("redis://:p%40%2F@h", "redis://:p%40%2F@h/0", "redis://:p%40%2F@h/1", "redis://:p%40%2F@h/2"),
        ("redis://[::1]:6379/1", "redis://[::1]:6379/1", "redis://[::1]:6379/2", "redis://[::1]:6379/3"),
        (
            "unix:///run/redis.sock",
            "redis+socket:///run/redis.sock?virtual_host=0",
            "redis+socket:///run/redis.sock?virtual_host=1",
            "unix:///run/redis.sock?db=2",
        ),
        ("unix:///s?db=4", "redis+socket:///s?virtual_host=4", "redis+socket:///s?virtual_host=5", "unix:///s?db=6"),
    ],
)
def test_three_databases_stand_side_by_side(url: str, broker: str, results: str, frontier: str) -> None:
    assert RedisUrls.of(url) == RedisUrls(broker, results, frontier)


def test_a_certificate_is_checked_unless_the_url_says_otherwise() -> None:
    checked = [f"rediss://u:p@h:6380/{number}?ssl_cert_reqs=required" for number in (1, 2, 3)]
    assert RedisUrls.of("rediss://u:p@h:6380/1") == RedisUrls(*checked)
    with_authority = RedisUrls.of("rediss://h?ssl_ca_certs=/ca.pem")
    assert with_authority.broker == "rediss://h/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs=required"
    assert RedisUrls.of("rediss://h?ssl_cert_reqs=none").frontier == "rediss://h/2?ssl_cert_reqs=none"


def test_a_socket_may_have_a_user_and_a_password() -> None:
    assert RedisUrls.of("unix://u:p%40@/run/redis.sock?db=4") == RedisUrls(
        "redis+socket://u:p%40@/run/redis.sock?virtual_host=4",
        "redis+socket://u:p%40@/run/redis.sock?virtual_host=5",
        "unix://u:p%40@/run/redis.sock?db=6",
    )


def test_options_of_the_connection_stay_with_all_three() -> None:
    options = "ssl_cert_reqs=required&ssl_ca_certs=/ca.pem"
    assert RedisUrls.of(f"rediss://h/3?{options}") == RedisUrls(
        f"rediss://h/3?{options}", f"rediss://h/4?{options}", f"rediss://h/5?{options}"
    )


@pytest.mark.parametrize("url", ["redis://h/3", "unix:///s?db=3"])
def test_the_broker_may_be_elsewhere(url: str) -> None:
    alone, apart = RedisUrls.of(url), RedisUrls.of(url, broker="amqp://b")
    assert apart == RedisUrls("amqp://b", alone.results, alone.frontier)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://h", "'http://h' is not a Redis URL; write redis://HOST:PORT or unix:///PATH"),
        ("h:6379", "'h:6379' is not a Redis URL; write redis://HOST:PORT or unix:///PATH"),
        ("", "'' is not a Redis URL; write redis://HOST:PORT or unix:///PATH"),
        ("redis://", "'redis://' names no host; write redis://HOST:PORT"),
        ("redis:///3", "'redis:///3' names no host; write redis://HOST:PORT"),
        ("redis://:p@/3", "'redis://***@/3' names no host; write redis://HOST:PORT"),
        ("redis://h/x", "'x' in 'redis://h/x' is not the number of a database"),
        ("redis://h/-1", "'-1' in 'redis://h/-1' is not the number of a database"),
        ("redis://h/1/2", "'1/2' in 'redis://h/1/2' is not the number of a database"),
        ("unix:///s?db=x", "'x' in 'unix:///s?db=x' is not the number of a database"),
    ],
)
def test_what_is_no_redis_url_is_explained(url: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        RedisUrls.of(url)
    assert str(caught.value) == f"SHOAL_REDIS_URL: {message}"


@pytest.mark.parametrize(
    "url", ["redis://[::1", "redis://h/²", "redis://h:port", "redis://h:99999", "unix://", "unix://s"]
)
def test_what_urllib_stumbles_over_is_bad_input_too(url: str) -> None:
    with pytest.raises(InputError, match=r"^SHOAL_REDIS_URL: "):
        RedisUrls.of(url)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:6379/1", "redis://h:6379/1"),
        ("redis://user:secret@h:6379/1", "redis://***@h:6379/1"),
        ("redis://:secret@h", "redis://***@h"),
        ("redis://u:se@secret@h/1", "redis://***@h/1"),
        ("amqp://u:secret@h//", "amqp://***@h//"),
        ("unix:///s?db=1", "unix:///s?db=1"),
        ("unix://u:secret@/s?db=1", "unix://***@/s?db=1"),
        ("rediss://h?ssl_password=secret&ssl_keyfile=/k", "rediss://h?ssl_password=***&ssl_keyfile=/k"),
        ("redis://h/1?password=secret", "redis://h/1?password=***"),
        ("", ""),
    ],
)
def test_a_shown_url_has_no_password(url: str, shown: str) -> None:
    assert redacted(url) == shown


@pytest.mark.parametrize(
    "url",
    [
        "redis://u:secret@h/x",
        "ftp://u:secret@h",
        "redis://u:secret@/1",
        "redis://u:secret@[h",
        "redis://h?password=secret",
    ],
)
def test_no_message_repeats_a_password(url: str) -> None:
    with pytest.raises(InputError) as caught:
        RedisUrls.of(url)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("broker", "as_celery_writes_it", "as_redis_does"),
    [
        ("redis://u:p@b/4", "redis://u:p@b/4", "redis://u:p@b/4"),
        ("rediss://b", "rediss://b?ssl_cert_reqs=required", "rediss://b?ssl_cert_reqs=required"),
        (
            "rediss://b/1?ssl_ca_certs=/ca",
            "rediss://b/1?ssl_ca_certs=/ca&ssl_cert_reqs=required",
            "rediss://b/1?ssl_ca_certs=/ca&ssl_cert_reqs=required",
        ),
        ("rediss://b?ssl_cert_reqs=none", "rediss://b?ssl_cert_reqs=none", "rediss://b?ssl_cert_reqs=none"),
        ("unix://u:p@/s?db=3", "redis+socket://u:p@/s?virtual_host=3", "unix://u:p@/s?db=3"),
        ("redis+socket:///s?virtual_host=3", "redis+socket:///s?virtual_host=3", "unix:///s?db=3"),
        ("amqp://u:p@b//", "amqp://u:p@b//", None),
    ],
)
def test_a_broker_of_its_own_is_written_as_each_client_wants_it(
    broker: str, as_celery_writes_it: str, as_redis_does: str | None
) -> None:
    found = RedisUrls.of("redis://h", broker).broker
    assert found == as_celery_writes_it
    assert redis_of(found) == as_redis_does


@pytest.mark.parametrize("url", ["redis://u:secret@h:port", "redis://u:sec/ret@h:1", "redis://[u:secret@h"])
def test_a_broker_that_is_no_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(InputError, match="SHOAL_BROKER_URL") as caught:
        RedisUrls.of("redis://h", url)
    assert "sec" not in str(caught.value)

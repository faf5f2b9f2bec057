"""One Redis URL for three databases, and no password in any message."""

from __future__ import annotations

import pytest

from shoal.errors import InputError
from shoal.frontier.sentinel import Sentinels
from shoal.redis_url import RedisUrls, is_amqp, is_here, redacted, redis_of

FORMS = "redis://HOST:PORT, unix:///PATH or redis+sentinel://HOST:PORT,HOST:PORT/SERVICE"


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
        ("http://h", f"'http://h' is not a Redis URL; write {FORMS}"),
        ("h:6379", f"'h:6379' is not a Redis URL; write {FORMS}"),
        ("", f"'' is not a Redis URL; write {FORMS}"),
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
        ("redis+sentinel://u:secret@h:1,i:2/s", "redis+sentinel://***@h:1,i:2/s"),
        ("redis+sentinel://h/s?sentinel_password=secret", "redis+sentinel://h/s?sentinel_password=***"),
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
        "redis+sentinel://u:secret@h",
        "redis+sentinel://u:secret@h:port/s",
        "redis+sentinel://u:se/cret@h/s/x",
        "redis+sentinel://h/s/x?sentinel_password=secret",
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


def test_sentinels_name_a_service_with_three_databases() -> None:
    urls = RedisUrls.of("redis+sentinel://u:p%40@a:1,b,[::1]:3/main/5?sentinel_password=s%26t")
    rest = "?sentinel_password=s%26t"
    assert [urls.broker, urls.results, urls.frontier] == [
        f"redis+sentinel://u:p%40@a:1,b:26379,[::1]:3/main/{number}{rest}" for number in (5, 6, 7)
    ]
    read = Sentinels.of(urls.frontier)
    assert (read.hosts, read.service, read.database) == ((("a", 1), ("b", 26379), ("::1", 3)), "main", 7)
    assert read.server_options == {"username": "u", "password": "p@", "db": 7}
    assert read.sentinel_options == {"password": "s&t"}
    assert redis_of(urls.broker) == urls.broker
    assert not is_here(urls.frontier)
    assert "p%40" not in repr(read) + repr(urls)


def test_sentinels_and_servers_are_spoken_to_over_tls_and_both_are_checked() -> None:
    url = RedisUrls.of("rediss+sentinel://:p@a/main?ssl_ca_certs=/ca.pem").broker
    assert url == "rediss+sentinel://:p@a:26379/main/0?ssl_ca_certs=/ca.pem&ssl_cert_reqs=required"
    read = Sentinels.of(url)
    checked = {"ssl_ca_certs": "/ca.pem", "ssl_cert_reqs": "required"}
    assert read.server_options == {"password": "p", "db": 0, **checked}
    assert read.sentinel_options == {"ssl": True, **checked}


@pytest.mark.parametrize(
    ("url", "sentinels", "servers"),
    [
        ("rediss+sentinel://a/m?sentinel_tls=no", False, True),
        ("redis+sentinel://a/m?sentinel_tls=yes", True, False),
        ("redis+sentinel://a/m", False, False),
    ],
)
def test_tls_of_the_sentinels_may_differ_from_that_of_the_servers(url: str, sentinels: bool, servers: bool) -> None:
    read = Sentinels.of(RedisUrls.of(url).frontier)
    assert ("ssl" in read.sentinel_options, "ssl_cert_reqs" in read.sentinel_options) == (sentinels, sentinels)
    assert (read.tls, "ssl_cert_reqs" in read.server_options) == (servers, servers)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("redis+sentinel://h:26379", "names no sentinel, or no service"),
        ("redis+sentinel:///main", "names no sentinel, or no service"),
        ("redis+sentinel://h/main/x", "'x' is not the number of a database"),
        ("redis+sentinel://h:port/main", "a sentinel's place cannot be read"),
        ("redis+sentinel://h/main?sentinel_tls=perhaps", "sentinel_tls is yes or no"),
        ("rediss+sentinel://h/main?ssl_check_hostname=2", "ssl_check_hostname is yes or no"),
        ("rediss+sentinel://h/main?ssl_cert_reqs=maybe", "ssl_cert_reqs is required, optional or none"),
        ("rediss+sentinel://h/main?ssl_ca_certs=", "ssl_ca_certs has no value"),
        ("redis+sentinel://h/main?ssl_ca_certs=/ca.pem", "ssl_ca_certs is about TLS.*write rediss\\+sentinel://"),
        (
            "redis+sentinel://h/main?sentinel_passwort=s",
            "no option 'sentinel_passwort' here; there are sentinel_username",
        ),
        ("redis+sentinel://h/main?socket_timeout=1", "no option 'socket_timeout' here; .*ssl_ca_certs, ssl_certfile"),
        ("redis+sentinel://h/main?db=3", "no option 'db' here"),
        ("redis+sentinel://h/main?sentinel_tls=no&sentinel_tls=yes", "sentinel_tls is there twice"),
    ],
)
def test_what_is_wrong_about_sentinels_is_explained(url: str, words: str) -> None:
    for setting, read in (
        ("SHOAL_REDIS_URL", lambda: RedisUrls.of(url)),
        ("SHOAL_BROKER_URL", lambda: RedisUrls.of("redis://h", url)),
    ):
        with pytest.raises(InputError, match=f"^{setting}: .*{words}"):
            read()


def test_a_broker_may_be_a_rabbitmq() -> None:
    for url in ("amqp://u:p@h:5672/vhost", "amqps://h//?ssl_ca_certs=/ca.pem&ssl_check_hostname=false", "pyamqp://h"):
        assert RedisUrls.of("redis://h", url).broker == url
        assert is_amqp(url)
        assert redis_of(url) is None


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("amqp://u:secret@h?ssl_ca_certs=/ca.pem", "options of TLS need amqps"),
        ("amqps://u:secret@h?heartbeat=3", "RabbitMQ has no option 'heartbeat'"),
        ("amqp://u:se/cret@h:port", "is not a URL|percent-encode"),
    ],
)
def test_what_is_wrong_about_a_rabbitmq_is_explained_without_its_password(url: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        RedisUrls.of("redis://h", url)
    assert "cret" not in str(caught.value)

"""URLs to submit: distinct, on fifty hosts, as long as those of real sites (about 75 characters)."""

from collections.abc import Iterator

from benchmarks.site import WORDS

HOSTS = 50
_PLACES = len(WORDS)


def url(number: int) -> str:
    """The URL of this number; no other number has the same."""
    host = f"https://www.{WORDS[number % HOSTS]}-{number % HOSTS:02d}.example"
    first, second, third = (
        WORDS[number // HOSTS % _PLACES],
        WORDS[number * 7 % _PLACES],
        WORDS[number * 31 % _PLACES],
    )
    query = f"?page={number % 9 + 1}&sort=price" if number % 3 == 0 else ""
    return f"{host}/catalogue/{first}/{second}-{third}-{number}.html{query}"


def urls(first: int, count: int) -> list[str]:
    return [url(number) for number in range(first, first + count)]


def ndjson(count: int, lines_at_once: int = 1_000) -> Iterator[bytes]:
    """So many URLs as NDJSON, made while they are sent."""
    for start in range(0, count, lines_at_once):
        numbers = range(start, min(start + lines_at_once, count))
        yield "".join([f'{{"url": "{url(number)}"}}\n' for number in numbers]).encode()

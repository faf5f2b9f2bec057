"""The tutorial stack: one Celery message a URL, a Redis set against duplicates, httpx and BeautifulSoup.

It follows the usual guide step by step, without its rate limit, since no contender has one here.
`TUTORIAL_REDIS` names the server: database 0 is the broker, 1 keeps the results, 2 the set, as in the guide.
"""

# pyright: basic, reportMissingImports=false
import os
from collections.abc import Iterable
from urllib.parse import urljoin

import httpx
import redis
from bs4 import BeautifulSoup
from celery import Celery

REDIS = os.environ["TUTORIAL_REDIS"]
HEADERS = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64)", "Accept": "text/html,application/xhtml+xml"}

app = Celery("tutorial", broker=f"{REDIS}/0", backend=f"{REDIS}/1")
app.conf.update(
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=1,
    task_default_retry_delay=5,
    task_time_limit=120,
    broker_transport_options={"visibility_timeout": 300},
)
pool = redis.ConnectionPool.from_url(f"{REDIS}/2")


@app.task(bind=True, max_retries=4, acks_late=True)
def fetch_url(self, url):
    """Fetch a page and queue a task for each link that nobody saw before."""
    try:
        with httpx.Client(timeout=15, follow_redirects=True) as client:
            response = client.get(url, headers=HEADERS)
            response.raise_for_status()
    except httpx.TransportError as exc:
        raise self.retry(exc=exc, countdown=2**self.request.retries) from exc
    soup = BeautifulSoup(response.text, "lxml")
    enqueue_links(urljoin(url, str(anchor["href"])) for anchor in soup.find_all("a", href=True))
    return {"url": url, "status": response.status_code, "length": len(response.text)}


def is_new_url(url: str) -> bool:
    """Say whether this worker is the first to see a URL."""
    return redis.Redis(connection_pool=pool).sadd("crawl:seen", url) == 1


def enqueue_links(links: Iterable[str]) -> None:
    """Queue the links that are new."""
    for link in links:
        if is_new_url(link):
            fetch_url.apply_async(args=[link], queue="fetch")

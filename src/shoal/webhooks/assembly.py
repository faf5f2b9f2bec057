"""The parts of webhooks put together."""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy.engine import Engine

from shoal.core.egress import Egress
from shoal.core.frozen import frozen
from shoal.core.mail import MailServer
from shoal.store.pages import PageStore
from shoal.store.webhook_cursors import Cursors
from shoal.store.webhook_messages import Messages
from shoal.store.webhooks import WebhookStore
from shoal.webhooks.carrier import Carrier, Mails
from shoal.webhooks.letters import Letters
from shoal.webhooks.page_changes import Look, PageChanges
from shoal.webhooks.postman import Postman
from shoal.webhooks.sources import ItemBatches, JobEvents
from shoal.webhooks.webhooks import Webhooks


@frozen
class Parts:
    """What the operator says, and what the frontier offers."""

    user_agent: str
    egress: Egress
    mail_server: MailServer | None
    mail_from: str
    mail_domains: frozenset[str]
    now_ms: Callable[[], int]
    count: Callable[[str], None]


def make_webhooks(parts: Parts, engine: Engine, pages: PageStore, look: Look) -> Webhooks:
    """`look` tells what a run has changed."""
    hooks, messages, cursors = WebhookStore(engine), Messages(engine), Cursors(engine)
    letters = Letters(pages)
    sources = (JobEvents(messages), ItemBatches(cursors, pages), PageChanges(cursors, look))
    postman = Postman(hooks, messages, sources, lambda: _carrier(parts, letters), parts.now_ms, parts.count)
    domains = parts.mail_domains if parts.mail_server else None
    return Webhooks(hooks, messages, cursors, postman, parts.egress, parts.now_ms, domains)


def _carrier(parts: Parts, letters: Letters) -> Carrier:
    """With its own connections, made in the loop that it is used in; most processes never need them."""
    from shoal.fetch.guard import Guard
    from shoal.fetch.http import HttpClient

    return Carrier(HttpClient(parts.user_agent, Guard(parts.egress)), letters, _mails(parts), parts.mail_domains)


def _mails(parts: Parts) -> Mails | None:
    if parts.mail_server is None:
        return None
    from shoal.webhooks.mail import Mailer

    return Mailer(parts.mail_server, parts.mail_from)

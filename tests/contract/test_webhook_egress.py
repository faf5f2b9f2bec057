"""Webhooks lead nowhere that crawls may not go: judged when they are added, and again at each delivery."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.core.egress import Egress
from shoal.core.webhook import WebhookSettings
from shoal.errors import InputError
from shoal.fetch.guard import Guard
from shoal.fetch.http import HttpClient
from shoal.store.webhook_cursors import Cursors
from shoal.store.webhook_messages import Messages
from shoal.store.webhooks import WebhookStore
from shoal.webhooks.carrier import Carrier
from shoal.webhooks.letters import Letters
from shoal.webhooks.postman import Postman
from shoal.webhooks.webhooks import Webhooks
from tests.canary import Canary, canary
from tests.contract.api import Desk, a_desk
from tests.receiver import Reply, a_receiver

HOPES = ("127.0.0.1", "169.254.169.254", "10.0.0.1")


@dataclass(slots=True)
class Trap:
    """Webhooks whose names lead where the test says."""

    desk: Desk
    egress: Egress = field(default_factory=Egress)
    leads: list[list[str]] = field(default_factory=list[list[str]])
    """Answers of the name server in turn, and the last one for ever."""

    def webhooks(self) -> Webhooks:
        engine, pages = self.desk.platform.engine, self.desk.platform.pages
        hooks, messages, now = WebhookStore(engine), Messages(engine), self.desk.platform.frontier.audit.now_ms
        egress = self.egress

        def carrier() -> Carrier:
            return Carrier(HttpClient("test", Guard(egress, self._look_up)), Letters(pages), None, ())

        postman = Postman(hooks, messages, (), carrier, now, lambda _: None)
        return Webhooks(hooks, messages, Cursors(engine), postman, self.egress, now, None)

    def _look_up(self, _name: str) -> list[str]:
        return self.leads.pop(0) if len(self.leads) > 1 else self.leads[0]


@pytest.fixture
def trap(valkey_url: str, tmp_path: Path) -> Generator[Trap]:
    with a_desk(valkey_url, tmp_path) as desk:
        yield Trap(desk)


@pytest.fixture
def bird() -> Generator[Canary]:
    with canary("127.0.0.1") as bird:
        yield bird


def _try(hooks: Webhooks, url: str) -> str:
    """What came of a test."""
    hook, _ = hooks.add(WebhookSettings(url=url, name=f"w{len(hooks.all())}"), "default")
    message = hooks.ping(hook)
    assert hooks.postman.carry_now(message)
    return hooks.attempts(message)[0].reason


@pytest.mark.parametrize("leads", [[[hope]] for hope in HOPES])
def test_a_name_that_leads_inside_is_not_asked(leads: list[list[str]], trap: Trap, bird: Canary) -> None:
    trap.leads = leads
    assert _try(trap.webhooks(), f"http://hooks.example:{bird.port}/").startswith("blocked_address")
    assert bird.asked == []


def test_a_name_that_turns_inside_after_it_was_looked_at_is_not_asked(trap: Trap, bird: Canary) -> None:
    trap.leads = [["45.33.32.156"], ["127.0.0.1"]]
    hooks = trap.webhooks()
    url = f"http://hooks.example:{bird.port}/"
    hook, _ = hooks.add(WebhookSettings(url=url, name="turns"), "default")
    trap.leads = [["127.0.0.1"]]
    message = hooks.ping(hook)
    assert hooks.postman.carry_now(message)
    assert hooks.attempts(message)[0].reason.startswith("blocked_address")
    assert bird.asked == []


def test_a_redirect_inside_is_not_followed(valkey_url: str, tmp_path: Path, bird: Canary) -> None:
    with a_desk(valkey_url, tmp_path) as desk, a_receiver() as receiver:
        trap = Trap(desk, Egress.read("hooks.example"), [["127.0.0.1"]])
        receiver.replies(Reply(307, {"Location": f"http://127.0.0.1:{bird.port}/"}))
        said = _try(trap.webhooks(), f"http://hooks.example:{receiver.port}/")
    assert "redirects are not followed" in said
    assert bird.asked == []


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "0x7f000001", "localhost"])
def test_an_address_inside_is_refused_when_it_is_added_and_when_it_is_changed(host: str, trap: Trap) -> None:
    hooks = trap.webhooks()
    with pytest.raises(InputError):
        hooks.add(WebhookSettings(url=f"http://{host}/"), "default")
    hook, _ = hooks.add(WebhookSettings(url="https://example.org/"), "default")
    with pytest.raises(InputError):
        hooks.change(hook, {"url": f"http://{host}/"})


def test_what_the_operator_closes_again_is_not_asked_any_more(trap: Trap, bird: Canary) -> None:
    trap.egress = Egress.read("127.0.0.0/8")
    open_ones = trap.webhooks()
    hook, _ = open_ones.add(WebhookSettings(url=f"http://127.0.0.1:{bird.port}/", name="w"), "default")
    trap.egress = Egress()
    closed = trap.webhooks()
    message = closed.ping(hook)
    assert closed.postman.carry_now(message)
    assert closed.attempts(message)[0].reason.startswith("blocked_address")
    assert bird.asked == []
    open_ones.postman.carry_now(open_ones.ping(hook))
    assert bird.asked == ["127.0.0.1"]  # it would have been heard


def test_nobody_waits_for_ever(trap: Trap) -> None:
    from shoal.webhooks.carrier import LIMITS
    from shoal.webhooks.postman import OWNED

    assert timedelta(seconds=15) == LIMITS.total < OWNED

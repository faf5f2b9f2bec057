"""Mail to a real server: what arrives, what cannot be smuggled in, and whom it may be sent to."""

from __future__ import annotations

import ssl
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from pathlib import Path
from typing import Any, cast

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session

from shoal.core.mail import MailServer
from shoal.core.webhook import MessageState, WebhookSettings
from shoal.errors import Undelivered
from shoal.settings import read_settings
from shoal.store.webhook_messages import MessageFilter
from shoal.webhooks.mail import Mailer
from tests.authority import Authority
from tests.contract.api import Desk, a_desk, flaws, told

SENDER = "shoal@example.net"


@dataclass(slots=True)
class Inbox:
    """A mail server that keeps what it takes."""

    port: int = 0
    letters: list[EmailMessage] = field(default_factory=list[EmailMessage])
    answers: list[str] = field(default_factory=list[str])
    """In place of taking it."""
    logins: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])

    async def handle_DATA(self, _server: SMTP, _session: Session, envelope: Envelope) -> str:  # noqa: N802
        if self.answers:
            return self.answers.pop(0)
        content = cast(bytes, envelope.content)
        self.letters.append(message_from_bytes(content, policy=default))
        assert envelope.rcpt_tos == ["somebody@example.org"]
        return "250 taken"

    def authenticate(self, _server: Any, _session: Any, _envelope: Any, _mechanism: str, data: Any) -> AuthResult:
        self.logins.append((data.login, data.password))
        return AuthResult(success=True)


class _Server(Controller):
    """On a port that the system has chosen."""

    def _trigger_server(self) -> None:
        self.port = int(cast(Any, self.server).sockets[0].getsockname()[1])
        super()._trigger_server()


@contextmanager
def an_inbox(tls: ssl.SSLContext | None = None) -> Generator[Inbox]:
    inbox = Inbox()
    options: dict[str, Any] = {"tls_context": tls, "require_starttls": True, "authenticator": inbox.authenticate}
    server = _Server(inbox, hostname="127.0.0.1", port=0, **(options if tls else {}))
    server.start()
    try:
        inbox.port = server.port
        yield inbox
    finally:
        server.stop()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority.make(tmp_path_factory.mktemp("authority"))


@pytest.fixture
def inbox() -> Generator[Inbox]:
    with an_inbox() as inbox:
        yield inbox


@pytest.fixture
def desk(valkey_url: str, tmp_path: Path, inbox: Inbox) -> Generator[Desk]:
    url = f"smtp://127.0.0.1:{inbox.port}"
    with a_desk(valkey_url, tmp_path, smtp_url=url, mail_from=SENDER, mail_domains="example.org") as desk:
        yield desk


def _run(desk: Desk, name: str) -> None:
    desk.submit("https://books.example/", name=name)
    desk.work()
    desk.platform.webhooks.postman.work()


def test_an_end_arrives_with_the_facts(desk: Desk, inbox: Inbox) -> None:
    told(desk.post("webhooks", {"url": "mailto:somebody@example.org"}), 201)
    _run(desk, "bücher")
    (letter,) = inbox.letters
    assert letter["To"] == "somebody@example.org"
    assert letter["From"] == f"Shoal <{SENDER}>"
    assert "bücher" in letter["Subject"]
    text = letter.get_content()
    assert "pages: 1" in text
    assert "state: finished" in text
    (message,) = desk.platform.webhooks.messages(10, MessageFilter())
    assert letter["Message-ID"] == f"<{message.id}@example.net>"
    assert message.state is MessageState.DELIVERED


def test_a_retry_has_the_same_id(desk: Desk, inbox: Inbox) -> None:
    told(desk.post("webhooks", {"url": "mailto:somebody@example.org"}), 201)
    inbox.answers = ["451 come again"]
    _run(desk, "books")
    (message,) = desk.platform.webhooks.messages(10, MessageFilter())
    (attempt,) = desk.platform.webhooks.attempts(message.id)
    assert (message.state, attempt.status) == (MessageState.WAITING, 451)
    assert "come again" in attempt.reason
    desk.platform.webhooks.resend(message)
    desk.platform.webhooks.postman.work()
    assert [letter["Message-ID"] for letter in inbox.letters] == [f"<{message.id}@example.net>"]


def test_a_jobs_name_adds_no_header(desk: Desk, inbox: Inbox) -> None:
    told(desk.post("webhooks", {"url": "mailto:somebody@example.org"}), 201)
    _run(desk, "x\r\nBcc: victim@example.com\r\n\r\nhello")
    (letter,) = inbox.letters
    assert letter["Bcc"] is None
    assert "Bcc: victim@example.com" in str(letter["Subject"])  # as text


def test_over_the_api_mail_goes_to_allowed_domains_only(desk: Desk, inbox: Inbox) -> None:
    answer = desk.post("webhooks", {"url": "mailto:somebody@example.com"})
    assert "SHOAL_MAIL_DOMAINS" in flaws(answer)["url"]
    at_the_machine = WebhookSettings(url="mailto:somebody@example.com")
    assert desk.platform.webhooks.add(at_the_machine, "default")[0].name == "somebody-at-example.com"
    assert (
        "no template" in flaws(desk.post("webhooks", {"url": "mailto:x@example.org", "template": "slack"}))["template"]
    )


def test_over_the_api_no_webhook_of_the_operators_becomes_mail_elsewhere(desk: Desk) -> None:
    """Not even one that was added by a command, which may name any address."""
    hook, _ = desk.platform.webhooks.add(WebhookSettings(url="mailto:boss@elsewhere.example", name="boss"), "default")
    assert "SHOAL_MAIL_DOMAINS" in flaws(desk.patch("webhooks/boss", {"url": "mailto:x@evil.example"}))["url"]
    told(desk.patch("webhooks/boss", {"labels": ["nightly"]}), 200)
    assert not desk.platform.webhooks.find(hook.id).by_api
    told(desk.patch("webhooks/boss", {"url": "mailto:somebody@example.org"}), 200)
    assert desk.platform.webhooks.find(hook.id).by_api


@pytest.mark.parametrize("address", [".a@example.org", "a.@example.org", "a..b@example.org", "a@example.org?cc=b@c.d"])
def test_an_address_that_no_mail_can_be_sent_to_is_refused(address: str, desk: Desk) -> None:
    assert "plain mail address" in flaws(desk.post("webhooks", {"url": f"mailto:{address}"}))["url"]


def test_a_subject_has_nothing_that_a_screen_obeys(inbox: Inbox) -> None:
    server = MailServer.read(f"smtp://127.0.0.1:{inbox.port}")
    assert server
    Mailer(server, SENDER).send("somebody@example.org", "red \x1b[31m, nothing \x00", "text", "msg_1", 0)
    assert inbox.letters[0]["Subject"].isprintable()


def test_what_a_server_repeats_of_the_password_is_not_told(inbox: Inbox) -> None:
    inbox.answers.append("535 who has said hunter2hunter2?")
    server = MailServer("127.0.0.1", inbox.port, False, False, "", "hunter2hunter2")
    with pytest.raises(Undelivered, match="535") as refusal:
        Mailer(server, SENDER).send("somebody@example.org", "s", "t", "msg_1", 0)
    assert "hunter2" not in str(refusal.value)


def test_what_the_operator_takes_back_is_not_sent(valkey_url: str, tmp_path: Path, inbox: Inbox, desk: Desk) -> None:
    told(desk.post("webhooks", {"url": "mailto:somebody@example.org"}), 201)
    settings = desk.platform.settings
    with a_desk(valkey_url, tmp_path, settings.sql_url, smtp_url=settings.smtp_url, mail_from=SENDER) as other:
        hook = other.platform.webhooks.all()[0]
        message = other.platform.webhooks.ping(hook)
        other.platform.webhooks.postman.carry_now(message)
        assert "does not allow" in other.platform.webhooks.attempts(message)[0].reason
    assert inbox.letters == []


def test_nothing_is_said_before_tls(authority: Authority) -> None:
    with an_inbox(authority.server()) as inbox:
        server = MailServer("127.0.0.1", inbox.port, False, True, "me", "hunter2")
        Mailer(server, SENDER, authority.client).send("somebody@example.org", "s", "t", "msg_1", 0)
        assert inbox.logins == [(b"me", b"hunter2")]
        assert len(inbox.letters) == 1
        with pytest.raises(Undelivered, match="certificate"):
            Mailer(server, SENDER).send("somebody@example.org", "s", "t", "msg_1", 0)


def test_without_tls_where_it_is_wanted_nothing_is_sent(inbox: Inbox) -> None:
    server = MailServer("127.0.0.1", inbox.port, False, True, "me", "hunter2")
    with pytest.raises(Undelivered, match="STARTTLS") as refusal:
        Mailer(server, SENDER).send("somebody@example.org", "s", "t", "msg_1", 0)
    assert "hunter2" not in str(refusal.value)
    assert inbox.letters == []


def test_a_server_that_is_away_is_told() -> None:
    with pytest.raises(Undelivered, match="refused"):
        Mailer(MailServer("127.0.0.1", 1, False, False), SENDER).send("a@example.org", "s", "t", "msg_1", 0)


def test_settings_name_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOAL_SMTP_URL", "smtp://me:hunter2@mail.example")
    with pytest.raises(Exception, match="SHOAL_MAIL_FROM") as refusal:
        read_settings()
    assert "hunter2" not in str(refusal.value)

"""Mail by SMTP, to the operator's own server: each message with an id that stays the same over retries."""

from __future__ import annotations

import smtplib
import ssl
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate

from shoal.core.mail import MailServer
from shoal.core.redact import visible, without_secrets
from shoal.core.webhook import domain_of
from shoal.errors import Undelivered

MAIL_S = 10.0
"""For each step with the server."""


class Mailer:
    """Hands mail over."""

    def __init__(self, server: MailServer, sender: str, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: whom to trust, when it is not those whom the system trusts."""
        self._server = server
        self._sender = sender
        self._tls = tls

    def send(self, to: str, subject: str, text: str, message: str, seconds: int) -> tuple[int, str]:
        """(the server's code, what it said); raises Undelivered when it does not take the mail."""
        letter = _letter(self._sender, to, subject, text, message, seconds)
        try:
            with self._connect() as smtp:
                if self._server.starttls:
                    smtp.starttls(context=self._trust())
                if self._server.user:
                    smtp.login(self._server.user, self._server.password)
                refused = smtp.send_message(letter, self._sender, [to])
        except smtplib.SMTPRecipientsRefused as exc:
            raise self._failure(*next(iter(exc.recipients.values()), (0, b"refused"))) from exc
        except smtplib.SMTPResponseException as exc:
            raise self._failure(exc.smtp_code, exc.smtp_error) from exc
        except (smtplib.SMTPException, OSError, ValueError) as exc:
            raise Undelivered(without_secrets(f"mail: {type(exc).__name__}: {exc}", self._known)) from exc
        return (250, "taken") if not refused else (0, "refused")

    def _failure(self, code: int, said: bytes | str) -> Undelivered:
        text = said.decode("utf-8", "replace") if isinstance(said, bytes) else said
        return Undelivered(without_secrets(f"mail: {code} {text}", self._known), code)

    @property
    def _known(self) -> tuple[str, ...]:
        return (self._server.password,)

    def _connect(self) -> smtplib.SMTP:
        server = self._server
        if server.tls:
            return smtplib.SMTP_SSL(server.host, server.port, timeout=MAIL_S, context=self._trust())
        return smtplib.SMTP(server.host, server.port, timeout=MAIL_S)

    def _trust(self) -> ssl.SSLContext:
        return self._tls or ssl.create_default_context()


def _letter(sender: str, to: str, subject: str, text: str, message: str, seconds: int) -> EmailMessage:
    """Addresses are plain, and a subject is one line: nothing can add a header."""
    letter = EmailMessage(policy=SMTP)
    letter["From"] = Address("Shoal", addr_spec=sender)
    letter["To"] = Address(addr_spec=to)
    letter["Subject"] = visible(" ".join(subject.split()))
    letter["Date"] = formatdate(seconds, usegmt=True)
    letter["Message-ID"] = f"<{message}@{domain_of(sender)}>"
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content(text)
    return letter

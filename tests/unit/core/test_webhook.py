"""Webhooks without a network: signatures, templates, places, mail servers, when messages are tried again."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from standardwebhooks.webhooks import Webhook as Independent

from shoal.core.egress import Egress
from shoal.core.happening import ENDS, EVENTS, Whose, began, ended, summary
from shoal.core.job_status import Counters, JobStatus
from shoal.core.mail import MailServer
from shoal.core.message_template import PRESETS, check_template, fill_template
from shoal.core.model import JobState
from shoal.core.signing import new_secret, sign
from shoal.core.webhook import (
    LONGEST_HOLD,
    MESSAGE_TRIES,
    RETRIES,
    Webhook,
    WebhookSettings,
    WebhookState,
    fair_share,
    hold_for,
    is_address,
    next_due,
    read_place,
    shown_place,
)
from shoal.errors import InputError

WHOSE = Whose("j1", "books", ("nightly",), "default", "r1", 1_700_000_000_000)


# --- signatures ---------------------------------------------------------------------------------------------------


@given(body=st.binary(max_size=200), message=st.from_regex(r"msg_[a-z0-9]{1,28}", fullmatch=True))
def test_a_signature_is_that_of_another_implementation(body: bytes, message: str) -> None:
    secret, at = new_secret(), datetime(2026, 11, 17, 8, tzinfo=UTC)
    text = body.decode("latin-1")
    theirs = Independent(secret).sign(message, at, text)
    assert sign(secret, message, int(at.timestamp()), text.encode()) == theirs


def test_a_secret_has_as_many_bytes_as_the_convention_wants() -> None:
    secret = new_secret()
    assert secret.startswith("whsec_")
    assert 24 <= len(base64.b64decode(secret.removeprefix("whsec_"))) <= 64
    assert secret != new_secret()


# --- templates ----------------------------------------------------------------------------------------------------


@given(name=st.text(max_size=50))
@pytest.mark.parametrize("preset", PRESETS)
def test_nothing_that_a_job_is_called_breaks_out_of_its_text(preset: str, name: str) -> None:
    facts = {"summary": name, "data": {"name": name}}
    filled: Any = orjson.loads(fill_template(preset, facts))
    empty: Any = orjson.loads(fill_template(preset, {"summary": ""}))
    assert _shape(filled) == _shape(empty)


def _shape(node: Any) -> Any:
    if isinstance(node, dict):
        return {key: _shape(value) for key, value in cast("dict[str, Any]", node).items()}
    return [_shape(each) for each in cast("list[Any]", node)] if isinstance(node, list) else type(node).__name__


def test_facts_keep_their_type_where_they_stand_alone() -> None:
    text = check_template('{"n": "{data.pages}", "t": "{data.pages} pages of {data.labels}", "b": "{{x}}", "v": 1}')
    filled = orjson.loads(fill_template(text, {"data": {"pages": 3, "labels": ["a", "b"]}}))
    assert filled == {"n": 3, "t": "3 pages of a, b", "b": "{x}", "v": 1}


def test_what_an_event_has_not_is_empty() -> None:
    assert fill_template('{"t": "{data.errors}!"}', {"data": {}}) == b'{"t":"!"}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nonsense", "one of slack, discord, teams"),
        ('"text"', "object or list"),
        ('{"t": "{data.secret}"}', "`data` has job"),
        ('{"t": "{nothing}"}', "there are id, type"),
        ('{"t": "{}"}', "no name"),
        ('{"t": "{summary.__class__}"}', "no"),
        ('{"t": "{data}"}', "`data` has job"),
        ('{"t": "a { b"}', "lone"),
        ('{"t": "{summary|upper}"}', "no filter"),
        ("[" * 30 + "]" * 30, "within each other"),
        ('{"t": "' + "x" * 10_000 + '"}', "at most 10000"),
    ],
)
def test_a_template_is_checked_when_it_is_set(text: str, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("|", r"\|")):
        check_template(text)


def test_slack_calls_nobody() -> None:
    assert fill_template("slack", {"summary": "<!channel> & <@U1>"}) == b'{"text":"&lt;!channel&gt; &amp; &lt;@U1&gt;"}'


# --- places -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1/hook",
        "http://localhost/hook",
        "http://[::1]/hook",
        "http://10.0.0.1/hook",
        "http://169.254.169.254/",
        "http://2130706433/",
        "http://user:secret@example.org/",
        "ftp://example.org/",
        "file:///etc/passwd",
        "example.org",
        "mailto:",
        "mailto:a@b@example.org",
        "mailto:a@example.org?cc=b@example.org",
        "mailto:a@example.org\nBcc: b@example.org",
        "mailto:Name <a@example.org>",
        "mailto:a@example.org,b@example.org",
    ],
)
def test_a_place_that_nobody_may_be_told_at_is_refused_and_not_repeated(text: str) -> None:
    with pytest.raises(InputError) as refusal:
        read_place(text, Egress())
    assert "secret" not in str(refusal.value)
    assert refusal.value.field == "url"


def test_what_the_operator_allows_is_taken() -> None:
    assert str(read_place("http://10.0.0.1/hook", Egress.read("10.0.0.0/8"))) == "http://10.0.0.1/hook"
    assert read_place("mailto:some.body+x@example.org", Egress()) == "some.body+x@example.org"
    assert not is_address("a" * 250 + "@example.org")


@pytest.mark.parametrize(
    ("url", "seen"),
    [
        ("https://hooks.slack.example/services/T0/B0/token", "https://hooks.slack.example/services/***"),
        ("https://example.org/hook", "https://example.org/hook"),
        ("https://example.org/hook?key=1", "https://example.org/hook/***"),
        ("https://example.org/0123456789abcdef0123456789", "https://example.org/***"),
        ("mailto:a@example.org", "mailto:a@example.org"),
    ],
)
def test_what_may_be_a_token_is_not_shown(url: str, seen: str) -> None:
    assert shown_place(url) == seen


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "x"},
        {"webhook-id": "x"},
        {"Content-Length": "1"},
        {"A b": "x"},
        {"X": "a\r\nY: b"},
        {"X": "***"},
        {"X": "ü"},
        {f"X-{number}": "x" for number in range(21)},
    ],
)
def test_headers_that_are_ours_or_no_headers_are_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValidationError):
        WebhookSettings(url="https://example.org/", headers=headers)


def test_settings_say_nothing_of_secrets_when_they_are_printed() -> None:
    settings = WebhookSettings(url="https://example.org/token", headers={"Authorization": "Bearer hunter2"})
    assert "hunter2" not in repr(settings)
    assert "token" not in repr(settings)


# --- mail servers -------------------------------------------------------------------------------------------------


def test_a_mail_server_wants_tls_unless_it_is_here() -> None:
    read = MailServer.read
    assert read("") is None
    assert read("smtps://me:p%40ss@mail.example") == MailServer("mail.example", 465, True, False, "me", "p@ss")
    assert read("smtp://me:x@mail.example:25") == MailServer("mail.example", 25, False, True, "me", "x")
    assert read("smtp://localhost:2525") == MailServer("localhost", 2525, False, False)
    assert read("smtp://mail.example?tls=off") == MailServer("mail.example", 587, False, False)
    assert "hunter2" not in repr(read("smtp://me:hunter2@mail.example"))


@pytest.mark.parametrize(
    "text",
    [
        "http://mail.example",
        "smtp://",
        "smtp://mail.example:x",
        "smtp://me:hunter2@mail.example?tls=off",
        "smtps://mail.example?tls=off",
        "smtp://mail.example?tls=on",
        "smtp://mail.example/path",
    ],
)
def test_what_is_no_mail_server_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"mail server|tls=off") as refusal:
        MailServer.read(text)
    assert "hunter2" not in str(refusal.value)


# --- time ---------------------------------------------------------------------------------------------------------


def test_a_message_is_tried_for_about_three_days() -> None:
    assert timedelta(days=3) <= sum(RETRIES, timedelta()) <= timedelta(days=3.5)
    waits = [next_due(tries, 0, 0.0) for tries in range(1, MESSAGE_TRIES)]
    assert waits == [wait // timedelta(milliseconds=1) for wait in RETRIES]
    assert next_due(MESSAGE_TRIES, 0, 0.0) is None
    assert next_due(1, 0, 1.0) == 5_500


@pytest.mark.parametrize(
    ("waiting", "most", "share"),
    [([], 9, 9), ([3, 4], 9, 6), ([1, 5], 4, 3), ([9, 9, 9], 9, 3), ([1, 1, 100], 12, 10), ([1, 1, 1], 2, 0)],
)
def test_who_has_few_keeps_them(waiting: list[int], most: int, share: int) -> None:
    assert fair_share(waiting, most) == share


def test_only_a_star_stands_for_something_in_a_jobs_name() -> None:
    settings = WebhookSettings(url="https://example.org/", jobs=("books [new]?*",))
    hook = Webhook("wh_1", "default", settings, (), WebhookState.ENABLED, "", 0)
    assert hook.asks_for({"name": "books [new]? 1"})
    assert not hook.asks_for({"name": "books n! 1"})


def test_rest_is_bounded() -> None:
    assert hold_for(timedelta(days=365)) == LONGEST_HOLD
    assert hold_for(timedelta(seconds=40)) == timedelta(seconds=40)
    assert hold_for(timedelta(milliseconds=1)) == timedelta(seconds=1)


# --- events -------------------------------------------------------------------------------------------------------


def _ended(state: JobState = JobState.FINISHED, **sums: Any) -> JobStatus:
    reasons = {"done": sums.get("done", 0), "dead:http_404": sums.get("dead", 0), "done:redirect": sums.pop("moved", 0)}
    return JobStatus("j1", state, Counters(**sums), reasons, started_ms=1, ended_ms=2_001)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (_ended(done=2, dead=1), "job.finished"),
        (_ended(), "job.finished"),
        (_ended(dead=1), "job.failed"),
        (_ended(done=1, moved=1, dead=1), "job.failed"),
        (_ended(JobState.CANCELLED, dead=1), "job.cancelled"),
    ],
)
def test_how_a_job_ended(status: JobStatus, kind: str) -> None:
    what = ended(WHOSE, status)
    assert (what.type, what.key) == (kind, "job.ended:j1:2001")
    assert what.data["elapsed_seconds"] == 2.0


@pytest.mark.parametrize("kind", [*EVENTS, "ping", "something.new"])
def test_every_event_has_one_line_for_people(kind: str) -> None:
    data = {**began(WHOSE).data, "name": "a\nb", "drift": [{"detail": "items 5"}], "pages": 3, "errors": 0}
    told = summary(kind, data)
    assert told
    assert "\n" not in told
    assert (kind not in ENDS) or "3 pages" in told

"""What the commands about webhooks do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import typer

from shoal.cli.talk import cells, print_json, say, show
from shoal.core.access import read_tenant
from shoal.core.values import read_duration
from shoal.core.webhook import MessageState, Webhook
from shoal.errors import InputError, ShoalError
from shoal.store.webhook_messages import MessageFilter
from shoal.webhooks.webhooks import read_settings_of, shown, shown_attempt, shown_message

if TYPE_CHECKING:
    from shoal.wiring import Platform

TELL = timedelta(seconds=10)
"""A command waits no longer for receivers; the others are told by a worker."""
MAX_KEEP_S = 7 * 86_400


def add(
    given: Mapping[str, Any], events: str, headers: Sequence[str], template: str, tenant: str, *, json: bool
) -> None:
    """Add one, and show its secret."""
    values = {**given, "headers": _headers(headers), "template": _template(template)}
    if named := [each.strip() for each in events.split(",") if each.strip()]:
        values["events"] = named
    with _opened() as platform:
        hook, secret = platform.webhooks.add(read_settings_of(values), read_tenant(tenant))
    _show_secret(hook, secret, json=json)
    say(f"try it with: shoal webhooks test {hook.name}")


def list_webhooks(*, json: bool) -> None:
    with _opened() as platform:
        found = platform.webhooks.all()
    if json:
        print_json([{**shown(hook), "tenant": hook.tenant} for hook in found])
    elif found:
        rows = [
            (hook.name, hook.state.value, hook.tenant, shown(hook)["url"], ", ".join(hook.settings.events), hook.reason)
            for hook in found
        ]
        _print_table(("name", "state", "tenant", "where", "events", "why"), rows)
    else:
        say("no webhooks yet; add one with: shoal webhooks add https://example.org/hooks/shoal")


def show_webhook(name: str, *, json: bool) -> None:
    with _opened() as platform:
        _tell(platform.webhooks.find(name), json=json)


def pause(name: str, *, json: bool) -> None:
    with _opened() as platform:
        _tell(platform.webhooks.pause(platform.webhooks.find(name)), json=json)


def resume(name: str, *, json: bool) -> None:
    with _opened() as platform:
        _tell(platform.webhooks.resume(platform.webhooks.find(name)), json=json)


def rotate(name: str, keep: str, *, json: bool) -> None:
    seconds = read_duration(keep if not keep.isdigit() else float(keep))
    if not isinstance(seconds, float) or not 0 <= seconds <= MAX_KEEP_S:
        raise InputError(f"--keep {keep[:40]!r}: write a time up to 7d, such as 1h, or 0")
    with _opened() as platform:
        hook, secret = platform.webhooks.rotate(platform.webhooks.find(name), timedelta(seconds=seconds))
    _show_secret(hook, secret, json=json)


def remove(name: str) -> None:
    with _opened() as platform:
        hook = platform.webhooks.find(name)
        platform.webhooks.remove(hook)
    say(f"webhook {hook.name} is removed")


def test(name: str, *, json: bool) -> None:
    """A ping, carried by this very command."""
    with _opened() as platform:
        message = platform.webhooks.ping(platform.webhooks.find(name))
        _carry(platform, message, json=json)


def resend(message: str, *, json: bool) -> None:
    with _opened() as platform:
        platform.webhooks.resend(platform.webhooks.message(message))
        _carry(platform, message, json=json)


def list_messages(name: str | None, limit: int, *, failed: bool, json: bool) -> None:
    with _opened() as platform:
        hook = platform.webhooks.find(name).id if name else None
        wanted = MessageFilter(None, hook, MessageState.FAILED if failed else None)
        names = {each.id: each.name for each in platform.webhooks.all()}
        found = platform.webhooks.messages(limit, wanted)
    if json:
        print_json([{**shown_message(each), "name": names.get(each.webhook, "")} for each in found])
    elif found:
        rows = [
            (each.id, names.get(each.webhook, ""), each.type, each.state.value, str(each.tries), _briefly(each.error))
            for each in found
        ]
        _print_table(("message", "webhook", "type", "state", "tries", "why"), rows)
    else:
        say("nothing was sent so far")


def tell_now(platform: Platform, *, quiet: bool) -> None:
    """After a job in the foreground, where there may be nobody else who carries messages; nobody waits for long."""
    try:
        carried = platform.webhooks.postman.work(TELL)
    except ShoalError as exc:
        say(f"webhooks could not be told: {exc}")
        return
    if carried and not quiet:
        say("  webhooks were told; see: shoal webhooks deliveries")


def _carry(platform: Platform, message: str, *, json: bool) -> None:
    platform.webhooks.postman.carry_now(message)
    found, attempts = platform.webhooks.message(message), platform.webhooks.attempts(message)
    if json:
        print_json({**shown_message(found), "attempts": [shown_attempt(each) for each in attempts]})
    elif attempts:
        last = attempts[-1]
        said = f": {last.answer.strip()[:200]}" if last.answer.strip() else ""
        show(f"{found.state.value}: {last.reason or last.status} in {last.elapsed_ms:.0f} ms{said}")
    if found.state is not MessageState.DELIVERED:
        raise typer.Exit(1)


def _briefly(reason: str) -> str:
    """Only its name: `connect_refused`."""
    return reason.partition(":")[0]


def _opened() -> Any:
    from shoal.cli.show import opened_platform

    return opened_platform()


def _tell(hook: Webhook, *, json: bool) -> None:
    facts = shown(hook)
    if json:
        print_json({**facts, "tenant": hook.tenant})
        return
    for name, value in facts.items():
        text = ", ".join(cast("list[str]", value)) if isinstance(value, list | dict) else str(value)
        if value not in (None, "", [], {}):
            show(f"{name}: {text}")


def _show_secret(hook: Webhook, secret: str, *, json: bool) -> None:
    if json:
        print_json({**shown(hook), "tenant": hook.tenant, "secret": secret})
        return
    print(secret, flush=True)
    say(f"webhook {hook.name} ({hook.id}): messages are signed with this secret, which is shown this once")


def _headers(texts: Sequence[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for number, text in enumerate(texts, 1):
        name, colon, value = text.partition(":")
        if not colon:
            raise InputError(f"--header number {number}: write 'Name: value'")
        found[name.strip()] = value.strip()
    return found


def _template(text: str) -> str:
    if not text.startswith("@"):
        return text
    try:
        return Path(text[1:]).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise InputError(f"--template {text[:80]}: {exc}") from exc


def _print_table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name in ("name", "message", "state"))
    for row in rows:
        table.add_row(*cells(row))
    Console().print(table)

"""Commands about webhooks. What they do is in `webhook_view`, imported when one is called."""

from __future__ import annotations

from typing import Annotated

import typer

from shoal.cli import options as opt
from shoal.core.access import DEFAULT_TENANT

Url = Annotated[
    str,
    typer.Argument(metavar="URL", show_default=False,
                   help="Where to tell it: an http or https URL, or mailto:somebody@example.org."),
]  # fmt: skip
Hook = Annotated[str, typer.Argument(metavar="WEBHOOK", help="A webhook's name or id.", show_default=False)]
SomeHook = Annotated[
    str | None, typer.Argument(metavar="WEBHOOK", help="Only those to this webhook.", show_default=False)
]
Message = Annotated[str, typer.Argument(metavar="MESSAGE", help="A delivery's id: msg_…", show_default=False)]
Name = Annotated[
    str,
    typer.Option(envvar="SHOAL_WEBHOOK_NAME", show_default=False,
                 help="What to call it. [default: the host of its URL]"),
]  # fmt: skip
Events = Annotated[
    str,
    typer.Option(envvar="SHOAL_WEBHOOK_EVENTS", show_default=False,
                 help="What to tell, comma-separated: job.started, job.finished, job.failed, job.cancelled, job.drift, "
                      "items, page.changed. [default: ends of jobs, and drift]"),
]  # fmt: skip
Jobs = Annotated[
    list[str] | None,
    typer.Option("--job-name", envvar="SHOAL_WEBHOOK_JOBS", show_default=False,
                 help="Only jobs of this name; * stands for any text (several: any of them)."),
]  # fmt: skip
Labels = Annotated[
    list[str] | None,
    typer.Option("--label", envvar="SHOAL_WEBHOOK_LABELS", show_default=False,
                 help="Only jobs with this label (several: any of them)."),
]  # fmt: skip
Headers = Annotated[
    list[str] | None,
    typer.Option("--header", "-H", envvar="SHOAL_WEBHOOK_HEADERS", show_default=False,
                 help="Send this along: 'Authorization: Bearer …'. It is never shown again."),
]  # fmt: skip
Template = Annotated[
    str,
    typer.Option(envvar="SHOAL_WEBHOOK_TEMPLATE", show_default=False,
                 help="Their shape: slack, discord, teams, or JSON with {names} in its texts; @FILE reads one."),
]  # fmt: skip
Tenant = Annotated[str, typer.Option(envvar="SHOAL_WEBHOOK_TENANT", help="Whose jobs it is told about.")]
Keep = Annotated[
    str,
    typer.Option(envvar="SHOAL_WEBHOOK_KEEP",
                 help="So long are messages signed with the secret before, too: 1h, 1d; 0 ends it at once."),
]  # fmt: skip
Failed = Annotated[bool, typer.Option("--failed", help="Only those that were given up.")]
Limit = Annotated[int, typer.Option(envvar="SHOAL_LIMIT", min=1, max=10_000, help="How many to list.")]

app = typer.Typer(
    name="webhooks", help="Let others be told what happens: add, test, pause and watch webhooks.", no_args_is_help=True
)


@app.command()
def add(
    url: Url,
    name: Name = "",
    events: Events = "",
    job_name: Jobs = None,
    label: Labels = None,
    header: Headers = None,
    template: Template = "",
    tenant: Tenant = DEFAULT_TENANT,
    json: opt.Json = False,
) -> None:
    """Add a webhook, and print the secret that its messages are signed with, this once.

    shoal webhooks add https://example.org/hooks/shoal --events job.finished,items

    shoal webhooks add https://hooks.slack.example/services/T0/B0/x --name team --template slack

    shoal webhooks add mailto:somebody@example.org --label nightly
    """
    from shoal.cli import webhook_view

    given = {"url": url, "name": name, "jobs": job_name or (), "labels": label or ()}
    webhook_view.add(given, events, header or [], template, tenant, json=json)


@app.command("list")
def list_webhooks(json: opt.Json = False) -> None:
    """List webhooks with their state.

    shoal webhooks list
    """
    from shoal.cli import webhook_view

    webhook_view.list_webhooks(json=json)


@app.command()
def show(webhook: Hook, json: opt.Json = False) -> None:
    """Show a webhook: what it is told, how it does.

    shoal webhooks show team
    """
    from shoal.cli import webhook_view

    webhook_view.show_webhook(webhook, json=json)


@app.command()
def test(webhook: Hook, json: opt.Json = False) -> None:
    """Send a `ping` now, and show the answer.

    shoal webhooks test team
    """
    from shoal.cli import webhook_view

    webhook_view.test(webhook, json=json)


@app.command()
def pause(webhook: Hook, json: opt.Json = False) -> None:
    """Send nothing; what happens meanwhile waits.

    shoal webhooks pause team
    """
    from shoal.cli import webhook_view

    webhook_view.pause(webhook, json=json)


@app.command()
def resume(webhook: Hook, json: opt.Json = False) -> None:
    """Go on with one that is paused or was disabled; what waits is sent.

    shoal webhooks resume team
    """
    from shoal.cli import webhook_view

    webhook_view.resume(webhook, json=json)


@app.command()
def rotate(webhook: Hook, keep: Keep = "1d", json: opt.Json = False) -> None:
    """Make a new secret and print it, this once; the old one stays good for a while.

    shoal webhooks rotate team --keep 1h
    """
    from shoal.cli import webhook_view

    webhook_view.rotate(webhook, keep, json=json)


@app.command()
def rm(webhook: Hook) -> None:
    """Remove a webhook, with what waits for it.

    shoal webhooks rm team
    """
    from shoal.cli import webhook_view

    webhook_view.remove(webhook)


@app.command()
def deliveries(webhook: SomeHook = None, failed: Failed = False, limit: Limit = 20, json: opt.Json = False) -> None:
    """List what was sent, the newest first, and how that went.

    shoal webhooks deliveries team --failed
    """
    from shoal.cli import webhook_view

    webhook_view.list_messages(webhook, limit, failed=failed, json=json)


@app.command()
def resend(message: Message, json: opt.Json = False) -> None:
    """Send a message once more, now, with the same id, and show the answer.

    shoal webhooks resend msg_0123456789abcdef0123456789ab
    """
    from shoal.cli import webhook_view

    webhook_view.resend(message, json=json)

"""What explain does."""

from __future__ import annotations

from shoal.cli.outage import slow_is_said
from shoal.cli.show import WAITED_FOR, opened_platform
from shoal.cli.talk import print_json, show
from shoal.core.explanation import Explanation, Step, moment
from shoal.core.redact import visible

NO_TIME = " " * len(moment(0))


def show_explanation(job: str, url: str, *, json: bool) -> None:
    """Print what became of a URL."""
    with opened_platform() as platform, slow_is_said(WAITED_FOR):
        row = platform.control.job(platform.control.find(job))
        found = platform.explainer.explain(row, url)
    if json:
        print_json(found.as_json)
    else:
        show("\n".join(_lines(found)))


def _lines(found: Explanation) -> list[str]:
    sure = "" if found.certain else " (not certain)"
    head = [visible(f"{found.url} in job {found.job}"), visible(f"{found.verdict.value}{sure}: {found.summary}"), ""]
    return [*head, *(_line(step) for step in found.steps)]


def _line(step: Step) -> str:
    at = NO_TIME if step.at_ms is None else moment(step.at_ms)
    rule = "" if step.recorded else "  (by the job's rules)"
    return visible(f"{at}  {step.name:<14} {step.reason}{rule}")

"""Which of a job's rules would decide about a URL: scope, robots.txt, depth, budgets. Nothing here was recorded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from shoal.core.explanation import Step
from shoal.core.frozen import frozen
from shoal.core.job_status import JobStatus
from shoal.core.model import Request
from shoal.core.pattern import compile_pattern
from shoal.core.robots import RobotsCopy
from shoal.core.robots import parse as parse_robots
from shoal.core.rulebook import Verdict as RobotsVerdict
from shoal.core.scope import Scope
from shoal.core.sitemaps import asks_robots, is_guess
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.fetch.robots_inquiry import settles

SHOWN_HOSTS = 5
BUDGETS = {
    "over_budget": "pages",
    "over_bytes": "bytes",
    "over_seconds": "seconds",
    "over_host_budget": "host_pages",
    "over_host_bytes": "host_bytes",
    "over_host_seconds": "host_seconds",
}
"""Reason of what was left out → the setting behind it."""


def scope_step(spec: JobSpec, url: Url) -> Step | None:
    """The rule that keeps a link to this URL out; None when none does."""
    reason = Scope.of(spec.hosts if spec.goes_on else (), spec.allow, spec.deny).refuses(url)
    if reason is None:
        return None
    rule, told = _rule_behind(reason, spec, url)
    return Step("filtered", told, detail={"reason": reason, "rule": rule}, recorded=False)


def _rule_behind(reason: str, spec: JobSpec, url: Url) -> tuple[str, str]:
    """(the rule, the same for people)"""
    if reason == "denied":
        pattern = next(text for text in spec.deny if compile_pattern(text).search(str(url)))
        return f"deny: {pattern}", f"filtered by deny: {pattern}"
    if reason == "not_allowed":
        return f"allow: {', '.join(spec.allow)}", f"filtered: no pattern of allow matches ({', '.join(spec.allow)})"
    more = f" and {len(spec.hosts) - SHOWN_HOSTS} more" if len(spec.hosts) > SHOWN_HOSTS else ""
    hosts = ", ".join(spec.hosts[:SHOWN_HOSTS]) + more
    return f"hosts: {hosts}", f"filtered: {url.host} is another host than those of the job ({hosts})"


def sitemap_step(spec: JobSpec, url: Url) -> Step | None:
    """A request that is about sitemaps leaves no row."""
    request = Request(url)
    if asks_robots(spec, request):
        told = "it was only asked which sitemaps robots.txt announces; it is no page of the job"
        return Step("filtered", told, detail={"reason": "sitemaps_asked"}, recorded=False)
    if is_guess(spec, request):
        told = "a sitemap was looked for here, and there is none"
        return Step("filtered", told, detail={"reason": "no_sitemap"}, recorded=False)
    return None


@frozen
class RobotsWord:
    """What a copy of robots.txt says about a path."""

    copy: RobotsCopy
    verdict: RobotsVerdict
    group: str

    @property
    def detail(self) -> dict[str, str | int | float | bool | None]:
        return {
            "allowed": self.verdict.allowed,
            "line": self.verdict.line or None,
            "rule": self.verdict.rule or None,
            "agent": self.group or None,
            "version": self.copy.version or None,
        }


def robots_word(copy: RobotsCopy | None, url: Url) -> RobotsWord | None:
    """None when there is no copy that says anything."""
    if copy is None or not settles(copy.status):
        return None
    robots = parse_robots(copy.body)
    return RobotsWord(copy, robots.judge(url.target), robots.group)


def robots_step(spec: JobSpec, url: Url, copy: RobotsCopy | None) -> Step:
    """What robots.txt would say, as far as it is known."""
    if not spec.robots:
        return Step("robots", "the job does not ask robots.txt (robots: false)", recorded=False)
    word = robots_word(copy, url)
    if word is None:
        known = "could not be had when it was last asked for" if copy else "has not been read yet"
        return Step("robots", f"robots.txt of {url.origin} {known}", recorded=False)
    fetched, verdict = word.copy.fetched_ms, word.verdict
    if not verdict.line:
        told = "robots.txt has no rule against it"
    else:
        says = "allows" if verdict.allowed else "refuses"
        told = f"robots.txt {says} it: {verdict.named}, in the group for {word.group}"
    return Step("robots", told, fetched, word.detail, recorded=False)


def would_happen(
    spec: JobSpec, url: Url, status: JobStatus | None, copy: RobotsCopy | None, budget: Mapping[str, str]
) -> Iterator[Step]:
    """What would become of a link to this URL."""
    refusal = scope_step(spec, url)
    if refusal:
        yield refusal
        return
    yield Step("scope", "within the job's hosts and patterns", recorded=False)
    if not spec.follow and not spec.spider:
        yield Step("depth", "the job does not follow links: only what is submitted is fetched", recorded=False)
    elif spec.depth is not None:
        told = f"links are followed up to depth {spec.depth}; one that only deeper pages have is not found"
        yield Step("depth", told, detail={"depth": spec.depth}, recorded=False)
    if spec.nofollow:
        yield Step("nofollow", "links that are marked nofollow are left out", recorded=False)
    if status and (cut := status.reasons.get("done:page_cut", 0)):
        told = f"{cut:,} pages had more in them than is taken: links of theirs may be missing"
        yield Step("cut", told, detail={"pages": cut})
    yield robots_step(spec, url, copy)
    yield from budget_steps(spec, status, budget)


def budget_steps(spec: JobSpec, status: JobStatus | None, budget: Mapping[str, str]) -> Iterator[Step]:
    """Budgets of the job, with what is left of them where somebody counts."""
    used = _used(status, budget)
    for name in BUDGETS.values():
        limit = getattr(spec, name)
        if limit is None:
            continue
        if name not in used:
            told = f"the job has a budget: {name} {limit:g}"
        elif used[name] >= limit:
            told = f"the budget is used up: {name} {used[name]:g} of {limit:g}"
        else:
            told = f"within the budget: {name} {used[name]:g} of {limit:g}"
        yield Step("budget", told, detail={"budget": name, "limit": limit, "used": used.get(name)}, recorded=False)


def _used(status: JobStatus | None, budget: Mapping[str, str]) -> dict[str, float]:
    used: dict[str, float] = {}
    if status is not None:
        c = status.counters
        used["pages"] = c.admitted - c.dead - c.dropped - status.redirects
        used["bytes"] = c.received
        used["seconds"] = status.elapsed.total_seconds()
    for name in ("host_pages", "host_bytes"):
        if name in budget:
            used[name] = float(budget[name])
    if status is not None and budget.get("host_since"):
        used["host_seconds"] = max(0.0, (status.now_ms - float(budget["host_since"])) / 1000)
    return used

"""What a worker process knows about a job while it works on it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from shoal.core.access import DEFAULT_TENANT
from shoal.core.frozen import frozen
from shoal.core.model import Engine, Request
from shoal.core.retry import RetryPolicy
from shoal.core.reuse import NO_RULES, Rules, has_conditions
from shoal.core.sitemaps import is_rendered
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.extract.links import Links
from shoal.extract.trail import Trail
from shoal.fetch.port import FetchLimits

SHORTEST_SECRET = 4
"""Characters; anything shorter is found in texts that have nothing to do with it."""


@frozen
class JobContext:
    """A job's rules in the form in which a slice uses them."""

    job: str
    spec: JobSpec
    trail: Trail
    extraction: str
    """What is taken from its pages."""
    noise: str
    """The rules for digests of its pages; empty when it wants none."""
    retry: RetryPolicy
    limits: FetchLimits
    secret_headers: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    """Hosts on this machine that may be asked."""
    request_id: str = ""
    """Of the submission; in every log line and row about the job."""
    trace: str = ""
    """Of the submission, as a `traceparent`; empty when it is not traced."""
    tenant: str = DEFAULT_TENANT
    reuse: Rules = NO_RULES
    """What it says about pages that earlier jobs have."""

    @classmethod
    def of(
        cls, job: str, spec: JobSpec, request_id: str = "", trace: str = "", tenant: str = DEFAULT_TENANT
    ) -> JobContext:
        total = timedelta(seconds=spec.timeout)
        return cls(
            job,
            spec,
            Trail.of(spec),
            spec.extraction,
            spec.noise,
            RetryPolicy(retries=spec.retries),
            FetchLimits(
                connect=min(timedelta(seconds=10), total),
                first_byte=min(timedelta(seconds=20), total),
                total=total,
                max_body=spec.max_body,
            ),
            spec.secret_headers,
            frozenset(spec.local),
            request_id,
            trace,
            tenant,
            Rules(
                None if spec.max_age is None else round(spec.max_age * 1000),
                spec.revisit,
                asks=not has_conditions(spec.headers),
            ),
        )

    def renders(self, request: Request) -> bool:
        """Does this request go to the browser?"""
        return is_rendered(self.spec, request)

    @property
    def require(self) -> str | None:
        """The selector without which a page needs a browser; None: it is not asked whether it does."""
        if self.spec.engine is not Engine.AUTO:
            return None
        return self.spec.browser.require if self.spec.browser else ""

    def headers_for(self, url: Url) -> Mapping[str, str]:
        """What to send to this origin: secrets go where the user sent them, and nowhere else."""
        if not self.secret_headers or url.origin in self.spec.trusted:
            return self.spec.headers
        return {name: value for name, value in self.spec.headers.items() if name not in self.secret_headers}

    @property
    def secrets(self) -> list[str]:
        """Values that no text about the job may repeat, the longest first: with `Bearer` before them and without."""
        values = [self.spec.headers[name] for name in self.secret_headers]
        parts = [*values, *(value.rpartition(" ")[2] for value in values)]
        parts += [part.partition("=")[2].strip() for value in values for part in value.split(";")]
        parts += self.spec.browser.secrets if self.spec.browser else ()
        return sorted({part for part in parts if len(part) >= SHORTEST_SECRET}, key=len, reverse=True)

    @property
    def links(self) -> Links:
        """What this process remembers of the job's links."""
        return self.trail.links


def request_id_of(contexts: Mapping[str, JobContext], job: str) -> str:
    """Of a job's submission, for the logs; empty when it is not known here."""
    context = contexts.get(job)
    return context.request_id if context else ""

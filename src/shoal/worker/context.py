"""What a worker process knows about a job while it works on it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from shoal.core.field import Field, parse_fields
from shoal.core.retry import RetryPolicy
from shoal.core.scope import Scope
from shoal.core.spec import JobSpec
from shoal.core.url import Url
from shoal.extract.links import Links
from shoal.fetch.port import FetchLimits


@dataclass(frozen=True, slots=True)
class JobContext:
    """A job's rules in the form in which a slice uses them."""

    job: str
    spec: JobSpec
    links: Links
    fields: tuple[Field, ...]
    retry: RetryPolicy
    limits: FetchLimits
    secret_headers: frozenset[str] = frozenset()
    request_id: str = ""
    """Of the submission; in every log line and row about the job."""

    @classmethod
    def of(cls, job: str, spec: JobSpec, request_id: str = "") -> JobContext:
        scope = Scope.of(spec.hosts if spec.follow else (), spec.allow, spec.deny)
        total = timedelta(seconds=spec.timeout)
        return cls(
            job,
            spec,
            Links(scope),
            parse_fields(spec.fields),
            RetryPolicy(retries=spec.retries),
            FetchLimits(
                connect=min(timedelta(seconds=10), total),
                first_byte=min(timedelta(seconds=20), total),
                total=total,
                max_body=spec.max_body,
            ),
            spec.secret_headers,
            request_id,
        )

    def headers_for(self, url: Url) -> Mapping[str, str]:
        """What to send to this origin: secrets go where the user sent them, and nowhere else."""
        if not self.secret_headers or url.origin in self.spec.trusted:
            return self.spec.headers
        return {name: value for name, value in self.spec.headers.items() if name not in self.secret_headers}

    @property
    def heeds_directives(self) -> bool:
        """Does it matter what a page says to robots about itself?"""
        return self.spec.nofollow or self.spec.noindex

    def follows_from(self, depth: int) -> bool:
        """Are links of a page at this depth wanted?"""
        return self.spec.follow and (self.spec.depth is None or depth < self.spec.depth)

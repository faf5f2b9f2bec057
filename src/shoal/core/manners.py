"""How hosts are treated when nobody says otherwise, and what is decided about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import StrEnum

from shoal.core.frozen import frozen

BURST_WINDOW_S = 0.1
"""A bucket holds one request, and this much time's worth more: what a late lease misses is made up for."""


def most_within(seconds: float, rate: float) -> int:
    """How many requests a bucket of this rate gives within any stretch of time; the rate is not 0."""
    return 1 + int(rate * (seconds + BURST_WINDOW_S) + 1e-9)


class LimitSource(StrEnum):
    """Whose word a limit is, the strongest first."""

    OPERATOR = "operator"
    JOB = "job"
    ROBOTS = "robots"
    DEFAULT = "default"
    THROTTLE = "throttle"
    """Below all of them: the host cannot take more at the moment."""


class Signal(StrEnum):
    """What a fetch tells about the host, whatever it tells about the page."""

    NONE = ""
    """The host was not asked."""
    OK = "ok"
    ALIVE = "alive"
    """It answered, with an error of its own."""
    BUSY = "busy"
    """It wants to be asked less: 429 or 503."""
    SLOW = "slow"
    """It was asked and kept silent."""
    DOWN = "down"
    """It takes no connection, or its name leads nowhere."""


@frozen
class Limit:
    """What a host was asked under."""

    rate: float
    """Requests a second; 0 is unlimited."""
    parallel: int
    """Requests at once; 0 is unlimited."""
    source: LimitSource
    """Whose word the rate is."""


@frozen
class Manners:
    """The fleet's defaults; every process of a fleet must have the same."""

    rate: float = 4.0
    """Requests a second to a host that nobody has said anything about; 0 is unlimited."""
    parallel: int = 2
    """Requests to it at once; 0 is unlimited."""
    address_parallel: int = 0
    """Requests at once to one address, however many names it has; 0 does not look at addresses."""
    by_domain: bool = False
    """Hosts of one registrable domain share one bucket."""
    tenant_weights: Mapping[str, float] = field(default_factory=dict[str, float])
    """Tenant → share; 1 when not named."""

    def weight_of(self, tenant: str) -> float:
        return self.tenant_weights.get(tenant, 1.0)

    @property
    def introduces(self) -> bool:
        """Must a host's address or domain be known before it is asked?"""
        return self.by_domain or self.address_parallel > 0


DEFAULT_MANNERS = Manners()


def read_weights(text: str) -> dict[str, float]:
    """`acme=3,other=0.5` → tenant → weight."""
    weights: dict[str, float] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        tenant, _, weight = part.partition("=")
        try:
            weights[tenant.strip()] = float(weight)
        except ValueError as exc:
            raise ValueError(f"{part!r} is not tenant=weight, such as acme=3") from exc
        if not 0.01 <= weights[tenant.strip()] <= 1000:
            raise ValueError(f"{part!r}: a weight is between 0.01 and 1000")
    return weights

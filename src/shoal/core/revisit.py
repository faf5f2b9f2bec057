"""How often pages are visited again: what a job says about it, and how each page's own interval follows its changes."""

from __future__ import annotations

import re
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from shoal.core.values import STORED, Duration

LAST = "last"
"""In place of a job's id: the newest finished job of the same name."""
SHORTEST_S, LONGEST_S = 3_600.0, 2_592_000.0
"""An hour, thirty days: unless the job says otherwise."""
_SPAN = re.compile(r"(?P<min>[^.]+(?:\.\d[^.]*)?)\.\.(?P<max>.+)\Z")
_FORMS = "write true, a span such as 1h..30d, or a mapping of min and max"


class Revisiting(BaseModel):
    """Between these two, a page's interval halves when it has changed, and grows by half when it has not."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

    min: Duration = SHORTEST_S
    """No page is asked for more often than this."""
    max: Duration = Field(default=LONGEST_S, validate_default=True)
    """No page is asked for less often than this."""

    @field_validator("max")
    @classmethod
    def _is_a_span(cls, longest: float, info: ValidationInfo) -> float:
        if info.context != STORED and longest < info.data.get("min", 0.0):
            raise ValueError("it is shorter than min")
        return longest

    def next_interval(self, before_ms: int, *, changed: bool | None) -> int:
        """The interval of a page that was asked for again after this one; None: nobody knows whether it has changed."""
        grown = before_ms if changed is None else before_ms / 2 if changed else before_ms * 1.5
        return self.within(grown)

    def within(self, interval_ms: float) -> int:
        """The interval that is nearest to this one; an earlier run may have had another span."""
        return round(min(max(interval_ms, self.min * 1000), self.max * 1000))


def _read(value: object) -> object:
    """`true`, `1h..30d`, or a mapping; `false` is nothing."""
    if isinstance(value, bool):
        return {} if value else None
    if isinstance(value, str):
        words: dict[str, dict[str, Any] | None] = {"true": {}, "false": None}
        if value.strip().lower() in words:
            return words[value.strip().lower()]
        found = _SPAN.match(value.strip())
        if found is None:
            raise ValueError(_FORMS)
        return {"min": found["min"].strip(), "max": found["max"].strip()}
    return value


Revisit = Annotated[Revisiting | None, BeforeValidator(_read)]

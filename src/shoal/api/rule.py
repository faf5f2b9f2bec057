"""Rules of routes whose addresses are put together when somebody asks for one, which hardly anybody does.

For each rule Werkzeug writes two functions that make its addresses, and compiles them: half of what an application of
ours took to make.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from werkzeug.routing import Rule

Build = Callable[..., tuple[str, str]]


class RouteRule(Rule):
    """A rule like any other."""

    def _compile_builder(self, append_unknown: bool = True) -> Build:
        compiled: Build | None = None
        compile_now = super()._compile_builder

        def build(rule: RouteRule, /, **values: Any) -> tuple[str, str]:
            nonlocal compiled
            if compiled is None:
                compiled = compile_now(append_unknown)
            return compiled(rule, **values)

        return build

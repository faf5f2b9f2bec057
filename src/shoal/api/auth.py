"""Who may do what. One table names a permission for every route, or None where any key does; a route that it does not
name is closed.

On loopback with no key made the API is open. It then answers only to loopback names and to no other site's pages, so
that a web page cannot drive it from a browser on the same machine.
"""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from hashlib import sha256
from ipaddress import ip_address
from urllib.parse import urlsplit

import structlog
from flask import Response, g, request
from werkzeug.exceptions import MethodNotAllowed

from shoal.api.cookie import PROOF, given_token, is_proved
from shoal.api.problems import problem
from shoal.core.access import DEFAULT_TENANT, EVERYBODY, Permission, Principal
from shoal.errors import RedisUnavailable
from shoal.frontier.frontier import Frontier
from shoal.frontier.sessions import Sessions
from shoal.store.keys import KeyStore

log = structlog.get_logger()

READ, SUBMIT, ADMIN = Permission.READ, Permission.SUBMIT, Permission.ADMIN

OPEN = frozenset({"health.healthz", "health.readyz", "session.log_in", "dashboard.home", "dashboard.part"})
"""The only routes that nobody needs a key for."""

RULES: dict[str, Permission | None] = {
    "jobs.submit_job": SUBMIT,
    "jobs.list_jobs": READ,
    "jobs.show_job": READ,
    "jobs.change_job": SUBMIT,
    "jobs.delete_job": SUBMIT,
    "jobs.add_urls": SUBMIT,
    "jobs.pause_job": SUBMIT,
    "jobs.resume_job": SUBMIT,
    "jobs.cancel_job": SUBMIT,
    "jobs.close_job": SUBMIT,
    "results.list_pages": READ,
    "results.list_items": READ,
    "results.list_errors": READ,
    "results.list_deliveries": READ,
    "results.list_dead": READ,
    "results.replay_dead": SUBMIT,
    "results.export": READ,
    "results.page_body": READ,
    "results.page_capture": READ,
    "extractions.start_extraction": SUBMIT,
    "extractions.list_extractions": READ,
    "extractions.show_extraction": READ,
    "extractions.drop_extraction": SUBMIT,
    "extractions.compare_versions": READ,
    "explain.explain_url": READ,
    "changes.list_changes": READ,
    "changes.sum_changes": READ,
    "changes.show_page_change": READ,
    "quality.show_fields": READ,
    "quality.list_quarantine": READ,
    "scrape.scrape": SUBMIT,
    "events.follow_job": READ,
    "schedules.add_schedule": SUBMIT,
    "schedules.list_schedules": READ,
    "schedules.preview_timing": READ,
    "schedules.show_schedule": READ,
    "schedules.change_schedule": SUBMIT,
    "schedules.remove_schedule": SUBMIT,
    "schedules.pause_schedule": SUBMIT,
    "schedules.resume_schedule": SUBMIT,
    "schedules.run_schedule": SUBMIT,
    "schedules.list_runs": READ,
    "schedules.preview_schedule": READ,
    "operations.list_hosts": ADMIN,
    "operations.show_host": ADMIN,
    "operations.change_host": ADMIN,
    "operations.clear_host": ADMIN,
    "operations.audit_host": ADMIN,
    "operations.list_proxies": ADMIN,
    "operations.list_workers": ADMIN,
    "operations.advise_workers": ADMIN,
    "operations.list_queues": READ,
    "operations.show_stats": READ,
    "history.show_job_history": READ,
    "history.show_fleet_history": READ,
    "health.metrics": ADMIN,
    "openapi.openapi": READ,
    "openapi.doc_url": READ,
    "openapi.static": READ,
    "swagger.swagger": READ,
    "swagger.static": READ,
    "swagger.oauth2-redirect": READ,
    "webhooks.add_webhook": SUBMIT,
    "webhooks.list_webhooks": READ,
    "webhooks.show_webhook": READ,
    "webhooks.change_webhook": SUBMIT,
    "webhooks.remove_webhook": SUBMIT,
    "webhooks.test_webhook": SUBMIT,
    "webhooks.rotate_secret": SUBMIT,
    "webhooks.list_messages": READ,
    "webhooks.show_message": READ,
    "webhooks.resend_message": SUBMIT,
    "session.show_session": None,
    "session.log_out": None,
    "operations.show_overview": READ,
}

OF_ALL_TENANTS = frozenset(
    {"operations.list_queues", "operations.show_stats", "operations.show_overview", "history.show_fleet_history"}
)
"""Sums over the work of everybody: a tenant's key would tell how busy the others are."""

UNLIMITED = frozenset({"health.metrics"})
"""No key asks too often here: to count its requests takes a Redis, and this is asked when there is none."""

REMEMBER_S = 5.0
"""A key that was looked up is known for this long; so long does a revoked one still work at most."""
BURST_S = 1.0
MAX_REMEMBERED = 10_000
_OWN_ONLY = (
    "this key sees the jobs of its own tenant only: sums over all tenants need "
    f"a key of the tenant {DEFAULT_TENANT!r}, or the scope {Permission.ADMIN.value!r}"
)


class Guard:
    """Finds out who asks, and whether they may."""

    def __init__(self, keys: KeyStore, frontier: Frontier, sessions: Sessions) -> None:
        self._keys = keys
        self._frontier = frontier
        self._sessions = sessions
        self._known: dict[tuple[str, bytes], tuple[float, Principal | None]] = {}
        self._needed: tuple[float, bool] = (0.0, True)
        self._lock = threading.Lock()

    def check(self) -> Response | None:
        """Before each request: None lets it pass, with `g.principal` set."""
        endpoint = request.endpoint
        if endpoint is None or endpoint in OPEN:
            g.principal = None
            return None if endpoint else self._check_unknown()
        principal = self._identify()
        if isinstance(principal, Response):
            return principal
        g.principal = principal
        needed = RULES.get(endpoint)
        if endpoint not in RULES or (needed and not principal.may(needed)):
            wanted = needed.value if needed else "no"
            return problem(403, f"this key may not do that: it needs the scope {wanted!r}")
        if endpoint in OF_ALL_TENANTS and not principal.sees_fleet:
            return problem(403, _OWN_ONLY)
        return None if endpoint in UNLIMITED else self._throttle(principal)

    def _check_unknown(self) -> Response | None:
        """What does not exist is told to those who may ask; that a method is none, to everybody."""
        if isinstance(request.routing_exception, MethodNotAllowed):
            return None
        principal = self._identify()
        return principal if isinstance(principal, Response) else None

    def _identify(self) -> Principal | Response:
        key = _given_key()
        if key is not None:
            principal = self._principal("key", key, self._keys.principal)
            if principal and _is_sent_by_browser() and (refusal := foreign_origin()):
                return refusal
            return principal or unauthorized("this API key is not known, or was revoked")
        if (token := given_token()) and (principal := self._logged_in(token)):
            return self._checked(token, principal)
        if self._keys_needed():
            return unauthorized("an API key is needed: Authorization: Bearer KEY")
        return _foreign() or EVERYBODY

    def _logged_in(self, token: str) -> Principal | None:
        """Whom a browser's cookie stands for."""
        prefix = self._sessions.find(token)
        return self._principal("prefix", prefix, self._keys.principal_of) if prefix else None

    def _checked(self, token: str, principal: Principal) -> Principal | Response:
        """A browser sends its cookie for pages of others as well."""
        if refusal := foreign_origin():
            return refusal
        if not is_proved(token):
            return problem(403, f"a change by a browser needs the header {PROOF}: GET /api/v1/session has it")
        g.by_cookie = True
        return principal

    def _principal(self, kind: str, name: str, look_up: Callable[[str], Principal | None]) -> Principal | None:
        """What was found lately, or is found now. The kind keeps apart what is public, a prefix, from a key."""
        now, place = time.monotonic(), (kind, sha256(name.encode("utf-8", "replace")).digest())
        with self._lock:
            known = self._known.get(place)
        if known and now - known[0] < REMEMBER_S:
            return known[1]
        principal = look_up(name)
        with self._lock:
            if len(self._known) >= MAX_REMEMBERED:
                self._known.clear()
            self._known[place] = (now, principal)
        return principal

    def _keys_needed(self) -> bool:
        """Once a key was made, everybody needs one."""
        checked_at, needed = self._needed
        if time.monotonic() - checked_at >= REMEMBER_S or checked_at == 0.0:
            needed = self._keys.any_made()
            self._needed = (time.monotonic(), needed)
        return needed or not is_loopback(request.environ.get("REMOTE_ADDR", ""))

    def _throttle(self, principal: Principal) -> Response | None:
        if principal.key is None or not principal.rate:
            return None
        try:
            wait = self._frontier.throttle(principal.key, principal.rate, principal.rate * BURST_S)
        except RedisUnavailable as exc:
            log.warning("throttle_failed", error=str(exc))
            return None
        if wait > timedelta():
            return problem(429, f"this key may ask {principal.rate:g} times a second", retry_after=wait)
        return None


def _given_key() -> str | None:
    if key := request.headers.get("X-API-Key"):
        return key.strip()
    kind, _, rest = request.headers.get("Authorization", "").partition(" ")
    match kind.lower():
        case "":
            return None
        case "bearer":
            return rest.strip()
        case "basic":
            return _basic_password(rest)
        case _:
            return ""


def _basic_password(text: str) -> str:
    """A browser can send a key as the password of any user."""
    try:
        return base64.b64decode(text, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def unauthorized(detail: str) -> Response:
    """Who are you?"""
    wants_page = "text/html" in request.headers.get("Accept", "")
    scheme = 'Basic realm="Shoal: any user, an API key as the password"' if wants_page else "Bearer"
    return problem(401, detail, headers={"WWW-Authenticate": scheme})


def _foreign() -> Response | None:
    """An open API serves this machine: not a name that points here, not a page of another site."""
    host = urlsplit(f"//{request.host}").hostname or ""
    if not host or not is_loopback(host):
        return problem(403, f"without keys, the API answers to 127.0.0.1 and localhost only, not to {host[:100]!r}")
    if "X-Forwarded-For" in request.headers or "Forwarded" in request.headers:
        return problem(403, "without keys, the API answers to this machine only, not through a proxy")
    return foreign_origin()


def foreign_origin() -> Response | None:
    """A refusal of what a page of another site asks for."""
    origin = request.headers.get("Origin")
    if origin is not None and origin not in (f"http://{request.host}", f"https://{request.host}"):
        return problem(403, "the API takes no requests from other sites' pages")
    return None


def _is_sent_by_browser() -> bool:
    """A browser adds a password that it knows to whatever any page asks of this host."""
    return request.headers.get("Authorization", "").lower().startswith("basic ")


def is_loopback(host: str) -> bool:
    """Is this a name or an address of this very machine?"""
    if host in ("localhost", ""):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False

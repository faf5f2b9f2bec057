"""Logging in to the dashboard with an API key, and out again. Who tries wrong keys has to wait."""

from __future__ import annotations

from datetime import timedelta
from ipaddress import IPv6Address, ip_address, ip_network
from math import ceil
from typing import Any, cast

from flask import Response, g, request

from shoal.api.answers.fleet import SessionView
from shoal.api.auth import foreign_origin, is_loopback, unauthorized
from shoal.api.context import answer, api
from shoal.api.cookie import drop_cookie, given_token, proof_of, put_cookie
from shoal.api.problems import problem
from shoal.api.routes import Routes
from shoal.api.schemas import LoginBody
from shoal.core.access import Permission, Principal
from shoal.frontier.attempts import MOST
from shoal.frontier.sessions import LIFETIME
from shoal.store.keys import prefix_of

routes = Routes("session", "/api/v1/session", "For browsers")


@routes.get("", {200: SessionView})
def show_session() -> Response:
    """Show who asks: tenant, scopes, and what must go with each change when it is a browser that is logged in."""
    token = given_token()
    return answer(_shown(cast(Principal, g.principal), token if g.get("by_cookie") else None))


@routes.post("", {200: SessionView})
def log_in(body: LoginBody) -> Response:
    """Log a browser in with an API key: from now on its cookie stands for the key."""
    if refusal := foreign_origin():
        return refusal
    key = body.key.strip()
    whose = [f"address {_client()}", *([f"key {prefix}"] if (prefix := prefix_of(key)) else [])]
    if wait := api().attempts.begin(*whose):
        return problem(429, _too_often(wait), retry_after=wait)
    principal = api().keys.principal(key)
    if principal is None or principal.key is None:
        return unauthorized("this API key is not known, or was revoked")
    api().attempts.forgive(*whose)
    if older := given_token():
        api().sessions.close(older)  # a browser has one session: nobody could log out of the other
    token = api().sessions.open(principal.key)
    response = answer(_shown(principal, token))
    put_cookie(response, token, LIFETIME)
    return response


@routes.delete("", {204: None})
def log_out() -> Response:
    """Log the browser out."""
    if token := given_token():
        api().sessions.close(token)
    response = Response(status=204)
    drop_cookie(response)
    return response


def _too_often(wait: timedelta) -> str:
    return (
        f"{MOST} log-ins have failed from this address, or with this key; try again in {ceil(wait.total_seconds())} s"
    )


def _client() -> str:
    """Who asks: behind a proxy on this machine, whom that names. A network of one house counts as one."""
    given = request.environ.get("REMOTE_ADDR", "")
    if is_loopback(given) and (named := request.headers.get("X-Forwarded-For", "").rpartition(",")[2].strip()):
        given = named
    try:
        address = ip_address(given)
    except ValueError:
        return given[:100]
    return str(ip_network((address, 64), strict=False)) if isinstance(address, IPv6Address) else str(address)


def _shown(principal: Principal, token: str | None) -> dict[str, Any]:
    return {
        "tenant": principal.tenant,
        "scopes": [each.value for each in Permission if principal.may(each)],
        "fleet": principal.sees_fleet,
        "key": principal.key,
        "csrf": proof_of(token) if token else None,
    }

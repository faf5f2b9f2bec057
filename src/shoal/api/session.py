"""Logging in to the dashboard with an API key, and out again."""

from __future__ import annotations

from typing import Any, cast

from flask import Response, g

from shoal.api.answers.fleet import SessionView
from shoal.api.auth import foreign_origin, unauthorized
from shoal.api.context import answer, api
from shoal.api.cookie import drop_cookie, given_token, proof_of, put_cookie
from shoal.api.routes import Routes
from shoal.api.schemas import LoginBody
from shoal.core.access import Permission, Principal
from shoal.frontier.sessions import LIFETIME

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
    principal = api().keys.principal(body.key.strip())
    if principal is None or principal.key is None:
        return unauthorized("this API key is not known, or was revoked")
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


def _shown(principal: Principal, token: str | None) -> dict[str, Any]:
    return {
        "tenant": principal.tenant,
        "scopes": [each.value for each in Permission if principal.may(each)],
        "key": principal.key,
        "csrf": proof_of(token) if token else None,
    }

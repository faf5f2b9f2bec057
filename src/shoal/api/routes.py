"""Routes with their place in the OpenAPI document: flask-openapi3 behind types that a checker can read."""

# flask-openapi3's decorators have no types: what they give is unknown to the checker in this file only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from flask import Response
from flask_openapi3.blueprint import APIBlueprint
from flask_openapi3.models.tag import Tag
from pydantic import BaseModel

from shoal.api.auth import OPEN
from shoal.api.problems import PROBLEM_TYPE

View = TypeVar("View", bound=Callable[..., Response])
Answers = Mapping[int, type[BaseModel] | dict[str, Any] | None]

_SECURITY: list[dict[str, list[str]]] = [{"bearer": []}, {"key": []}, {"password": []}]
_PROBLEMS = {
    400: "Not what HTTP or JSON looks like",
    401: "No key, or none that is known",
    403: "The key may not do this",
    404: "There is no such thing",
    409: "Not in this state",
    413: "Too large",
    415: "Not this kind of content",
    422: "Something in the request is wrong: see errors",
    429: "Too much at the moment: come again after Retry-After",
    503: "Redis, the database or the archive is away: come again after Retry-After",
}
_EVERYWHERE = (401, 403, 422, 429, 503)
_WITH_PATH = (404, 409)
_WITH_BODY = (400, 409, 413, 415)


class Routes:
    """The routes of one module."""

    def __init__(self, name: str, prefix: str, about: str) -> None:
        tag = Tag(name=name, description=about)
        self.blueprint = APIBlueprint(name, __name__, url_prefix=prefix or None, abp_tags=[tag])

    def get(self, rule: str, answers: Answers) -> Callable[[View], View]:
        return self._add(self.blueprint.get, rule, answers)

    def post(self, rule: str, answers: Answers) -> Callable[[View], View]:
        return self._add(self.blueprint.post, rule, answers)

    def patch(self, rule: str, answers: Answers) -> Callable[[View], View]:
        return self._add(self.blueprint.patch, rule, answers)

    def delete(self, rule: str, answers: Answers) -> Callable[[View], View]:
        return self._add(self.blueprint.delete, rule, answers)

    def _add(self, method: Callable[..., Any], rule: str, answers: Answers) -> Callable[[View], View]:
        def register(view: View) -> View:
            is_open = f"{self.blueprint.name}.{view.__name__}" in OPEN
            statuses = _problems_of(view, is_open=is_open)
            responses = {**{status: _documented(_PROBLEMS[status]) for status in statuses}, **answers}
            security = None if is_open else _SECURITY
            summary, _, rest = inspect.cleandoc(view.__doc__ or "").partition("\n")
            about = {"summary": summary, "description": rest.strip() or summary, "operation_id": view.__name__}
            method(rule, responses=responses, security=security, **about)(view)
            self._require_bodies()
            return view

        return register

    def _require_bodies(self) -> None:
        """flask-openapi3 says so of JSON bodies only."""
        for item in self.blueprint.paths.values():
            if item.post and item.post.requestBody and "application/json" not in item.post.requestBody.content:
                item.post.requestBody.required = True


def _problems_of(view: Callable[..., Response], *, is_open: bool) -> tuple[int, ...]:
    """What can go wrong, by what the view takes."""
    takes = view.__annotations__
    with_path = _WITH_PATH if "path" in takes else ()
    with_body = _WITH_BODY if "body" in takes or "raw" in takes else ()
    return (422,) if is_open and not with_body else tuple(sorted({*_EVERYWHERE, *with_path, *with_body}))


def _documented(description: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Problem"}
    return {"description": description, "content": {PROBLEM_TYPE: {"schema": schema}}}


def stream(description: str, *types: str) -> dict[str, Any]:
    """An answer that is not JSON."""
    return {"description": description, "content": {kind: {} for kind in types}}

"""The API as a document: what django-ninja derives from the routers, and what holds for every call of a kind."""

from __future__ import annotations

from typing import Any

from ninja import NinjaAPI
from ninja.openapi.schema import OpenAPISchema
from ninja.operation import Operation

from . import schemas
from .idempotency import HEADER, MAX_KEY_CHARS

_KEY_PARAMETER = {
    "in": "header",
    "name": HEADER,
    "required": False,
    "description": "The same key and request get the same answer again; the work is done once.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_CHARS, "pattern": "^[ -~]+$"},
}
_REFUSALS = {
    400: "Cannot be understood: broken JSON, a cursor or a key that is none",
    401: "No valid token",
    403: "Shared with you, and not for this; or the token is for reading only",
    404: "Absent, deleted or not yours",
    409: "Not in the present state, or the Idempotency-Key came with another request",
    413: "Too large",
    422: "Understood, and refused",
    429: "Too many calls; `Retry-After` says in how many seconds there are calls again",
    503: "Cannot answer now; for a handback: the model failed, nothing reached the parent, and it can be retried",
}


class Api(NinjaAPI):
    """A NinjaAPI whose document names the refusals, too."""

    def get_openapi_operation_id(self, operation: Operation) -> str:
        return operation.view_func.__name__

    def get_openapi_schema(self, **kwargs: Any) -> OpenAPISchema:
        document = super().get_openapi_schema(**kwargs)
        document["components"]["schemas"].update(_error_schemas())
        for path, operations in document["paths"].items():
            for method, operation in operations.items():
                _complete(path, method, operation)
        return document


def _complete(path: str, method: str, operation: dict[str, Any]) -> None:
    """Add the idempotency key of a POST, and the refusals that this call can answer with."""
    if method == "post":
        operation["parameters"].append(_KEY_PARAMETER)
    for status in sorted(_refusals(path, method, operation)):
        operation["responses"][status] = _refusal(status)


def _refusals(path: str, method: str, operation: dict[str, Any]) -> set[int]:
    statuses = {401, 503}
    if "{" in path:
        statuses.add(404)
    if operation["parameters"]:
        statuses |= {400, 422}
    if "requestBody" in operation:
        statuses |= {400, 413, 422}
    if method != "get":
        statuses |= {403, 409, 429}
    elif operation["operationId"] == "read_side":  # of a session that is none
        statuses.add(409)
    return statuses


def _refusal(status: int) -> dict[str, Any]:
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {"description": _REFUSALS[status], "content": content}


def _error_schemas() -> dict[str, Any]:
    schema = schemas.Error.model_json_schema(ref_template="#/components/schemas/{model}", mode="serialization")
    parts: dict[str, Any] = schema.pop("$defs")
    return {**parts, "Error": schema}

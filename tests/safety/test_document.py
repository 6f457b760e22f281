"""Calls of every kind, drawn from the API's own document: each answer is one that the document names, in its shape.

`SIDECHAT_TEST_CASES=20000 pytest tests/safety/test_document.py` tries more than the suite's thousand.
"""

import json
import os

import pytest
import schemathesis
from django.core.handlers.wsgi import WSGIHandler
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi import checks

from sidechat_web.api.urls import api

from .conftest import make_world
from .test_matrix import WAITING

CASES = int(os.environ.get("SIDECHAT_TEST_CASES", "1000"))
CHECKS = [
    schemathesis.checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_headers_conformance,
    checks.response_schema_conformance,
]


def operations():
    document = json.loads(json.dumps(api.get_openapi_schema()))
    schema = schemathesis.openapi.from_dict(document)
    schema.app = WSGIHandler()
    return [found.ok() for found in schema.get_all_operations()]


def name(operation):
    return operation.definition.raw["operationId"]


OPERATIONS = operations()


@pytest.fixture
def one_connection():
    """What a call does stays in the test's transaction: no request closes its connection."""
    for signal in (request_started, request_finished):
        signal.disconnect(close_old_connections)
    yield
    for signal in (request_started, request_finished):
        signal.connect(close_old_connections)


def attempt(world, case, about, allowed):
    """One call and the check of its answer. `about`: a session that exists, or none; `allowed`: with a token."""
    path = case.meta.components.get(ParameterLocation.PATH)
    if about and path and path.mode.is_positive:
        there = {**world.ids, "session_id": getattr(world, about).pk}
        case.path_parameters = {name: there.get(name, value) for name, value in case.path_parameters.items()}
    if allowed:
        case.headers = {**(case.headers or {}), "Authorization": f"Bearer {world.tokens['owner']}"}
    response = case.call(headers={"Accept-Encoding": "identity"})
    case.validate_response(response, checks=CHECKS)
    if response.status_code >= 400:
        error = response.json()["error"]
        assert isinstance(error["code"], str)
        assert isinstance(error["message"], str)
    if not allowed:
        assert response.status_code == 401


def run(world, operation, *, undone):
    @seed(1)
    @settings(
        max_examples=max(1, CASES // len(OPERATIONS)),
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(
        case=st.sampled_from(list(GenerationMode)).flatmap(lambda m: operation.as_strategy(generation_mode=m)),
        about=st.sampled_from(["aside", "aside", "main", ""]),
        allowed=st.integers(0, 9).map(bool),
    )
    def once(case, about, allowed):
        if not undone:
            attempt(world, case, about, allowed)
            return
        with transaction.atomic():
            attempt(world, case, about, allowed)
            transaction.set_rollback(True)

    once()


@pytest.mark.filterwarnings("ignore:StreamingHttpResponse must consume")  # no event loop here
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if name(o) not in WAITING], ids=name)
def test_answers_are_documented(world, operation, one_connection):
    run(world, operation, undone=True)


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("operation", [o for o in OPERATIONS if name(o) in WAITING], ids=name)
def test_answers_of_calls_that_wait_are_documented(operation):
    run(make_world(), operation, undone=False)

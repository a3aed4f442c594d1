"""However many rows are named by their ids: SQLite prepares one statement, which its driver keeps."""

from __future__ import annotations

import pytest
from django.db import connection

from django_dbqueue.databases import Claim, server_of
from django_dbqueue.lifecycle.settle_many import settle_claims
from django_dbqueue.models import Message
from django_dbqueue.sessions.django_session import DjangoSession
from django_dbqueue.statements import moves_sql
from tests.factories import held

pytestmark = pytest.mark.django_db


def test_any_number_of_ids_is_one_statement_and_names_just_these_rows() -> None:
    messages = [held() for _ in range(4)]
    server = server_of(connection)
    claims = [Claim(each.pk, each.claim_token) for each in messages]
    assert server.id_in([1, 2]).sql == server.id_in(range(1, 300)).sql
    assert settle_claims(DjangoSession("default"), moves_sql.ack(server), claims[1:3]) == set(claims[1:3])
    assert list(Message.objects.order_by("pk").values_list("status", flat=True)) == ["run", "y", "y", "run"]

"""Where article 001's statements fail: n/run/y, conn_id and the guardian.

What shows that ours don't, docs/comparison.md names.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.contrib.auth.models import Group
from django.db import DataError, OperationalError, ProgrammingError, connection, transaction

from django_dbqueue.databases import Statement, server_of
from django_dbqueue.lifecycle.claimer import Claimer
from django_dbqueue.liveness import dead_workers as guardian_module
from django_dbqueue.liveness.dead_workers import Guardian
from django_dbqueue.models import Message, Worker
from django_dbqueue.models.fields import DbNow
from django_dbqueue.sessions.django_session import DjangoSession
from tests.concurrency.steps import Aside, aside, meet
from tests.factories import QUEUE, held, waiting
from tests.plans.plan import cost_of
from tests.systems.articles import article_001 as article
from tests.systems.articles import ask, by_default, in_its_own_dialect, run

pytestmark = pytest.mark.django_db(transaction=True)
LETTERS, MAILS = 1000, 2000
"""Two kinds of business in the article's one table."""


# The claim without a filter for the queue


@in_its_own_dialect
def test_article_001_a_claim_takes_another_business_message_and_none_gets_it(table: None) -> None:
    article.enqueue(MAILS, "a mail")
    article.enqueue(LETTERS, "a letter")
    assert article.claim(LETTERS) == []
    assert article.states() == [(MAILS, "run"), (LETTERS, "n")]
    with aside() as consumer_of_mails:
        assert consumer_of_mails.do(lambda: article.claim(MAILS)) == []


# conn_id: whose session it is, and not which claim


@in_its_own_dialect
def test_article_001_a_session_that_claims_twice_gets_the_first_messages_again(table: None) -> None:
    article.enqueue(LETTERS, "one")
    article.enqueue(LETTERS, "two")
    assert article.claim(LETTERS) == [1]
    assert article.claim(LETTERS) == [1, 2]


@in_its_own_dialect
def test_article_001_a_late_finish_settles_a_later_claim_of_the_same_session(table: None) -> None:
    article.enqueue(LETTERS, "one")
    [first] = article.claim(LETTERS, at=article.LONG_AGO)
    assert run(article.GUARD.format(sessions="0"), article.NOW) == 1
    assert article.claim(LETTERS) == [first]
    [(session,)] = ask("SELECT CONNECTION_ID()")
    assert run(article.FINISH, first, session) == 1
    assert article.states() == [(LETTERS, "y")], "the first handler's word, while the second works on it"


# Exactly once, by a transaction that doesn't look at what its last statement did


@in_its_own_dialect
def test_article_001_its_transaction_commits_the_work_of_who_has_lost_the_message(table: None) -> None:
    article.enqueue(LETTERS, "one")
    [message_id] = article.claim(LETTERS, at=article.LONG_AGO)
    [(owner,)] = ask("SELECT CONNECTION_ID()")
    with transaction.atomic():
        Group.objects.create(name="work of the first")
        with aside() as other:
            other.do(lambda: run(article.GUARD.format(sessions="0"), article.NOW))
            assert other.do(lambda: article.claim(LETTERS)) == [message_id]
            other.do(lambda: Group.objects.create(name="work of the second"))
            assert other.do(lambda: run(article.FINISH, message_id, other.session)) == 1
        assert run(article.FINISH, message_id, owner) == 0
    assert Group.objects.count() == 2


# Statements that don't run, or don't do it


@in_its_own_dialect
def test_article_001_its_finish_as_printed_is_no_sql(table: None) -> None:
    with pytest.raises(ProgrammingError) as refused:
        run(article.FINISH_AS_PRINTED, 1, 1)
    assert refused.value.args[0] == 1064


@in_its_own_dialect
def test_article_001_its_second_schemes_claim_takes_nothing(table: None) -> None:
    article.enqueue(LETTERS, "one")
    assert run(article.TAKE_OVER.format(sessions=article.sessions_seen()), article.LONG_AGO) == 1
    assert ask(article.CLAIMED, LETTERS) == []
    assert article.states() == [(LETTERS, "n")]


@in_its_own_dialect
def test_article_001_its_guardian_has_no_sql_if_it_sees_no_session(table: None) -> None:
    with pytest.raises(ProgrammingError):
        run(article.GUARD.format(sessions=""), article.NOW)


# The guardian that robs other accounts


@pytest.fixture
def guardian(transactional_db: None) -> Iterator[Aside]:
    """A session of an account that may do all in this database, and sees no other account's sessions."""
    account, password = f"guardian_{secrets.token_hex(4)}", secrets.token_hex(8)
    run(f"CREATE USER '{account}'@'%%' IDENTIFIED BY %s", password)
    run(f"GRANT ALL ON `{connection.settings_dict['NAME']}`.* TO '{account}'@'%'")
    with aside() as session:
        session.do(lambda: _log_in(account, password))
        yield session
    run(f"DROP USER '{account}'@'%'")


def _log_in(account: str, password: str) -> None:
    connection.close()
    connection.settings_dict = connection.settings_dict | {"USER": account, "PASSWORD": password}
    connection.connect()


@in_its_own_dialect
def test_article_001_its_guardian_takes_the_messages_of_every_account_that_it_cannot_see(
    table: None, guardian: Aside
) -> None:
    article.enqueue(LETTERS, "one")
    [message_id] = article.claim(LETTERS, at=article.LONG_AGO)
    [(owner,)] = ask("SELECT CONNECTION_ID()")
    seen = guardian.do(article.sessions_seen)
    assert str(owner) not in seen.split(", ")
    assert guardian.do(lambda: run(article.GUARD.format(sessions=seen), article.NOW)) == 1
    assert guardian.do(lambda: article.claim(LETTERS)) == [message_id]
    assert run(article.FINISH, message_id, owner) == 0, "the owner lives, and has lost its message"


@in_its_own_dialect
def test_ours_a_rescue_by_an_account_that_sees_no_session_takes_nothing_from_the_living(guardian: Aside) -> None:
    message = held()
    assert len(guardian.do(lambda: ask("SHOW PROCESSLIST"))) == 1
    assert guardian.do(Message.objects.rescue) == 0
    assert guardian.do(lambda: Message.objects.claim(1, queue=QUEUE)) == []
    message.ack()


@in_its_own_dialect
@pytest.mark.parametrize("sign", ["its named lock", "the list of sessions"])
def test_ours_a_guardian_that_sees_no_session_leaves_a_worker_without_beats_alone(
    guardian: Aside, monkeypatch: pytest.MonkeyPatch, sign: str
) -> None:
    monkeypatch.setattr(guardian_module, "PERSISTS", 0)
    number = secrets.randbits(60)
    assert ask(server_of(connection).sessions.take_lock(number).sql, number) == [(1,)]
    [(conn_id, server)] = ask(server_of(connection).sessions.me().sql)
    waiting()
    [message] = Claimer(Message, DjangoSession("default"), QUEUE, worker_id=number).claim(1, lease=600, max_reads=5)
    last_beat = DbNow() - timedelta(seconds=60)
    Worker.objects.create(
        id=number, conn_id=conn_id, server=server, session_lock=number if sign == "its named lock" else None,
        host="there", pid=7, queues=QUEUE, threads=1, beat_every=1, beat_at=last_beat, late_at=last_beat,
    )  # fmt: skip
    ours = Guardian(DjangoSession("default"))
    assert [guardian.do(ours.check) for _ in range(3)] == [0, 0, 0]
    message.ack()


# The claim that reads, and locks, what is done


@in_its_own_dialect
def test_article_001_a_claim_reads_all_that_was_ever_done(table: None) -> None:
    run("INSERT INTO `queue` (biz, conn_id, status) VALUES " + ", ".join([f"({LETTERS}, 5, 'y')"] * 500))
    article.enqueue(LETTERS, "new")
    assert cost_of(connection, Statement(article.TAKE, (article.NOW,))) > 500


@in_its_own_dialect
def test_article_001_a_claim_that_finds_nothing_holds_up_every_other_one(table: None) -> None:
    article.enqueue(LETTERS, "one")
    first = article.claim(LETTERS)[0]
    [(session,)] = ask("SELECT CONNECTION_ID()")
    met = meet(
        by_default(lambda: run(article.TAKE, article.NOW)),
        by_default(lambda: run(article.FINISH, first, session)),
        waits=True,
    )
    assert (met.first, met.second) == (0, 1)


# What its columns can't hold


@in_its_own_dialect
def test_article_001_its_times_end_in_2038(table: None) -> None:
    with pytest.raises(DataError):
        run(article.INSERT, LETTERS, "late", 2**31)


@in_its_own_dialect
def test_article_001_its_text_cannot_hold_every_character(table: None) -> None:
    with pytest.raises((DataError, OperationalError)):
        article.enqueue(LETTERS, "\N{PARTY POPPER}")

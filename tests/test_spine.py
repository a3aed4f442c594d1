import pytest
from django.db import transaction

from django_dbqueue import DuplicateKey, Envelope, LeaseLost
from django_dbqueue.models import ArchivedMessage, Message, Queue

pytestmark = pytest.mark.django_db(transaction=True)


def test_spine():
    m = Message.objects.enqueue({"a": [1, "ü😀"]}, queue="e", key="k")
    assert m.outcome == "created" and m.created_at.tzinfo
    assert Message.objects.enqueue({"a": 2}, queue="e", key="k").outcome == "ignored"
    assert Message.objects.enqueue({"a": 2}, queue="e", key="k", on_conflict="update").outcome == "updated"
    assert Message.objects.enqueue({"a": 2}, queue="e", key="k", on_conflict="update").outcome == "ignored"
    with pytest.raises(DuplicateKey):
        Message.objects.enqueue({"a": 2}, queue="e", key="k", on_conflict="error")
    r = Message.objects.enqueue_many([Envelope(i, key=str(i % 7)) for i in range(20)] + [b"x", "t\0"], queue="e")
    assert (r.created, r.updated, r.ignored) == (9, 0, 13), r
    Message.objects.enqueue(1, queue="e", priority=5)
    Message.objects.enqueue(1, queue="e", priority=50, delay=1000)
    got = Message.objects.claim(5, queue="e", lease=30)
    assert [g.priority for g in got] == [5, 0, 0, 0, 0]
    fresh = Message.objects.get(pk=got[1].pk)
    for f in (
        "status",
        "conn_id",
        "claim_token",
        "read_count",
        "lease_seconds",
        "max_reads",
        "claimed_at",
        "due_at",
        "created_at",
    ):
        assert getattr(fresh, f) == getattr(got[1], f), f
    assert abs((fresh.available_at - got[1].available_at).total_seconds()) < 0.01
    assert fresh.payload == {"a": 2}
    got[0].ack()
    with pytest.raises(LeaseLost):
        got[0].ack()
    assert Message.objects.ack(got[:3]) == [got[0]]
    got[3].nack(error="x")
    got[4].reject("no")
    assert Message.objects.dead("e").count() == 1
    assert Message.objects.dead("e").requeue() == 1
    more = Message.objects.claim(100, queue="e", lease=0)
    assert len(more) == 8, len(more)
    assert Message.objects.rescue() == 8
    assert Message.objects.ready("e").filter(crashes=1).count() == 8
    more = Message.objects.claim(100, queue="e")
    assert Message.objects.extend(more, 50) == []
    assert Message.objects.release(more[:4]) == []
    assert Message.objects.nack(more, delay=10) == more[:4]
    assert Message.objects.archive("e", older_than=0) == 3
    assert ArchivedMessage.objects.filter(outcome="done").count() == 3
    with transaction.atomic(), pytest.raises(RuntimeError):
        Message.objects.claim(1)
    m = Message.objects.claim(1, queue="e")[0]
    with m.transaction():
        assert not m.settled
    assert m.settled and m.status == "y"
    Queue.objects.pause("e", by="me")
    assert Message.objects.claim(1, queue="e") == []
    Queue.objects.resume("e")
    assert len(Message.objects.claim(1, queue="e")) == 1

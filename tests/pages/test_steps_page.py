"""docs/steps.md does what it says: an order is charged and booked once, and sleeps; invoices continue at a cursor."""

from __future__ import annotations

import re
from pathlib import Path

from tests.pages.page_project import ON_SQLITE, ROOT, make_project, run_there, shell

CONSUMER, EMITTER, SLICES = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "steps.md").read_text(), re.DOTALL)[:3]
MODELS = """
from django.db import models


class Booking(models.Model):
    payment = models.TextField()


class Invoice(models.Model):
    booking = models.ForeignKey(Booking, on_delete=models.CASCADE)
    amount = models.IntegerField()
"""
PAYMENTS = '''
"""What the page's order calls; each call is a line in a file, and the receipt fails once."""

from pathlib import Path

CALLS = Path("calls")


def note(line):
    with CALLS.open("a") as file:
        print(line, file=file)


def charge(card):
    note(f"charge {card}")
    return f"payment by {card}"


def send_receipt(booking, by):
    note(f"receipt {booking} {by}")
    if CALLS.read_text().count("receipt") == 1:
        raise ConnectionError("the mail server is down")


def amount_of(booking):
    note(f"amount {booking.pk}")
    if booking.pk == 1_100 and CALLS.read_text().count("amount 1100\\n") == 1:
        raise ConnectionError("the price list is down")
    return booking.pk
'''

pytestmark = ON_SQLITE


def test_the_example_charges_and_books_once_and_waits_for_its_approval(tmp_path: Path) -> None:
    make_project(tmp_path, "orders", {"models": MODELS, "payments": PAYMENTS, "queue_consumers": CONSUMER})
    shell(tmp_path, "from django_dbqueue.models import Message", "Message.objects.enqueue({'card': 4}, queue='orders')")
    output = run_there(tmp_path, "run_queue_worker", "--drain")
    assert "0 done, 0 failed and retried, 0 dead" in output, "it sleeps, and then it waits"
    peeked = run_there(tmp_path, "queue_peek", "orders", "--state", "delayed", "--steps", "--why")
    assert "It waits for event “approved:1”" in peeked
    assert "'charge'  step done" in peeked

    shell(tmp_path, EMITTER.replace("approved:17", "approved:1"))
    output = run_there(tmp_path, "run_queue_worker", "--drain")
    assert "1 done, 1 failed and retried, 0 dead" in output
    calls = (tmp_path / "calls").read_text().splitlines()
    assert calls == ["charge 4", "receipt 1 ann", "receipt 1 ann"]
    counted = shell(tmp_path, "from orders.models import Booking", "print(Booking.objects.get().payment)")
    assert counted.splitlines()[-1] == "payment by 4"


def test_the_invoices_continue_at_the_slice_that_failed_and_each_is_written_once(tmp_path: Path) -> None:
    make_project(tmp_path, "orders", {"models": MODELS, "payments": PAYMENTS, "queue_consumers": SLICES})
    shell(
        tmp_path,
        "from django_dbqueue.models import Message",
        "from orders.models import Booking",
        "Booking.objects.bulk_create(Booking(payment=str(number)) for number in range(1_200))",
        "Message.objects.enqueue(None, queue='invoices')",
    )
    output = run_there(tmp_path, "run_queue_worker", "--drain")
    assert "1 done, 1 failed and retried, 0 dead" in output
    calls = [int(line.removeprefix("amount ")) for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == [*range(1, 1_101), *range(1_001, 1_201)], "the third slice began again, and no other"
    counted = shell(
        tmp_path,
        "from orders.models import Invoice",
        "print(*Invoice.objects.order_by('pk').values_list('amount', flat=True))",
    )
    assert counted.splitlines()[-1] == " ".join(map(str, range(1, 1_201)))

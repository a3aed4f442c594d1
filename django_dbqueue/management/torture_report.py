"""What ``queue_torture`` reports to people: the faults, the counts, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from django.utils.translation import gettext as _

from django_dbqueue.management.terminal_width import columns_of, padded
from django_dbqueue.testing.torture import faults
from django_dbqueue.testing.torture.rack import TortureOrder, TortureResult
from django_dbqueue.testing.torture.reckoning import WRONG, Reckoning


def as_text(order: TortureOrder, result: TortureResult, left_out: Mapping[str, str]) -> str:
    """Return the whole report."""
    counts = result.reckoning
    lines = [*_table(_fault_rows(order, result, left_out)), "", *_table(_work_rows(counts)), ""]
    lines += _table((_wrong_names()[name], str(getattr(counts, name)), "") for name in WRONG)
    lines += ["", *(f"{_wrong_names()[name]}: {each}" for name in WRONG for each in counts.examples.get(name, ()))]
    verdict = _("Nothing was lost.") if counts.is_good else _("A promise was broken.")
    return "\n".join([*lines, f"{verdict} {_('Repeat the plan of faults with')} --seed {order.seed}"])


def _fault_rows(
    order: TortureOrder, result: TortureResult, left_out: Mapping[str, str]
) -> Iterable[tuple[str, str, str]]:
    labels = {
        faults.KILL: _("a worker's child killed (SIGKILL)"),
        faults.WORKER: _("a whole worker killed (SIGKILL)"),
        faults.STOP: _("a worker frozen for longer than its leases (SIGSTOP)"),
        faults.RESTART: _("a worker stopped and replaced (SIGTERM)"),
        faults.SESSION: _("up to three database sessions ended"),
        faults.SENDER: _("a sender killed (SIGKILL)"),
        faults.FAIL: _("deliveries whose handler failed"),
        faults.ROLLBACK: _("messages whose transaction was rolled back"),
    }
    counted = {faults.FAIL: result.reckoning.failed, faults.ROLLBACK: result.reckoning.rolled_back}
    for kind in faults.FAULTS:
        if kind in left_out:
            yield kind, "-", _("left out: %(reason)s") % {"reason": left_out[kind]}
        elif kind in order.kinds:
            yield kind, str(counted.get(kind, result.injected[kind])), labels[kind]


def _work_rows(counts: Reckoning) -> Iterable[tuple[str, str, str]]:
    yield _("sent"), str(counts.sent), _("messages whose commit was confirmed")
    yield _("unknown"), str(counts.unknown), _("messages whose sender never learned of its commit")
    yield _("done"), str(counts.done), _("messages")
    yield _("delivered"), str(counts.deliveries), _("times")
    yield _("cut off"), str(counts.cut_off), _("deliveries whose handler never ended")


def _wrong_names() -> dict[str, str]:
    return {
        "lost": _("lost"),
        "torn": _("part of a transaction"),
        "unsent": _("never committed, yet there"),
        "without_effect": _("done without effect"),
        "doubled": _("effect committed twice"),
        "out_of_order": _("out of order"),
        "over_limit": _("over the group's limit"),
        "hung": _("hung"),
        "left_behind": _("left behind"),
        "unasked": _("process ended unasked"),
        "stuck": _("worker did not stop"),
    }


def _table(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    cells = list(rows)
    first = max((columns_of(name) for name, _number, _words in cells), default=0)
    second = max((columns_of(number) for _name, number, _words in cells), default=0)
    return [
        f"{padded(name, first)}  {padded(number, second, at_the_right=True)}  {words}".rstrip()
        for name, number, words in cells
    ]

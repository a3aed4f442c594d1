"""The claim, as the server will run it: the exact statement of the claim's builder, on the table as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from django.db import Error
from django.db.backends.base.base import BaseDatabaseWrapper
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_dbqueue.claims.claim_rows import Terms, first_statement
from django_dbqueue.databases import Statement, means, server_of
from django_dbqueue.databases.indexes import Index
from django_dbqueue.databases.query_plans import PRIMARY, QueryPlan
from django_dbqueue.doctor.check import answering, examines, to_work
from django_dbqueue.doctor.examined_database import NOBODYS, ExaminedDatabase, first_line
from django_dbqueue.doctor.finding import Finding, fine, note, problem
from django_dbqueue.sessions.django_session import session_of
from django_dbqueue.states.ranges_in_use import HIGHEST, next_priority, queues_in_use
from django_dbqueue.statuses import NEW

MOST: Final = 200
"""Plans that are requested: one for each priority in use of each queue."""
PER_QUEUE: Final = 5
"""Priorities of one queue, so that a queue with many leaves room for the others."""
SMALL: Final = 1024 * 1024
"""Bytes of a table that a server may as well read in full."""
AT_ONCE: Final = 10

Range = tuple[str, int]


@examines("claim-plan", needs_tables=True, grant=to_work)
def claim_plans(database: ExaminedDatabase) -> Iterable[Finding]:
    """EXPLAIN the claim of each queue and priority in use: it must walk its index, in its order, and nothing else."""
    try:
        found = list(islice(_ranges(database), MOST + 1))
        ranges = found[:MOST] or [(NOBODYS, 0)]
        plans = {each: plan_of(database.connection, _claim(database, each)) for each in ranges}
    except Error as error:
        if any(means(error, kind) for kind in ("denied", "shut out", "waited")) or not database.connection.is_usable():
            raise
        yield problem(
            _("The claim can't run: %s") % first_line(error),
            _(
                "If the error names an index, see the check 'indexes'. Claims use no other index, so workers can't "
                "claim anything."
            ),
        )
        return
    yield _judged(database, plans)
    if len(found) > MOST:
        yield note(_("There are more queues and priorities than the %s whose plans were checked.") % MOST)


def plan_of(connection: BaseDatabaseWrapper, statement: Statement) -> QueryPlan:
    """Ask for the plan of a statement without running it."""
    facts = server_of(connection).facts
    with connection.cursor() as cursor, session_of(connection.alias).held_to_order(cursor, statement):
        cursor.execute(facts.explain + statement.sql, statement.params)
        names = [column[0].lower() for column in cursor.description]
        return facts.read_plan([dict(zip(names, row, strict=True)) for row in cursor.fetchall()])


def _ranges(database: ExaminedDatabase) -> Iterator[Range]:
    for queue in queues_in_use(session_of(database.alias)):
        below = HIGHEST
        for _each in range(PER_QUEUE):
            rows = session_of(database.alias).fetch(next_priority(database.server, queue, NEW, below))
            if not rows:
                break
            below = int(rows[0][0])
            yield queue, below


def _claim(database: ExaminedDatabase, of: Range) -> Statement:
    queue, priority = of
    terms = Terms(token=1, worker_id=None, lease=60.0, max_reads=1)
    return first_statement(database.server, queue, priority, AT_ONCE, None, terms)


def _is_good(plan: QueryPlan) -> bool:
    return Index.CLAIM in plan.indexes and set(plan.indexes) <= {Index.CLAIM, PRIMARY} and not plan.sorts


def _judged(database: ExaminedDatabase, plans: dict[Range, QueryPlan]) -> Finding:
    ill = {each: plan for each, plan in plans.items() if not _is_good(plan)}
    if not ill:
        return fine(
            ngettext(
                "The claim reads the index %(index)s in order, without sorting (%(count)s plan checked).",
                "The claim reads the index %(index)s in order, without sorting (%(count)s plans checked, one for "
                "each priority of a queue).",
                len(plans),
            )
            % {"index": Index.CLAIM, "count": len(plans)}
        )
    (queue, priority), plan = next(iter(ill.items()))
    if answering("size")(database.server) and int(database.answer("size", database.server.message)[0][0]) < SMALL:
        return fine(
            _("The table is small, so the server may just as well read all of it. Check again when it has grown.")
        )
    return problem(
        _(
            "The claim of queue %(queue)r at priority %(priority)s does not use the index %(index)s: it reads by "
            "%(read)s%(sorts)s (%(count)s of the %(asked)s plans that were checked have this problem)."
        )
        % {
            "count": len(ill),
            "asked": len(plans),
            "queue": queue,
            "priority": priority,
            "index": Index.CLAIM,
            "read": ", ".join(sorted(set(plan.indexes))) or _("an unknown path"),
            "sorts": _(", and sorts") if plan.sorts else "",
        },
        _("Run ANALYZE on django_dbqueue_message. See the check 'indexes' and this session's planner settings."),
    )

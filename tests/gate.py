"""The gate: what runs before each change lands, and on which database. All else is the night's (`bin/nightly`).

The gate's purpose is that no change breaks a promise, and that its author can run it three times in an afternoon. So it
holds each promise where it is kept, once: what no server makes a difference to runs on SQLite alone. A change adds the
rest of what it touches. `.ci/run` says in which order the parts run, and what runs beside what;
`tests/servers/gate_runs.py` runs them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.left_out import BROWSER
from tests.mutants.planted import read_all
from tests.servers.change import ROOT, followed, helpers
from tests.servers.parts import ON_A_SERVER, Part

OF_ITS_OWN = "what a server makes a difference to"
STEPPER = "tests/stepper/"
BY_FOLDER = {
    "django_dbqueue/contrib/": ["tests/otel/", "tests/sentry/", "tests/monitors/"],
    "django_dbqueue/importers/": ["tests/importers/"],
    "django_dbqueue/locale/": ["tests/admin/test_in_german.py"],
    "django_dbqueue/management/": ["tests/commands/test_endings.py", "tests/commands/test_at_a_terminal.py"],
    "django_dbqueue/schedules/": ["tests/schedules/test_cron.py"],
    "django_dbqueue/spark/": ["tests/spark/"],
    "django_dbqueue/streams/": ["tests/spark/"],
    "django_dbqueue/tasks/": ["tests/tasks/test_djangos_own.py"],
    "example_project/": ["tests/flights/"],
}
"""What only a change of these folders is likely to break."""

ELSEWHERE = (
    "tests/process/",
    "tests/tasks/test_process.py",
    "tests/concurrency/test_hot_queue.py",
    STEPPER,
    *sorted({test for tests in BY_FOLDER.values() for test in tests}),
)
"""Of these SQLite is asked what sees a planted bug, in a part of its own. The rest is MariaDB's, or the change's."""

FACTS = (
    "tests/test_house.py",
    "tests/test_docs.py",
    "tests/test_generated_pages.py",
    "tests/test_words.py",
    "tests/test_translations.py",
    "tests/test_versions.py",
    "tests/systems/test_comparison.py",
)
"""What knows the whole project, and so refuses most changes: first, since it needs no server and no minute."""


TOOLS = "tests/tools"
PLANTED = "tests/tools/test_mutants.py::test_each_planted_bug_can_be_planted_today_and_names_tests_that_are_there"
PAGES = (
    "tests/admin/test_access.py::test_no_get_changes_anything",
    "tests/admin/test_contents.py::test_no_page_at_all_shows_what_is_redacted",
    "tests/admin/test_contents.py::test_no_page_at_all_shows_it_without_the_permission",
    "tests/admin/test_in_german.py",
    "tests/admin/test_markup.py",
    "tests/admin/test_redacted_everywhere.py",
    "tests/admin/test_scale.py",
)
"""All pages of the admin, one by one."""
FOLLOWING = ("tests/*/test_*_page.py", "tests/testing/test_docs_examples.py")
"""Those that do what a page of the documentation says."""
IN_A_BROWSER = sorted(str(each.relative_to(ROOT)) for files in BROWSER.files for each in ROOT.glob(files))
WALKED = ["tests/test_docs.py::test_the_page_does_what_it_shows"]
"""Pages that are followed by real workers."""

NIGHT = (
    # tools of ours, the site, and the pages that are followed
    "tests/tools/test_mutants.py",
    *(f"tests/tools/test_benchmark_{each}.py" for each in ("faults", "instruments", "peers", "queue")),
    "tests/tools/test_release.py",
    "tests/tools/test_site.py",
    *FOLLOWING,
    "tests/testing/test_strange_project.py",
    # somebody else's failures, and whole systems that are killed at each statement
    "tests/systems/test_weaknesses_*.py",
    "tests/systems/test_000_*.py",
    "tests/systems/test_003_owners_and_takeover.py",
    "tests/systems/test_killed_at_an_event.py",
    "tests/operations/test_deaths.py",
    "tests/flows/test_killed.py",
    "tests/sentry/test_processes.py",
    "tests/routines/test_many.py",
    "tests/redaction/test_work_is_bounded.py",
    "tests/schedules/test_timetable.py::test_kill_9_before_and_after_each_statement_leaves_both_or_none",
    "tests/importers/test_exactly_once.py::test_two_importers_at_once_double_nothing",
    "tests/stepper/test_flows.py::test_what_one_that_died_did_not_check_the_keeper_finds",
    # what a change of the admin brings back
    *PAGES,
)
"""What takes many seconds and guards what seldom breaks, on every database."""


def seeing(database: str, *folders: str) -> list[str]:
    """The tests below these folders that have to see a planted bug on this database."""
    bugs = [bug for bug in read_all(ROOT / "tests" / "mutants") if database in bug.on]
    return sorted({test for bug in bugs for test in bug.tests if test.startswith(folders)})


SEEN = (STEPPER, "tests/importers/", "tests/tasks/", "tests/worker/")
"""Folders that servers are asked of nothing but what sees a planted bug there."""
STATEMENTS = (
    "tests/claims",
    "tests/concurrency",
    "tests/consumers/test_unrun.py",
    "tests/failures",
    "tests/flows",
    "tests/groups",
    "tests/history",
    *(f"tests/insight/test_{each}.py" for each in ("listing", "why", "why_suspended")),
    "tests/lifecycle",
    "tests/liveness",
    "tests/models",
    "tests/operations",
    "tests/routines",
    "tests/sessions",
    "tests/states",
    "tests/steps",
    "tests/streams",
    *(f"tests/worker/test_{each}.py" for each in ("on_ack_of_a_worker", "results_of_the_dead", "shared_commit")),
)
OF_A_SERVER = {
    "mariadb": (*STATEMENTS, "tests/checks/test_on_mysql.py", "tests/doctor/test_on_mysql.py", "tests/plans"),
    "postgres": (
        *STATEMENTS,
        "tests/checks/test_on_postgresql.py",
        "tests/doctor/test_on_postgresql.py",
        "tests/plans",
    ),
    "mysql": (*STATEMENTS, "tests/checks/test_on_mysql.py", "tests/doctor/test_on_mysql.py"),
}
ALIKE = (
    *NIGHT,
    "tests/concurrency/test_retry.py::test_a_wait_for_a_lock_that_took_the_servers_own_limit_is_not_begun_again",
    "tests/concurrency/test_transient_errors.py",
    "tests/failures/test_fingerprint.py",
    "tests/lifecycle/test_max_reads.py::test_a_thousand_whose_reads_were_spent_hold_nothing_up",
    "tests/operations/test_operators.py",
    "tests/lifecycle/test_payloads.py",
    "tests/sessions/test_routing.py",
    "tests/plans/test_bulk.py",
    "tests/plans/test_events.py",
    "tests/routines/test_cost.py",
    "tests/routines/test_install_as_a_process.py",
    "tests/routines/test_takeover.py",
)
"""What says nearly the same on each server, and so is asked of SQLite alone."""
AS_ON_MARIADB = (
    "tests/failures/test_failures.py",
    "tests/failures/test_failures_counted.py",
    *(f"tests/insight/test_{each}.py" for each in ("listing", "why", "why_suspended")),
    *(f"tests/lifecycle/test_{each}.py" for each in ("events", "signals", "undecodable")),
    "tests/models/test_hydration.py",
    *(f"tests/operations/test_{each}.py" for each in ("pausing", "pause_with_end")),
    *(f"tests/sessions/test_{each}.py" for each in ("journeys", "snapshots")),
    *(f"tests/states/test_{each}.py" for each in ("depths", "queues_in_use")),
    *(f"tests/steps/test_{each}.py" for each in ("sleeps", "waits", "waits_that_end")),
)
"""What says nearly the same on MySQL as on MariaDB."""

KILLS = (
    *(f"tests/process/test_{each}.py" for each in ("bad_days", "bank", "demoted_writer", "flows", "groups")),
    *(f"tests/process/test_{each}.py" for each in ("late_return", "steps", "superseded", "transactional", "verdicts")),
    *(
        f"tests/process/test_guardian.py::{test}"
        for test in (
            "test_a_child_that_was_killed_under_its_supervisor_is_followed_by_another_long_before_its_lease_of_ten_minutes",
            "test_a_whole_worker_that_was_killed_is_found_by_another_long_before_its_lease_of_ten_minutes",
            "test_a_frozen_worker_keeps_its_messages_and_a_dead_one_alongside_it_does_not",
            "test_a_handler_that_lets_no_other_thread_run_for_seconds_is_not_robbed",
            "test_a_worker_that_waits_for_work_is_still_watched_from_its_first_message_on",
            "test_the_list_of_sessions_serves_where_there_are_no_locks_and_only_who_sees_it_whole",
            "test_a_worker_whose_children_begin_one_message_each_finds_a_dead_one_too",
        )
    ),
    "tests/tasks/test_process.py",
)
KILLS_ON_POSTGRESQL = (
    *(f"tests/process/test_{each}.py" for each in ("bank", "late_claim", "listening", "pools")),
    "tests/process/test_guardian.py::test_a_whole_worker_that_was_killed_is_found_by_another_long_before_its_lease_of_ten_minutes",
)
ON_SPARK_ALONE = ("django_dbqueue/spark/", "django_dbqueue/streams/", *helpers("tests/spark"))
ON_SPARK = (
    "tests/spark/test_consuming.py::test_a_queue_is_drained_into_parquet_exactly_once_and_acked_to_the_last",
    "tests/spark/test_consuming_faults.py::test_a_kill_of_the_jvm_and_the_runner_doubles_and_loses_nothing[in a task]",
    "tests/spark/test_export.py::test_every_outcome_comes_into_the_lake_as_it_was_and_leaves_the_archive",
    "tests/spark/test_export_killed.py::test_killed_at_any_point_each_row_is_once_in_the_lake_after_the_next_run[published]",
    "tests/spark/test_writing.py::test_rows_arrive_as_enqueue_would_have_stored_them[false]",
    "tests/spark/test_writing_killed.py::test_a_job_whose_driver_is_killed_is_whole_or_not_there_and_runs_again[after]",
    "tests/spark/test_reading_filters.py::test_a_filter_means_the_same_in_every_session[true]",
    "tests/spark/test_secrets.py",
)

PARTS: Mapping[str, Sequence[Part]] = {
    "facts": [
        Part("what knows the whole project", ["sqlite"], [*FACTS, PLANTED], WALKED),
    ],
    "tools": [
        Part("what tries our own tools", ["sqlite"], [TOOLS], NIGHT),
    ],
    "sqlite": [
        Part(
            "all but the slow",
            ["sqlite"],
            ["tests"],
            [*FACTS, f"{TOOLS}/*", *BROWSER.files, *WALKED, *NIGHT, *(f"{each}*" for each in ELSEWHERE)],
        ),
    ],
    "postgres": [
        Part(OF_ITS_OWN, ["postgres"], [*OF_A_SERVER["postgres"], *seeing("postgres", *SEEN)], ALIKE, ON_A_SERVER)
    ],
    "mariadb": [
        Part(OF_ITS_OWN, ["mariadb"], [*OF_A_SERVER["mariadb"], *seeing("mariadb", *SEEN)], ALIKE, ON_A_SERVER)
    ],
    "mysql": [
        Part(
            OF_ITS_OWN,
            ["mysql"],
            [*OF_A_SERVER["mysql"], *seeing("mysql", *SEEN)],
            [*ALIKE, *AS_ON_MARIADB],
            ON_A_SERVER,
        )
    ],
    "spark": [Part("the pipeline end to end", ["mariadb"], ON_SPARK, marks="spark and not nightly", at_once=0)],
    "processes": [
        Part("processes, and all orders of two sessions", ["sqlite"], [*seeing("sqlite", *ELSEWHERE)]),
        Part("torture", ["sqlite"], seeing("sqlite", "tests/torture/"), marks="slow and not nightly and not spark"),
    ],
    "kills": [
        Part("kills", ["mariadb"], KILLS, at_once=3),
        Part("kills that only it shows", ["postgres"], KILLS_ON_POSTGRESQL, at_once=3),
    ],
    "touched-spark": [
        Part(
            "all on Spark",
            ["mariadb"],
            ["tests/spark"],
            marks="spark and not nightly",
            at_once=0,
            touched=ON_SPARK_ALONE,
        ),
        *(
            Part(
                "what sees a planted bug on Spark",
                [server],
                seeing(server, "tests/spark/"),
                marks="not nightly and not spark" if server == "mariadb" else "not nightly",
                at_once=0,
                touched=ON_SPARK_ALONE,
            )
            for server in ("sqlite", "mariadb", "postgres", "mysql")
        ),
    ],
    "touched": [
        Part(
            "all pages, and a browser",
            ["sqlite"],
            [*IN_A_BROWSER, *PAGES],
            marks="not nightly",
            touched=[
                *(f"django_dbqueue/{each}/" for each in ("admin", "templates", "static")),
                *helpers("tests/admin"),
            ],
        ),
        Part("the site", ["sqlite"], ["tests/tools/test_site.py"], touched=["docs/"]),
        *(
            Part("a page that is followed", ["sqlite"], [test], marks="not nightly and not spark", touched=pages)
            for test, pages in followed(*FOLLOWING).items()
        ),
        *(
            Part("all of it", ["sqlite"], [*tests], touched=[each for each in BY_FOLDER if BY_FOLDER[each] == [*tests]])
            for tests in sorted({tuple(each) for each in BY_FOLDER.values()})
        ),
        Part(
            "plans of a million rows",
            ["mariadb", "postgres"],
            ["tests/plans"],
            marks="slow and not nightly and not spark",
            touched=[
                "django_dbqueue/*_sql.py",
                *(f"django_dbqueue/{each}/" for each in ("databases", "migrations", "models", "states")),
                *helpers("tests/plans", "tests/scale"),
            ],
        ),
    ],
}

QUICK = ("facts", "sqlite")
"""Parts of the gate that need no server and few minutes."""

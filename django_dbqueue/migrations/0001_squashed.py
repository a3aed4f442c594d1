from django.db import migrations, models

from django_dbqueue.models.fields import AsciiField, DbNow, ExactTextField, KeyField, StatusField, UTCDateTimeField


class Migration(migrations.Migration):
    """All tables, in one: nothing of what it replaces was ever released."""

    initial = True
    replaces = [
        ("django_dbqueue", name)
        for name in (
            "0001_initial",
            "0002_results",
            "0003_groups",
            "0004_once",
            "0005_steps",
            "0006_totals",
            "0007_operator_verbs",
            "0008_flows",
            "0009_schedules",
            "0010_pause_until",
            "0011_flow_permissions",
            "0012_stream_progress",
            "0013_archived_flow",
            "0014_replica_beat",
            "0015_text_columns",
            "0016_event_exception",
        )
    ]

    dependencies = []

    operations = [
        migrations.CreateModel(
            name="BulkOperation",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("ticket", AsciiField(editable=False, max_length=32, unique=True)),
                ("verb", AsciiField(max_length=16, verbose_name="verb")),
                ("selection", ExactTextField(verbose_name="selection")),
                ("last_id", models.BigIntegerField(verbose_name="last message")),
                ("expected", models.BigIntegerField(verbose_name="expected")),
                ("cursor", ExactTextField(default="", verbose_name="cursor")),
                ("steps", models.BigIntegerField(db_default=0, default=0, verbose_name="steps")),
                ("message_id", models.BigIntegerField(null=True, verbose_name="message of the next step")),
                ("moved", models.BigIntegerField(db_default=0, default=0, verbose_name="moved")),
                ("left_alone", models.BigIntegerField(db_default=0, default=0, verbose_name="left alone")),
                ("state", AsciiField(max_length=8, verbose_name="state")),
                ("reason", ExactTextField(default="", verbose_name="reason")),
                ("target", AsciiField(db_default="", default="", max_length=64, verbose_name="queue to move to")),
                ("user_id", KeyField(max_length=255, verbose_name="user")),
                ("ordered_by", KeyField(max_length=255, verbose_name="ordered by")),
                ("ordered_at", UTCDateTimeField(db_default=DbNow(), verbose_name="ordered at")),
                ("ended_at", UTCDateTimeField(null=True, verbose_name="ended at")),
                ("error", ExactTextField(null=True, verbose_name="error")),
            ],
            options={
                "verbose_name": "bulk operation",
                "verbose_name_plural": "bulk operations",
                "permissions": (("stop_bulkoperation", "Can stop bulk operations"),),
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Flow",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("name", KeyField(max_length=200, verbose_name="name")),
                ("created_at", UTCDateTimeField(db_default=DbNow(), verbose_name="created at")),
            ],
            options={
                "verbose_name": "flow",
                "verbose_name_plural": "flows",
                "permissions": (("cancel_flow", "Can cancel flows"),),
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="FlowPart",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "flow", "first_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("flow", models.BigIntegerField()),
                ("first_id", models.BigIntegerField()),
                ("last_id", models.BigIntegerField()),
                ("messages", models.PositiveIntegerField()),
                ("parent", models.BigIntegerField(null=True)),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="HistoryReader",
            fields=[
                ("name", AsciiField(max_length=64, primary_key=True, serialize=False, verbose_name="name")),
                ("position", models.BigIntegerField(verbose_name="position")),
                ("begun_at", UTCDateTimeField(db_default=DbNow(), verbose_name="begun at")),
                ("seen_at", UTCDateTimeField(db_default=DbNow(), verbose_name="last seen")),
            ],
            options={
                "verbose_name": "reader of the history",
                "verbose_name_plural": "readers of the history",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Line",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lane", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("lane", models.BigIntegerField()),
                ("message_id", models.BigIntegerField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="Mutex",
            fields=[("name", AsciiField(max_length=32, primary_key=True, serialize=False))],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="PublishedJob",
            fields=[
                ("name", AsciiField(max_length=200, primary_key=True, serialize=False, verbose_name="job")),
                ("run", models.BigIntegerField(verbose_name="run")),
                ("created", models.BigIntegerField(verbose_name="messages created")),
                ("ignored", models.BigIntegerField(verbose_name="messages ignored for their key")),
                ("published_at", UTCDateTimeField(db_default=DbNow(), verbose_name="published at")),
            ],
            options={
                "verbose_name": "published job",
                "verbose_name_plural": "published jobs",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="Queue",
            fields=[
                ("name", AsciiField(max_length=64, primary_key=True, serialize=False, verbose_name="name")),
                (
                    "pause_set",
                    models.BooleanField(db_column="is_paused", db_default=False, default=False, verbose_name="paused"),
                ),
                ("paused_at", UTCDateTimeField(blank=True, null=True, verbose_name="paused at")),
                ("paused_until", UTCDateTimeField(blank=True, null=True, verbose_name="paused until")),
                (
                    "paused_by",
                    KeyField(blank=True, db_default="", default="", max_length=150, verbose_name="paused by"),
                ),
                (
                    "pause_reason",
                    KeyField(blank=True, db_default="", default="", max_length=500, verbose_name="reason"),
                ),
                ("created_at", UTCDateTimeField(db_default=DbNow(), verbose_name="created at")),
            ],
            options={
                "verbose_name": "queue",
                "verbose_name_plural": "queues",
                "permissions": (("pause_queue", "Can pause and resume queues"),),
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="QueueTotal",
            fields=[
                ("queue", AsciiField(max_length=64, primary_key=True, serialize=False, verbose_name="queue")),
                ("messages", models.BigIntegerField(verbose_name="messages")),
                ("failures", models.BigIntegerField(verbose_name="failed deliveries")),
                ("retries", models.BigIntegerField(verbose_name="retries")),
                ("dead", models.BigIntegerField(verbose_name="dead")),
                ("wait", ExactTextField(verbose_name="histogram of waits")),
                ("run", ExactTextField(verbose_name="histogram of run times")),
            ],
            options={
                "verbose_name": "total",
                "verbose_name_plural": "totals",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="ReplicaBeat",
            fields=[
                ("name", AsciiField(max_length=32, primary_key=True, serialize=False)),
                ("at", UTCDateTimeField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="Schedule",
            fields=[
                ("name", AsciiField(max_length=64, primary_key=True, serialize=False, verbose_name="name")),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("cron", AsciiField(max_length=200, verbose_name="cron expression")),
                ("timezone", AsciiField(max_length=64, verbose_name="time zone")),
                ("last_due", UTCDateTimeField(db_default=DbNow(), verbose_name="last due")),
                ("last_message_id", models.BigIntegerField(null=True, verbose_name="last message")),
                ("declared_at", UTCDateTimeField(verbose_name="declared at")),
                ("seen_at", UTCDateTimeField(db_default=DbNow(), verbose_name="last declared")),
                ("is_added", models.BooleanField(db_default=False, default=False, verbose_name="added by an operator")),
                (
                    "missed",
                    AsciiField(db_default="latest", default="latest", max_length=8, verbose_name="missed due times"),
                ),
                ("body", ExactTextField(blank=True, null=True, verbose_name="payload")),
                ("key", KeyField(blank=True, max_length=200, null=True, verbose_name="key")),
                ("disabled_at", UTCDateTimeField(blank=True, null=True, verbose_name="disabled at")),
                (
                    "disabled_by",
                    KeyField(blank=True, db_default="", default="", max_length=150, verbose_name="disabled by"),
                ),
                (
                    "disabled_reason",
                    KeyField(blank=True, db_default="", default="", max_length=500, verbose_name="reason"),
                ),
                ("revision", models.PositiveIntegerField(db_default=0, default=0, editable=False)),
            ],
            options={
                "verbose_name": "schedule",
                "verbose_name_plural": "schedules",
                "permissions": (
                    ("disable_schedule", "Can disable and enable schedules"),
                    ("run_schedule", "Can run schedules now"),
                ),
                "default_permissions": ("view", "add", "change", "delete"),
            },
        ),
        migrations.CreateModel(
            name="StagedMessage",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "run", "attempt", "place", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("job", AsciiField(max_length=200, verbose_name="job")),
                ("run", models.BigIntegerField(verbose_name="run")),
                ("attempt", models.BigIntegerField(verbose_name="attempt")),
                ("place", models.BigIntegerField(verbose_name="place")),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("key", KeyField(max_length=200, null=True, verbose_name="key")),
                ("key_hash", AsciiField(max_length=64, null=True)),
                ("body", ExactTextField(verbose_name="body")),
                ("content_type", AsciiField(max_length=16, verbose_name="content type")),
                ("headers_text", ExactTextField(db_column="headers", null=True, verbose_name="headers")),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("max_reads", models.PositiveIntegerField(null=True, verbose_name="reads allowed")),
                ("lease_seconds", models.FloatField(null=True, verbose_name="lease in seconds")),
                ("lane", models.BigIntegerField(null=True)),
                ("group_name", KeyField(max_length=200, null=True, verbose_name="group")),
                ("delay_seconds", models.FloatField(verbose_name="delay in seconds")),
                ("due_at", UTCDateTimeField(null=True, verbose_name="due at")),
                ("staged_at", UTCDateTimeField(db_default=DbNow(), verbose_name="staged at")),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="StatisticProgress",
            fields=[
                ("id", models.SmallIntegerField(primary_key=True, serialize=False)),
                ("fresh_to", UTCDateTimeField()),
                ("settled_to", UTCDateTimeField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="Step",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "message_id", "name", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("name", KeyField(max_length=200, verbose_name="name")),
                ("kind", AsciiField(max_length=16, verbose_name="kind")),
                ("body", ExactTextField(null=True, verbose_name="body")),
                ("content_type", AsciiField(max_length=16, null=True, verbose_name="content type")),
                ("until", UTCDateTimeField(null=True, verbose_name="until")),
                ("token", models.BigIntegerField(verbose_name="claim token")),
                ("read_count", models.PositiveIntegerField(verbose_name="reads")),
                ("at", UTCDateTimeField(db_default=DbNow(), verbose_name="at")),
            ],
            options={
                "verbose_name": "step",
                "verbose_name_plural": "steps",
                "permissions": (("forget_step", "Can make messages forget steps"),),
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Stream",
            fields=[
                ("name", AsciiField(max_length=64, primary_key=True, serialize=False, verbose_name="name")),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("on_expired", AsciiField(max_length=8, verbose_name="when its lease is over")),
                ("lease_seconds", models.FloatField(verbose_name="lease in seconds")),
                ("run", models.BigIntegerField(null=True, verbose_name="run")),
                ("runner", KeyField(db_default="", default="", max_length=200, verbose_name="runner")),
                ("conn_id", models.BigIntegerField(null=True, verbose_name="database session")),
                ("last_number", models.BigIntegerField(db_default=0, default=0, verbose_name="last claim")),
                ("begun_at", UTCDateTimeField(db_default=DbNow(), verbose_name="begun at")),
                ("beat_at", UTCDateTimeField(db_default=DbNow(), verbose_name="last beat")),
            ],
            options={
                "verbose_name": "stream",
                "verbose_name_plural": "streams",
                "default_permissions": ("view",),
            },
        ),
        migrations.CreateModel(
            name="StreamProgress",
            fields=[
                ("name", AsciiField(max_length=80, primary_key=True, serialize=False, verbose_name="name")),
                ("query_id", AsciiField(db_index=True, max_length=36, verbose_name="query")),
                ("messages", models.BigIntegerField(verbose_name="messages")),
                ("rate", models.FloatField(verbose_name="messages per second")),
                ("backlog", models.BigIntegerField(verbose_name="backlog")),
                (
                    "backlog_capped",
                    models.PositiveSmallIntegerField(verbose_name="whether the backlog is larger than counted"),
                ),
                ("failures", models.BigIntegerField(verbose_name="failures")),
                ("progressed_at", UTCDateTimeField(verbose_name="last progress")),
                ("failed_at", UTCDateTimeField(null=True, verbose_name="last failure")),
                ("error", ExactTextField(null=True, verbose_name="error")),
            ],
            options={
                "verbose_name": "progress of a stream",
                "verbose_name_plural": "progress of streams",
                "default_permissions": (),
            },
        ),
        migrations.CreateModel(
            name="Ticket",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "lane", "ticket", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("lane", models.BigIntegerField()),
                ("ticket", models.PositiveSmallIntegerField()),
                ("message_id", models.BigIntegerField()),
            ],
            options={"default_permissions": ()},
        ),
        migrations.CreateModel(
            name="ArchivedMessage",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.BigIntegerField(db_index=True, verbose_name="message")),
                ("outcome", AsciiField(max_length=8, verbose_name="outcome")),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("key", KeyField(max_length=200, null=True, verbose_name="key")),
                ("claim_token", models.BigIntegerField(null=True, verbose_name="claim token")),
                ("due_at", UTCDateTimeField(verbose_name="due at")),
                ("priority", models.SmallIntegerField(verbose_name="priority")),
                ("read_count", models.PositiveIntegerField(verbose_name="reads")),
                ("max_reads", models.PositiveIntegerField(null=True, verbose_name="reads allowed")),
                ("crashes", models.PositiveIntegerField(verbose_name="crashes")),
                ("body", ExactTextField(verbose_name="body")),
                ("content_type", AsciiField(max_length=16, verbose_name="content type")),
                ("headers_text", ExactTextField(db_column="headers", null=True, verbose_name="headers")),
                ("group_name", KeyField(max_length=200, null=True, verbose_name="group")),
                ("flow", models.BigIntegerField(null=True, verbose_name="flow")),
                ("created_at", UTCDateTimeField(verbose_name="created at")),
                ("claimed_at", UTCDateTimeField(null=True, verbose_name="claimed at")),
                ("finished_at", UTCDateTimeField(verbose_name="finished at")),
                ("error", ExactTextField(null=True, verbose_name="error")),
                ("archived_at", UTCDateTimeField(db_default=DbNow(), verbose_name="archived at")),
            ],
            options={
                "verbose_name": "archived message",
                "verbose_name_plural": "archived messages",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["finished_at"], name="dbqueue_history_end")],
            },
        ),
        migrations.CreateModel(
            name="Edge",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "downstream", "upstream", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("downstream", models.BigIntegerField()),
                ("upstream", models.BigIntegerField()),
                ("needs", AsciiField(max_length=8)),
            ],
            options={
                "default_permissions": (),
                "indexes": [models.Index(fields=["upstream", "downstream"], name="dbqueue_edge_upstream")],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                ("name_hash", AsciiField(max_length=64, primary_key=True, serialize=False)),
                ("name", KeyField(max_length=200, verbose_name="name")),
                ("body", ExactTextField(verbose_name="body")),
                ("content_type", AsciiField(max_length=16, verbose_name="content type")),
                ("token", models.BigIntegerField(editable=False)),
                ("at", UTCDateTimeField(db_default=DbNow(), verbose_name="at")),
                ("wake_from", UTCDateTimeField(null=True, verbose_name="to be woken from")),
                ("expires_at", UTCDateTimeField(verbose_name="kept until")),
            ],
            options={
                "verbose_name": "emitted event",
                "verbose_name_plural": "emitted events",
                "db_table": "django_dbqueue_eventvalue",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["expires_at"], name="dbqueue_eventvalue_end"),
                    models.Index(fields=["wake_from"], name="dbqueue_eventvalue_wake"),
                ],
            },
        ),
        migrations.CreateModel(
            name="ExportBatch",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("lake", KeyField(max_length=200, verbose_name="lake")),
                ("number", models.BigIntegerField(verbose_name="number")),
                ("first_id", models.BigIntegerField(verbose_name="first id")),
                ("last_id", models.BigIntegerField(verbose_name="last id")),
                ("rows", models.BigIntegerField(verbose_name="rows")),
                ("state", AsciiField(max_length=8, verbose_name="state")),
                ("planned_at", UTCDateTimeField(db_default=DbNow(), verbose_name="planned at")),
                ("verified_at", UTCDateTimeField(null=True, verbose_name="verified at")),
                ("purged_to", models.BigIntegerField(db_index=True, null=True, verbose_name="purged up to id")),
                ("purged_at", UTCDateTimeField(null=True, verbose_name="purged at")),
            ],
            options={
                "verbose_name": "export",
                "verbose_name_plural": "exports",
                "default_permissions": ("view",),
                "constraints": [models.UniqueConstraint(fields=("lake", "number"), name="dbqueue_export_batch")],
            },
        ),
        migrations.CreateModel(
            name="Failure",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("fingerprint", AsciiField(max_length=64, verbose_name="fingerprint")),
                ("exception", KeyField(max_length=200, verbose_name="exception")),
                ("place", KeyField(max_length=300, verbose_name="place")),
                ("first_at", UTCDateTimeField(db_default=DbNow(), verbose_name="first seen")),
            ],
            options={
                "verbose_name": "failure",
                "verbose_name_plural": "failures",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["queue", "id"], name="dbqueue_failure_newest")],
                "constraints": [models.UniqueConstraint(fields=("queue", "fingerprint"), name="dbqueue_failure")],
            },
        ),
        migrations.CreateModel(
            name="Group",
            fields=[
                ("lane", models.BigIntegerField(primary_key=True, serialize=False)),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("name", KeyField(max_length=200, verbose_name="group")),
                ("width", models.PositiveIntegerField(blank=True, null=True, verbose_name="limit")),
                ("rate", AsciiField(blank=True, max_length=16, null=True, verbose_name="rate")),
                ("scheduled", models.BigIntegerField(editable=False, null=True)),
                ("started", models.BigIntegerField(editable=False, null=True)),
                ("is_paused", models.BooleanField(db_default=False, default=False, verbose_name="paused")),
                ("paused_at", UTCDateTimeField(blank=True, null=True, verbose_name="paused at")),
                (
                    "paused_by",
                    KeyField(blank=True, db_default="", default="", max_length=150, verbose_name="paused by"),
                ),
                (
                    "pause_reason",
                    KeyField(blank=True, db_default="", default="", max_length=500, verbose_name="reason"),
                ),
            ],
            options={
                "verbose_name": "group",
                "verbose_name_plural": "groups",
                "permissions": (("change_group_limit", "Can change the limits of groups"),),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["is_paused", "lane"], name="dbqueue_group_paused"),
                    models.Index(fields=["queue", "rate"], name="dbqueue_group_rate"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Message",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("key", KeyField(blank=True, max_length=200, null=True, verbose_name="key")),
                ("key_hash", AsciiField(editable=False, max_length=64, null=True)),
                ("live", models.PositiveSmallIntegerField(editable=False, null=True)),
                (
                    "status",
                    StatusField(
                        choices=[("n", "n"), ("run", "run"), ("y", "y")],
                        db_default="n",
                        default="n",
                        max_length=3,
                        verbose_name="status",
                    ),
                ),
                ("conn_id", models.BigIntegerField(null=True, verbose_name="database session")),
                ("worker_id", models.BigIntegerField(null=True, verbose_name="worker")),
                ("claim_token", models.BigIntegerField(null=True, verbose_name="claim token")),
                ("available_at", UTCDateTimeField(db_default=DbNow(), null=True, verbose_name="available at")),
                ("due_at", UTCDateTimeField(db_default=DbNow(), verbose_name="due at")),
                ("priority", models.SmallIntegerField(db_default=0, default=0, verbose_name="priority")),
                ("read_count", models.PositiveIntegerField(db_default=0, default=0, verbose_name="reads")),
                ("max_reads", models.PositiveIntegerField(null=True, verbose_name="reads allowed")),
                ("crashes", models.PositiveIntegerField(db_default=0, default=0, verbose_name="crashes")),
                ("lease_seconds", models.FloatField(null=True, verbose_name="lease in seconds")),
                ("body", ExactTextField(verbose_name="body")),
                (
                    "content_type",
                    AsciiField(db_default="json", default="json", max_length=16, verbose_name="content type"),
                ),
                ("headers_text", ExactTextField(db_column="headers", null=True, verbose_name="headers")),
                ("lane", models.BigIntegerField(editable=False, null=True)),
                ("group_name", KeyField(max_length=200, null=True, verbose_name="group")),
                ("flow", models.BigIntegerField(null=True, verbose_name="flow")),
                ("created_at", UTCDateTimeField(db_default=DbNow(), verbose_name="created at")),
                ("claimed_at", UTCDateTimeField(null=True, verbose_name="claimed at")),
                ("finished_at", UTCDateTimeField(null=True, verbose_name="finished at")),
                ("error", ExactTextField(null=True, verbose_name="error")),
            ],
            options={
                "verbose_name": "message",
                "verbose_name_plural": "messages",
                "permissions": (
                    ("requeue_message", "Can requeue messages"),
                    ("hasten_message", "Can make messages due now"),
                    ("release_message", "Can release messages"),
                    ("reject_message", "Can reject messages"),
                    ("resend_message", "Can send messages again"),
                    ("edit_message", "Can send messages anew with an edited payload"),
                    ("move_message", "Can move messages to another queue"),
                    ("drop_message", "Can drop messages"),
                    ("view_payload", "Can see payloads"),
                ),
                "default_permissions": ("view",),
                "indexes": [
                    models.Index(fields=["queue", "status", "priority", "available_at", "id"], name="dbqueue_claim")
                ],
                "constraints": [
                    models.UniqueConstraint(fields=("key_hash", "live"), name="dbqueue_live_key"),
                    models.CheckConstraint(
                        condition=models.Q(("status__in", ("n", "run", "y"))), name="dbqueue_status"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "run"), _negated=True),
                            models.Q(
                                ("available_at__isnull", False),
                                ("claim_token__isnull", False),
                                ("claimed_at__isnull", False),
                            ),
                            _connector="OR",
                        ),
                        name="dbqueue_run_has_claim",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "y"), _negated=True), ("finished_at__isnull", False), _connector="OR"
                        ),
                        name="dbqueue_done_has_end",
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("status", "n"), _negated=True),
                            ("available_at__isnull", False),
                            ("finished_at__isnull", False),
                            _connector="OR",
                        ),
                        name="dbqueue_dead_has_end",
                    ),
                ],
            },
        ),
        migrations.CreateModel(
            name="MessageEvent",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("kind", AsciiField(max_length=16, verbose_name="kind")),
                ("at", UTCDateTimeField(db_default=DbNow(), verbose_name="at")),
                ("read_count", models.PositiveIntegerField(null=True, verbose_name="reads")),
                ("claimed_at", UTCDateTimeField(null=True, verbose_name="claimed at")),
                ("conn_id", models.BigIntegerField(null=True, verbose_name="database session")),
                ("worker", KeyField(max_length=300, null=True, verbose_name="worker")),
                ("actor", KeyField(max_length=200, null=True, verbose_name="by")),
                ("detail", ExactTextField(null=True, verbose_name="detail")),
                ("failure_id", models.BigIntegerField(null=True, verbose_name="failure")),
                ("exception", KeyField(max_length=300, null=True, verbose_name="exception")),
            ],
            options={
                "verbose_name": "event",
                "verbose_name_plural": "events",
                "default_permissions": (),
                "indexes": [
                    models.Index(fields=["message_id", "id"], name="dbqueue_event_message"),
                    models.Index(fields=["failure_id", "id"], name="dbqueue_event_failure"),
                    models.Index(fields=["at"], name="dbqueue_event_at"),
                ],
            },
        ),
        migrations.CreateModel(
            name="Once",
            fields=[
                ("hash", AsciiField(max_length=64, primary_key=True, serialize=False, verbose_name="hash")),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("expires_at", UTCDateTimeField(verbose_name="kept until")),
            ],
            options={
                "verbose_name": "token",
                "verbose_name_plural": "tokens",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["expires_at"], name="dbqueue_once_end")],
            },
        ),
        migrations.CreateModel(
            name="QueueMinute",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("minute", UTCDateTimeField(verbose_name="minute")),
                ("shown", models.BooleanField(verbose_name="shown")),
                ("messages", models.BigIntegerField(verbose_name="messages")),
                ("failures", models.BigIntegerField(verbose_name="failed deliveries")),
                ("retries", models.BigIntegerField(verbose_name="retries")),
                ("dead", models.BigIntegerField(verbose_name="dead")),
                ("wait", ExactTextField(verbose_name="histogram of waits")),
                ("run", ExactTextField(verbose_name="histogram of run times")),
            ],
            options={
                "verbose_name": "minute",
                "verbose_name_plural": "minutes",
                "default_permissions": (),
                "indexes": [models.Index(fields=["minute"], name="dbqueue_minute")],
                "constraints": [
                    models.UniqueConstraint(fields=("queue", "minute", "shown"), name="dbqueue_queue_minute")
                ],
            },
        ),
        migrations.CreateModel(
            name="QueueStatistic",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("hour", UTCDateTimeField(verbose_name="hour")),
                ("messages", models.BigIntegerField(verbose_name="messages")),
                ("failures", models.BigIntegerField(verbose_name="failed deliveries")),
                ("retries", models.BigIntegerField(verbose_name="retries")),
                ("dead", models.BigIntegerField(verbose_name="dead")),
                ("wait_p50", models.FloatField(null=True, verbose_name="median wait")),
                ("wait_p95", models.FloatField(null=True, verbose_name="wait, 95th percentile")),
                ("wait_p99", models.FloatField(null=True, verbose_name="wait, 99th percentile")),
                ("run_p50", models.FloatField(null=True, verbose_name="median run time")),
                ("run_p95", models.FloatField(null=True, verbose_name="run time, 95th percentile")),
                ("run_p99", models.FloatField(null=True, verbose_name="run time, 99th percentile")),
                ("computed_at", UTCDateTimeField(db_default=DbNow(), verbose_name="computed at")),
            ],
            options={
                "verbose_name": "statistic",
                "verbose_name_plural": "statistics",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["hour"], name="dbqueue_statistic_hour")],
                "constraints": [models.UniqueConstraint(fields=("queue", "hour"), name="dbqueue_queue_hour")],
            },
        ),
        migrations.CreateModel(
            name="Result",
            fields=[
                ("message_id", models.BigIntegerField(primary_key=True, serialize=False, verbose_name="message")),
                ("body", ExactTextField(verbose_name="body")),
                ("content_type", AsciiField(max_length=16, verbose_name="content type")),
                ("expires_at", UTCDateTimeField(verbose_name="kept until")),
                ("flow", models.BigIntegerField(null=True, verbose_name="flow")),
            ],
            options={
                "verbose_name": "result",
                "verbose_name_plural": "results",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["expires_at"], name="dbqueue_result_end")],
            },
        ),
        migrations.CreateModel(
            name="StreamClaim",
            fields=[
                ("id", models.BigAutoField(primary_key=True, serialize=False)),
                ("stream", AsciiField(max_length=64, verbose_name="stream")),
                ("number", models.BigIntegerField(verbose_name="number")),
                ("queue", AsciiField(max_length=64, verbose_name="queue")),
                ("claim_token", models.BigIntegerField(db_index=True, verbose_name="claim token")),
                ("state", AsciiField(max_length=8, verbose_name="state")),
                ("ids", ExactTextField(verbose_name="ids")),
                ("messages", models.PositiveIntegerField(verbose_name="messages")),
                ("attempts", models.PositiveIntegerField(db_default=0, default=0, verbose_name="attempts")),
                ("run", models.BigIntegerField(null=True, verbose_name="run that read it last")),
                ("lease_until", UTCDateTimeField(verbose_name="lease until")),
                ("claimed_at", UTCDateTimeField(db_default=DbNow(), verbose_name="claimed at")),
                ("ended_at", UTCDateTimeField(null=True, verbose_name="ended at")),
            ],
            options={
                "verbose_name": "claim of a stream",
                "verbose_name_plural": "claims of streams",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["state", "lease_until"], name="dbqueue_claim_lease")],
                "constraints": [models.UniqueConstraint(fields=("stream", "number"), name="dbqueue_stream_claim")],
            },
        ),
        migrations.CreateModel(
            name="Waiter",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "name_hash", "message_id", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("name_hash", AsciiField(max_length=64)),
                ("message_id", models.BigIntegerField(verbose_name="message")),
                ("token", models.BigIntegerField(verbose_name="claim token")),
            ],
            options={
                "verbose_name": "waiter",
                "verbose_name_plural": "waiters",
                "default_permissions": (),
                "indexes": [models.Index(fields=["message_id"], name="dbqueue_waiter_message")],
            },
        ),
        migrations.CreateModel(
            name="Worker",
            fields=[
                ("id", models.BigIntegerField(primary_key=True, serialize=False)),
                ("host", KeyField(max_length=255, verbose_name="host")),
                ("pid", models.BigIntegerField(verbose_name="process")),
                ("conn_id", models.BigIntegerField(null=True, verbose_name="database session")),
                ("queues", ExactTextField(verbose_name="queues")),
                ("threads", models.PositiveIntegerField(verbose_name="threads")),
                ("session_lock", models.BigIntegerField(null=True, verbose_name="named lock of the session")),
                ("server", KeyField(db_default="", default="", max_length=200, verbose_name="server of the session")),
                ("held", models.PositiveIntegerField(db_default=0, default=0, verbose_name="messages held")),
                ("started_at", UTCDateTimeField(db_default=DbNow(), verbose_name="started at")),
                ("beat_at", UTCDateTimeField(db_default=DbNow(), verbose_name="last beat")),
                (
                    "beat_every",
                    models.PositiveSmallIntegerField(db_default=10, default=10, verbose_name="seconds between beats"),
                ),
                ("late_at", UTCDateTimeField(db_default=DbNow(), verbose_name="next beat is late from")),
            ],
            options={
                "verbose_name": "worker",
                "verbose_name_plural": "workers",
                "default_permissions": ("view",),
                "indexes": [models.Index(fields=["server", "late_at"], name="dbqueue_worker_late")],
            },
        ),
    ]

CREATE SQL SECURITY DEFINER VIEW main_queue AS
SELECT id,
    queue AS queue_name,
    body AS payload,
    read_count AS read_cnt,
    max_reads AS max_read_cnt,
    claimed_at AS last_read,
    CASE WHEN {ended} THEN {lease_end} ELSE available_at END AS next_read,
    lease_seconds AS invisibility_time,
    created_at,
    CASE WHEN {is_done} THEN finished_at END AS deleted_at
FROM {message}
-- always so: a view has no comment here, and this stays in its definition
WHERE '{comment}' <> ''

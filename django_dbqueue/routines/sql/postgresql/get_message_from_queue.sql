CREATE FUNCTION {schema}.get_message_from_queue(_queue_name text)
RETURNS TABLE (
    id bigint,
    queue_name text,
    payload text,
    read_cnt bigint,
    max_read_cnt bigint,
    last_read timestamptz,
    next_read timestamptz,
    invisibility_time double precision,
    created_at timestamptz,
    deleted_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
#variable_conflict use_column
DECLARE
    _ids bigint[];
BEGIN
    PERFORM {schema}.dbqueue_check_queue(_queue_name);
    _ids := {schema}.dbqueue_claim(_queue_name, 1::integer, NULL::double precision);
    RETURN QUERY
    SELECT m.id, m.queue::text, m.body, m.read_count::bigint, m.max_reads::bigint, m.claimed_at, m.available_at,
        m.lease_seconds, m.created_at, NULL::timestamptz
    FROM {message} AS m
    WHERE m.id >= _ids[1] AND m.id <= _ids[1]
    ORDER BY m.id LIMIT 1; -- by its primary key alone: the claim's index holds ids, too, and is as cheap in a small table
END
$routine$

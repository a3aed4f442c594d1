CREATE FUNCTION {schema}.claim_messages(_queue_name text, _how_many integer, _lease double precision)
RETURNS TABLE (
    id bigint,
    token bigint,
    payload text,
    content_type text,
    headers text,
    key text,
    read_count bigint,
    max_reads bigint,
    lease_ends_at timestamptz,
    created_at timestamptz
)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
#variable_conflict use_column
DECLARE
    _ids bigint[];
BEGIN
    PERFORM {schema}.dbqueue_check_queue(_queue_name);
    PERFORM {schema}.dbqueue_check_seconds('lease'::text, {least_lease}::double precision, _lease);
    IF _how_many IS NULL OR _how_many NOT BETWEEN 1 AND {max_claim} THEN
        RAISE EXCEPTION 'how_many must be from 1 to {max_claim}' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    _ids := {schema}.dbqueue_claim(_queue_name, _how_many, _lease);
    RETURN QUERY
    SELECT m.id, m.claim_token, m.body, m.content_type::text, m.headers, m.key::text, m.read_count::bigint,
        m.max_reads::bigint, m.available_at, m.created_at
    FROM unnest(_ids) WITH ORDINALITY AS c (id, place)
    CROSS JOIN LATERAL ( -- one by one, by the primary key: for a table that was small the server would read all of it
        SELECT * FROM {message} WHERE id >= c.id AND id <= c.id ORDER BY id LIMIT 1
    ) AS m
    ORDER BY c.place;
END
$routine$

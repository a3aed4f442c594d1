CREATE FUNCTION {schema}.dbqueue_claim(_queue_name text, _how_many integer, _lease double precision)
RETURNS bigint[]
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_bitmapscan = off
SET enable_seqscan = off
AS $routine$
DECLARE
    _token bigint := {schema}.dbqueue_new_token();
    _ids bigint[] := '{}';
    _priority integer;
    _moved integer;
    _is_own boolean := {is_own_transaction};
    _row record;
BEGIN
    -- n to run: takes due messages and returns their ids, in order. Plans are made anew for each call: one that was made
    -- while the table was small would stay with the session as it grows. Rows are read by an index, in its order, however
    -- few the server believes there are.
    IF EXISTS (SELECT 1 FROM {schema}.{queues} WHERE name = _queue_name AND {is_paused}) THEN
        RETURN _ids;
    END IF;
    _lease := coalesce(_lease, {lease});
    LOOP
        _moved := 0;
        _priority := {highest};
        WHILE cardinality(_ids) < _how_many LOOP
            _priority := ({next_priority_waiting});
            EXIT WHEN _priority IS NULL;
            FOR _row IN
                WITH taken AS (
                    {claim}
                )
                SELECT * FROM taken ORDER BY was_due, id
            LOOP
                IF {had_no_reads} THEN
                    {record_bury};
                    {bury};
                    IF _row.lane IS NOT NULL THEN
                        PERFORM {schema}.dbqueue_lane_moved(_row.id, _row.lane, FALSE, _is_own);
                    END IF;
                    _moved := _moved + 1;
                ELSE
                    _ids := _ids || _row.id;
                END IF;
            END LOOP;
        END LOOP;
        EXIT WHEN cardinality(_ids) >= _how_many;

        -- the queue came back short: run to n or dead for leases that are over, but those that were just taken
        _priority := {highest};
        LOOP
            _priority := ({next_priority_running});
            EXIT WHEN _priority IS NULL;
            FOR _row IN
                {rescue_range}
            LOOP
                _moved := _moved + 1;
                IF _row.lane IS NOT NULL THEN
                    PERFORM {schema}.dbqueue_lane_moved(_row.id, _row.lane, FALSE, _is_own);
                END IF;
            END LOOP;
        END LOOP;
        EXIT WHEN _moved = 0;
    END LOOP;
    RETURN _ids;
END
$routine$

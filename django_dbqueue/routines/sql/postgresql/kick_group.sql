CREATE FUNCTION {schema}.kick_group(_queue_name text, _group_name text)
RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_bitmapscan = off
SET enable_seqscan = off
AS $routine$
DECLARE
    _let integer := 0;
    _lane bigint;
    _first bigint;
    _after bigint;
    _until bigint;
BEGIN
    -- to be called after a commit: lets the group go on (NULL: each of the queue's groups); returns how many messages
    PERFORM {schema}.dbqueue_check_queue(_queue_name);
    IF _group_name IS NOT NULL THEN
        PERFORM {schema}.dbqueue_check_group(_queue_name, _group_name);
        RETURN {schema}.dbqueue_kick_lane(_queue_name, {schema}.dbqueue_lane_of(_queue_name, _group_name));
    END IF;
    _after := {schema}.dbqueue_lane_of(_queue_name, NULL::text) - 1;
    _until := _after + {lanes_of_queue};
    LOOP
        {next_lane} INTO _lane, _first;
        EXIT WHEN _lane IS NULL OR _lane > _until;
        _after := _lane;
        _let := _let + {schema}.dbqueue_kick_lane(_queue_name, _lane);
    END LOOP;
    RETURN _let;
END
$routine$

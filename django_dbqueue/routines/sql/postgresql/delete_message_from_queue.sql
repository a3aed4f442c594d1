CREATE FUNCTION {schema}.delete_message_from_queue(_message_id bigint)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
DECLARE
    _lane bigint;
    _is_own boolean := {is_own_transaction};
BEGIN
    -- {n, run, dead} to y by the id alone, whoever holds it; ack_message() is the fenced way
    {remove_by_id};
    {delete} RETURNING lane INTO _lane;
    IF _lane IS NOT NULL THEN
        PERFORM {schema}.dbqueue_lane_moved(_message_id, _lane, TRUE, _is_own);
    END IF;
END
$routine$

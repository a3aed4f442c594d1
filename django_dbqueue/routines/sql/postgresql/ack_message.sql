CREATE FUNCTION {schema}.ack_message(_id bigint, _token bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
DECLARE
    _lane bigint;
    _is_own boolean := {is_own_transaction};
BEGIN
    -- run to y (or the row goes, where its queue keeps no history), if this claim still holds it
    {remove};
    IF FOUND THEN
        RETURN TRUE;
    END IF;
    {ack} RETURNING lane INTO _lane;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    IF _lane IS NOT NULL THEN
        PERFORM {schema}.dbqueue_lane_moved(_id, _lane, FALSE, _is_own);
    END IF;
    RETURN TRUE;
END
$routine$

CREATE FUNCTION {schema}.nack_message(_id bigint, _token bigint, _delay double precision)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
DECLARE
    _lane bigint;
    _is_own boolean := {is_own_transaction};
BEGIN
    -- run to n after a delay in seconds (NULL: back where it stood), or dead when its reads are spent
    PERFORM {schema}.dbqueue_check_seconds('delay'::text, 0::double precision, _delay);
    {record_nack};
    IF _delay IS NULL THEN
        {nack} RETURNING lane INTO _lane;
    ELSE
        {nack_later} RETURNING lane INTO _lane;
    END IF;
    IF NOT FOUND THEN
        RETURN FALSE;
    END IF;
    IF _lane IS NOT NULL THEN
        PERFORM {schema}.dbqueue_lane_moved(_id, _lane, FALSE, _is_own);
    END IF;
    RETURN TRUE;
END
$routine$

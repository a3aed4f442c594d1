CREATE FUNCTION {schema}.ack_message(_id bigint, _token bigint)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
BEGIN
    -- run to y (or the row goes, where its queue keeps no history), if this claim still holds it
    {remove};
    IF FOUND THEN
        RETURN TRUE;
    END IF;
    {ack};
    RETURN FOUND;
END
$routine$

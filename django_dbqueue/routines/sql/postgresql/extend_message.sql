CREATE FUNCTION {schema}.extend_message(_id bigint, _token bigint, _seconds double precision)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
BEGIN
    -- run to run, the lease to end that many seconds from now (NULL: by its own length)
    PERFORM {schema}.dbqueue_check_seconds('seconds'::text, 0::double precision, _seconds);
    IF _seconds IS NULL THEN
        {extend_by_own};
    ELSE
        {extend};
    END IF;
    RETURN FOUND;
END
$routine$

CREATE FUNCTION {schema}.nack_message(_id bigint, _token bigint, _delay double precision)
RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
AS $routine$
BEGIN
    -- run to n after a delay in seconds (NULL: back where it stood), or dead when its reads are spent
    PERFORM {schema}.dbqueue_check_seconds('delay'::text, 0::double precision, _delay);
    {record_nack};
    IF _delay IS NULL THEN
        {nack};
    ELSE
        {nack_later};
    END IF;
    RETURN FOUND;
END
$routine$

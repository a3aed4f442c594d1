CREATE FUNCTION {schema}.dbqueue_check_queue(_queue_name text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
BEGIN
    IF _queue_name IS NULL OR _queue_name !~ '^[A-Za-z0-9][A-Za-z0-9_.:-]{0,63}$' THEN
        RAISE EXCEPTION 'queue_name must be 1 to 64 of A-Z a-z 0-9 _ . : -, beginning with a letter or a digit'
            USING ERRCODE = 'invalid_parameter_value';
    END IF;
    -- its messages are orders to the workers, which people with permissions give
    IF _queue_name = {forbidden} THEN
        RAISE EXCEPTION 'the queue % is not for routines: it is the one of the bulk operations', _queue_name
            USING ERRCODE = 'insufficient_privilege';
    END IF;
END
$routine$

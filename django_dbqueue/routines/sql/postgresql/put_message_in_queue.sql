CREATE FUNCTION {schema}.put_message_in_queue(
    _queue_name text, _payload text, _max_read_cnt bigint, _invisibility_time bigint
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _id bigint;
    _problem text := CASE
        WHEN _payload IS NULL THEN 'payload must not be NULL'
        WHEN octet_length(_payload) > {max_bytes}
            THEN 'payload must not take more than {max_bytes} bytes: store it elsewhere, send a reference'
        WHEN _max_read_cnt NOT BETWEEN 0 AND {max_reads_limit}
            THEN 'max_read_cnt must be from 0 (no limit) to {max_reads_limit}, or NULL for the setting'
    END;
BEGIN
    PERFORM {schema}.dbqueue_check_queue(_queue_name);
    PERFORM {schema}.dbqueue_check_seconds('invisibility_time'::text, 0::double precision, _invisibility_time::double precision);
    IF _problem IS NOT NULL THEN
        RAISE EXCEPTION '%', _problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    {insert} INTO _id;
    {notify}
    RETURN _id;
END
$routine$

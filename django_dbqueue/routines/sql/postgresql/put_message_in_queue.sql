CREATE FUNCTION {schema}.put_message_in_queue(
    _queue_name text, _payload text, _max_read_cnt bigint, _invisibility_time bigint
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _id bigint;
    _problem text := {put_problem};
BEGIN
    PERFORM {schema}.dbqueue_check_queue(_queue_name);
    PERFORM {schema}.dbqueue_check_seconds('invisibility_time'::text, 0::double precision, _invisibility_time::double precision);
    IF _problem IS NOT NULL THEN
        RAISE EXCEPTION '%', _problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF {is_whole} THEN
        RETURN {schema}.dbqueue_put_in_lane(
            _queue_name, _payload, _max_read_cnt, _invisibility_time, {whole_queue}::text
        );
    END IF;
    {insert} INTO _id;
    {notify}
    RETURN _id;
END
$routine$

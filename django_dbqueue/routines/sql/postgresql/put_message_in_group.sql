CREATE FUNCTION {schema}.put_message_in_group(
    _queue_name text, _payload text, _max_read_cnt bigint, _invisibility_time bigint, _group_name text
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _problem text := {put_problem};
BEGIN
    IF _group_name IS NULL THEN
        RETURN {schema}.put_message_in_queue(_queue_name, _payload, _max_read_cnt, _invisibility_time);
    END IF;
    PERFORM {schema}.dbqueue_check_queue(_queue_name);
    PERFORM {schema}.dbqueue_check_seconds('invisibility_time'::text, 0::double precision, _invisibility_time::double precision);
    PERFORM {schema}.dbqueue_check_group(_queue_name, _group_name);
    IF _problem IS NOT NULL THEN
        RAISE EXCEPTION '%', _problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
    RETURN {schema}.dbqueue_put_in_lane(_queue_name, _payload, _max_read_cnt, _invisibility_time, _group_name);
END
$routine$

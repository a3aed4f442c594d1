CREATE FUNCTION {schema}.dbqueue_check_group(_queue_name text, _group_name text)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _problem text := CASE
        WHEN {is_whole} AND _group_name <> {whole_queue}
            THEN 'all messages of this queue are one group, so none can name another: leave group_name NULL'
        WHEN NOT {is_whole} AND _group_name = {whole_queue}
            THEN 'group_name * stands for all messages of a queue: set the option group of the queue, or take another'
        WHEN char_length(_group_name) NOT BETWEEN 1 AND {max_group}
            THEN 'group_name must have 1 to {max_group} characters'
    END;
BEGIN
    IF _problem IS NOT NULL THEN
        RAISE EXCEPTION '%', _problem USING ERRCODE = 'invalid_parameter_value';
    END IF;
END
$routine$

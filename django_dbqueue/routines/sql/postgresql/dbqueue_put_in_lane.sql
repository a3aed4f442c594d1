CREATE FUNCTION {schema}.dbqueue_put_in_lane(
    _queue_name text, _payload text, _max_read_cnt bigint, _invisibility_time bigint, _group_name text
)
RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _id bigint;
    _lane bigint := {schema}.dbqueue_lane_of(_queue_name, _group_name);
BEGIN
    -- inserts a message that waits, and puts it into its line
    {insert_in_lane} INTO _id;
    {enter};
    RETURN _id;
END
$routine$

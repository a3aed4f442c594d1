CREATE FUNCTION {schema}.dbqueue_lane_of(_queue_name text, _group_name text)
RETURNS bigint
LANGUAGE plpgsql IMMUTABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
AS $routine$
DECLARE
    _queue bytea := convert_to(_queue_name, 'UTF8');
    _both bytea := _queue || decode('00', 'hex') || convert_to(_group_name, 'UTF8');
BEGIN
    -- 15 bits of the queue's digest, then 48 of the group's; with NULL, the lowest that a lane of the queue can have
    RETURN (('x' || left(encode(sha256(_queue), 'hex'), 4))::bit(16)::bigint & 32767) << 48
        | coalesce(('x' || left(encode(sha256(_both), 'hex'), 12))::bit(48)::bigint, 0);
END
$routine$

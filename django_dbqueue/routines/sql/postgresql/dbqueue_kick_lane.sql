CREATE FUNCTION {schema}.dbqueue_kick_lane(_queue_name text, _lane bigint)
RETURNS integer
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_bitmapscan = off
SET enable_seqscan = off
AS $routine$
DECLARE
    _let integer := 0;
    _number bigint := 0;
    _width bigint;
    _room bigint;
    _mark bigint := -{schema}.dbqueue_new_token();
    _went_on boolean;
BEGIN
    -- lets the first of a line run while the lane has a free ticket; returns how many. Which tickets are out is read
    -- plainly, and one is taken only where none is seen: so this waits for nobody's long transaction.
    SELECT coalesce(max(CASE WHEN g.is_paused THEN 0 ELSE g.width END), {group_limit}) INTO _width
    FROM {group} AS g WHERE g.lane = _lane;
    SELECT coalesce(max(g.width), {widest}) - (SELECT count(*) FROM {ticket} AS k WHERE k.lane = _lane) INTO _room
    FROM {group} AS g WHERE g.lane = _lane; -- tickets above a limit of its own that was lowered count too
    WHILE EXISTS (SELECT 1 FROM {line} AS l WHERE l.lane = _lane) LOOP
        _number := ({lowest_free});
        EXIT WHEN _number >= _width OR _room < 1;
        {draw};
        _went_on := {schema}.dbqueue_hand_over(_queue_name, _lane, _mark, TRUE);
        EXIT WHEN NOT _went_on; -- nobody waits any more
        _let := _let + coalesce(_went_on::integer, 0);
        _room := _room - 1;
        _number := _number + 1; -- also if somebody else has taken this one meanwhile
    END LOOP;
    IF _let > 0 THEN
        {notify}
    END IF;
    RETURN _let;
END
$routine$

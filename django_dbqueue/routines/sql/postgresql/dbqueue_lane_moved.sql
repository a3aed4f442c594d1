CREATE FUNCTION {schema}.dbqueue_lane_moved(_id bigint, _lane bigint, _may_wait boolean, _is_own boolean)
RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_custom_plan
SET enable_bitmapscan = off
SET enable_seqscan = off
AS $routine$
DECLARE
    _queue_name text;
    _status text;
    _is_dead boolean;
    _ticket bigint;
    _followed boolean := FALSE;
BEGIN
    -- what a move of its message means for a lane, in the same transaction: done or dead it makes way, and its row goes
    -- where its queue keeps no history; else it keeps its ticket, or waits for one
    SELECT m.queue, m.status, {is_dead} INTO _queue_name, _status, _is_dead
    FROM {message} AS m WHERE m.id >= _id AND m.id <= _id ORDER BY m.id LIMIT 1;
    IF {takes_several} THEN
        {stop_following}; -- before the look: who ends beside us passes its ticket to those that a worker took along
        _followed := FOUND;
    END IF;
    IF _status = 'n' AND NOT _is_dead THEN
        SELECT max(k.ticket) INTO _ticket FROM {ticket} AS k WHERE k.lane = _lane AND k.message_id = _id;
        IF _ticket IS NULL OR EXISTS (SELECT 1 FROM {group} AS g WHERE g.lane = _lane AND g.is_paused) THEN
            {free};
            {park};
            {enter};
        END IF;
    ELSIF _is_dead AND {holds_dead} THEN
        IF _followed THEN
            {enter};
        END IF;
    ELSE
        IF _is_dead OR _may_wait THEN
            {leave};
        END IF;
        PERFORM {schema}.dbqueue_hand_over(_queue_name, _lane, _id, _is_own);
        IF _status = '{done}' AND {removes} THEN
            DELETE FROM {message} AS m WHERE m.id = _id;
        END IF;
    END IF;
END
$routine$

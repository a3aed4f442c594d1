CREATE PROCEDURE dbqueue_lane_moved(IN _id BIGINT, IN _lane BIGINT, IN _may_wait BOOLEAN, IN _is_own BOOLEAN)
MODIFIES SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- what a move of its message means for a lane, in the same transaction: done or dead it makes way, and its row goes
    -- where its queue keeps no history; else it keeps its ticket, or waits for one
    DECLARE _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE _status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE _is_dead, _is_paused, _went_on BOOLEAN;
    DECLARE _ticket BIGINT;
    DECLARE _followed INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND BEGIN END;
    SELECT queue, status, {is_dead} INTO _queue_name, _status, _is_dead
    FROM {message} WHERE id = _id;
    IF {takes_several} THEN
        {stop_following}; -- before the look: who ends beside us passes its ticket to those that a worker took along
        SET _followed = ROW_COUNT();
    END IF;
    IF _status = 'n' AND NOT _is_dead THEN
        SELECT MAX(ticket) INTO _ticket FROM {ticket} WHERE lane = _lane AND message_id = _id;
        SELECT EXISTS (SELECT 1 FROM {group} WHERE lane = _lane AND is_paused) INTO _is_paused;
        IF _ticket IS NULL OR _is_paused THEN
            {free}; -- whichever it is: the caller's read view may be older
            {park};
            {enter};
        END IF;
    ELSEIF _is_dead AND {holds_dead} THEN
        IF _followed > 0 THEN
            {enter};
        END IF;
    ELSE
        IF _is_dead OR _may_wait THEN
            {leave};
        END IF;
        SET _went_on = dbqueue_hand_over(_queue_name, _lane, _id, _is_own); -- DO would hide its errors
        IF _status = '{done}' AND {removes} THEN
            DELETE FROM {message} WHERE id = _id;
        END IF;
    END IF;
END

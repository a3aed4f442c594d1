CREATE FUNCTION dbqueue_hand_over(
    _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    _lane BIGINT,
    _held_by BIGINT,
    _is_own BOOLEAN
)
RETURNS BOOLEAN
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- gives the ticket of a message (or mark) to who is next in its lane (TRUE), or frees it (FALSE); NULL if it has
    -- none. Next are those that a worker has taken along, then the first of the line. In a transaction that goes on for
    -- long others may wait for what is given away, unless the lane has this ticket alone: so there the others' are freed.
    -- Messages first, then their places, then tickets.
    DECLARE _ticket, _first, _line, _width BIGINT;
    DECLARE _status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE _is_parked, _is_paused, _is_still_there, _end BOOLEAN DEFAULT FALSE;
    DECLARE _tries INT DEFAULT 0;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
    handing: LOOP
        {head} INTO _lane, _ticket, _held_by, _first, _line, _status, _is_parked, _width, _is_paused;
        IF _end THEN
            IF _held_by > 0 THEN
                {free_unseen}; -- that the caller's read view is older than the ticket is no reason to keep it
            END IF;
            RETURN NULL;
        END IF;
        SET _width = COALESCE(_width, {group_limit});
        IF _first IS NULL OR _is_paused OR _ticket >= _width OR (_width > 1 AND NOT _is_own) OR _tries > 8 THEN
            LEAVE handing;
        END IF;
        SET _is_still_there = TRUE;
        IF _status = 'run' OR (_status = 'n' AND _line = _lane AND COALESCE(_is_parked, TRUE)) THEN
            IF _status = 'n' AND _is_parked THEN
                {let_first_run};
                SET _is_still_there = ROW_COUNT() > 0;
            ELSEIF _status = 'n' THEN
                {lock_first}; -- dead, and holds its group
                SET _is_still_there = NOT _end;
                SET _end = FALSE;
            END IF;
            IF _is_still_there THEN
                {leave_first};
                SET _is_still_there = ROW_COUNT() > 0;
            END IF;
            IF _is_still_there THEN
                {pass_on};
                IF ROW_COUNT() > 0 THEN
                    RETURN TRUE;
                END IF;
                {park_first}; -- the ticket was taken away by hand
                {enter_first};
                RETURN NULL;
            END IF;
        ELSE
            {leave_first}; -- dropped or moved by hand
            SET _is_still_there = ROW_COUNT() > 0;
            IF _is_still_there AND _status = 'n' AND _line <> _lane THEN
                {park_first};
                {let_first_wait};
            END IF;
        END IF;
        IF NOT _is_still_there THEN
            SET _tries = _tries + 1; -- it was moved since our read: look again, which an old read view shows nothing new
        END IF;
    END LOOP;
    {free_held};
    RETURN FALSE;
END

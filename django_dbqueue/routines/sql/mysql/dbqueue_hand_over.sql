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
    -- gives the ticket of a message (or mark) to the first of its lane's line (TRUE), or frees it (FALSE); NULL if it
    -- has none. In a transaction that goes on for long others may wait for what is given away, unless the lane has
    -- this ticket alone: so there the others' are freed. Messages first, then their places, then tickets.
    DECLARE _ticket, _first, _width BIGINT;
    DECLARE _status VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin;
    DECLARE _is_parked, _is_paused, _end BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
    handing: LOOP
        {head} INTO _lane, _ticket, _held_by, _first, _status, _is_parked, _width, _is_paused;
        IF _end THEN
            IF _held_by > 0 THEN
                {free_unseen}; -- that the caller's read view is older than the ticket is no reason to keep it
            END IF;
            RETURN NULL;
        END IF;
        SET _width = COALESCE(_width, {group_limit});
        IF _first IS NULL OR _is_paused OR _ticket >= _width OR (_width > 1 AND NOT _is_own) THEN
            LEAVE handing;
        END IF;
        IF _status = 'run' OR (_status = 'n' AND _is_parked) THEN
            IF _status = 'n' THEN
                {let_first_run};
                IF ROW_COUNT() = 0 THEN
                    LEAVE handing; -- it was moved since our read: whoever kicks next looks again
                END IF;
            END IF;
            {leave_first};
            {pass_on};
            IF ROW_COUNT() > 0 THEN
                RETURN TRUE;
            END IF;
            {park_first}; -- the ticket was taken away by hand
            {enter_first};
            RETURN NULL;
        END IF;
        {leave_first}; -- dropped or moved by hand
        IF ROW_COUNT() = 0 THEN
            LEAVE handing;
        END IF;
    END LOOP;
    {free_held};
    RETURN FALSE;
END

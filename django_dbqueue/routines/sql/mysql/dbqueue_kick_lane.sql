CREATE FUNCTION dbqueue_kick_lane(_queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin, _lane BIGINT)
RETURNS INT
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- lets the first of a line run while the lane has a free ticket; returns how many. Which tickets are out is read
    -- plainly (by SELECT INTO, for SET and IF lock what they read), and one is taken only where none is seen: so this
    -- waits for nobody's long transaction.
    DECLARE _let INT DEFAULT 0;
    DECLARE _number, _width, _room BIGINT DEFAULT 0;
    DECLARE _mark BIGINT DEFAULT -dbqueue_new_token();
    DECLARE _waits, _went_on BOOLEAN;
    SELECT COALESCE(MAX(CASE WHEN is_paused THEN 0 ELSE width END), {group_limit}) INTO _width
    FROM {group} WHERE lane = _lane;
    SELECT COALESCE(MAX(width), {widest}) - (SELECT COUNT(*) FROM {ticket} WHERE lane = _lane) INTO _room
    FROM {group} WHERE lane = _lane; -- tickets above a limit of its own that was lowered count too
    kicking: LOOP
        SELECT EXISTS (SELECT 1 FROM {line} WHERE lane = _lane) INTO _waits;
        {lowest_free} INTO _number;
        IF NOT _waits OR _number >= _width OR _room < 1 THEN
            LEAVE kicking;
        END IF;
        {draw};
        SET _went_on = dbqueue_hand_over(_queue_name, _lane, _mark, TRUE);
        IF NOT _went_on THEN
            LEAVE kicking; -- nobody waits any more
        END IF;
        SET _let = _let + COALESCE(_went_on, 0);
        SET _room = _room - 1;
        SET _number = _number + 1; -- also if somebody else has taken this one meanwhile
    END LOOP;
    RETURN _let;
END

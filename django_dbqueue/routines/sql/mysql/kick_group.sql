CREATE FUNCTION kick_group(
    _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    _group_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
)
RETURNS INT
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- to be called after a commit: lets the group go on (NULL: each of the queue's groups); returns how many messages
    DECLARE _let INT DEFAULT 0;
    DECLARE _lane, _first, _after, _until BIGINT;
    DECLARE _end BOOLEAN DEFAULT FALSE;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
    CALL dbqueue_check_queue(_queue_name);
    IF _group_name IS NOT NULL THEN
        CALL dbqueue_check_group(_queue_name, _group_name);
        RETURN dbqueue_kick_lane(_queue_name, dbqueue_lane_of(_queue_name, _group_name));
    END IF;
    SET _after = dbqueue_lane_of(_queue_name, NULL) - 1;
    SET _until = _after + {lanes_of_queue};
    walking: LOOP
        {next_lane} INTO _lane, _first;
        IF _end OR _lane > _until THEN
            LEAVE walking;
        END IF;
        SET _after = _lane;
        SET _let = _let + dbqueue_kick_lane(_queue_name, _lane);
    END LOOP;
    RETURN _let;
END

CREATE FUNCTION put_message_in_queue(
    _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    _payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    _max_read_cnt BIGINT,
    _invisibility_time BIGINT
)
RETURNS BIGINT
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    DECLARE _problem VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT {put_problem};
    CALL dbqueue_check_queue(_queue_name);
    CALL dbqueue_check_seconds('invisibility_time', 0, _invisibility_time);
    IF _problem IS NOT NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = _problem;
    END IF;
    IF {is_whole} THEN
        RETURN dbqueue_put_in_lane(_queue_name, _payload, _max_read_cnt, _invisibility_time, {whole_queue});
    END IF;
    {insert};
    RETURN LAST_INSERT_ID();
END

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
    DECLARE _problem VARCHAR(128) CHARACTER SET utf8mb4 DEFAULT CASE
        WHEN _payload IS NULL THEN 'payload must not be NULL'
        WHEN OCTET_LENGTH(_payload) > {max_bytes}
            THEN 'payload must not take more than {max_bytes} bytes: store it elsewhere, send a reference'
        WHEN _max_read_cnt NOT BETWEEN 0 AND {max_reads_limit}
            THEN 'max_read_cnt must be from 0 (no limit) to {max_reads_limit}, or NULL for the setting'
    END;
    CALL dbqueue_check_queue(_queue_name);
    CALL dbqueue_check_seconds('invisibility_time', 0, _invisibility_time);
    IF _problem IS NOT NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = _problem;
    END IF;
    {insert};
    RETURN LAST_INSERT_ID();
END

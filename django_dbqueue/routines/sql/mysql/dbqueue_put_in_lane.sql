CREATE FUNCTION dbqueue_put_in_lane(
    _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    _payload LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    _max_read_cnt BIGINT,
    _invisibility_time BIGINT,
    _group_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
)
RETURNS BIGINT
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- inserts a message that waits, and puts it into its line
    DECLARE _id BIGINT;
    DECLARE _lane BIGINT DEFAULT dbqueue_lane_of(_queue_name, _group_name);
    {insert_in_lane};
    SET _id = LAST_INSERT_ID();
    {enter};
    RETURN _id;
END

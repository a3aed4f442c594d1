CREATE FUNCTION dbqueue_lane_of(
    _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    _group_name VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
)
RETURNS BIGINT
DETERMINISTIC NO SQL SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- 15 bits of the queue's digest, then 48 of the group's; with NULL, the lowest that a lane of the queue can have
    RETURN (CAST(CONV(LEFT(SHA2(_queue_name, 256), 4), 16, 10) AS UNSIGNED) & 32767) << 48 | COALESCE(
        CAST(CONV(LEFT(SHA2(CONCAT(_queue_name, CHAR(0 USING utf8mb4), _group_name), 256), 12), 16, 10) AS UNSIGNED), 0
    );
END

CREATE PROCEDURE get_message_from_queue(IN _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin)
MODIFIES SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    DECLARE _claims LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    CALL dbqueue_check_queue(_queue_name);
    CALL dbqueue_claim(_queue_name, 1, NULL, _claims);
    SELECT m.id,
        m.queue AS queue_name,
        m.body AS payload,
        c.read_count AS read_cnt,
        m.max_reads AS max_read_cnt,
        c.claimed_at AS last_read,
        c.available_at AS next_read,
        m.lease_seconds AS invisibility_time,
        m.created_at,
        CASE WHEN {is_done} THEN m.finished_at END AS deleted_at
    FROM JSON_TABLE(_claims, '$[*]' COLUMNS (
        id BIGINT PATH '$.id',
        read_count BIGINT PATH '$.read_count',
        claimed_at DATETIME(6) PATH '$.claimed_at',
        available_at DATETIME(6) PATH '$.available_at'
    )) AS c
    STRAIGHT_JOIN {message} AS m FORCE INDEX (PRIMARY) ON m.id = c.id;
END

CREATE PROCEDURE claim_messages(
    IN _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    IN _how_many INT,
    IN _lease DOUBLE
)
MODIFIES SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    DECLARE _claims LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    CALL dbqueue_check_queue(_queue_name);
    CALL dbqueue_check_seconds('lease', {least_lease}, _lease);
    IF _how_many IS NULL OR _how_many NOT BETWEEN 1 AND {max_claim} THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'how_many must be from 1 to {max_claim}';
    END IF;
    CALL dbqueue_claim(_queue_name, _how_many, _lease, _claims);
    SELECT m.id,
        c.token,
        m.body AS payload,
        m.content_type,
        m.headers,
        m.`key`,
        c.read_count,
        m.max_reads,
        c.available_at AS lease_ends_at,
        m.created_at
    FROM JSON_TABLE(_claims, '$[*]' COLUMNS (
        place FOR ORDINALITY,
        id BIGINT PATH '$.id',
        token BIGINT PATH '$.token',
        read_count BIGINT PATH '$.read_count',
        available_at DATETIME(6) PATH '$.available_at'
    )) AS c
    STRAIGHT_JOIN {message} AS m FORCE INDEX (PRIMARY) ON m.id = c.id
    ORDER BY c.place;
END

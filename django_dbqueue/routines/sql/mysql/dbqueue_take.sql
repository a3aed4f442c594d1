CREATE FUNCTION dbqueue_take(
    _ids LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin,
    _token BIGINT,
    _lease DOUBLE,
    _reads_allowed BIGINT
)
RETURNS LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- n to run for those of the messages that are still due: each is locked, looked at, and taken; all or none of it
    -- is committed. Gives JSON objects, by commas.
    DECLARE _claims LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL;
    DECLARE _id, _read_count, _max_reads BIGINT;
    DECLARE _lease_seconds DOUBLE;
    DECLARE _end BOOLEAN DEFAULT FALSE;
    DECLARE candidates CURSOR FOR
        SELECT id FROM JSON_TABLE(CONCAT('[', _ids, ']'), '$[*]' COLUMNS (place FOR ORDINALITY, id BIGINT PATH '$')) AS c
        ORDER BY place;
    DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
    OPEN candidates;
    FETCH candidates INTO _id;
    WHILE NOT _end DO
        {lock_due};
        IF _end THEN
            SET _end = FALSE; -- somebody else was faster
        ELSE
            {take};
            IF {had_no_reads} THEN
                {record_bury};
                {bury};
                IF LAST_INSERT_ID() <> 0 THEN
                    CALL dbqueue_lane_moved(_id, LAST_INSERT_ID(), FALSE, {is_own_transaction});
                END IF;
            ELSE
                SET _claims = CONCAT_WS(',', _claims, JSON_OBJECT(
                    'id', _id, 'token', _token, 'read_count', _read_count + 1, 'claimed_at', {now},
                    'available_at', {deadline}
                ));
            END IF;
        END IF;
        FETCH candidates INTO _id;
    END WHILE;
    CLOSE candidates;
    RETURN COALESCE(_claims, '');
END

CREATE FUNCTION dbqueue_claim(
    _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    _how_many INT,
    _lease DOUBLE
)
RETURNS LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- n to run: takes due messages and returns a JSON array of what it took, in order. It is a function because a
    -- function is one statement of its caller's, atomic in autocommit; the statements of a procedure commit one by one.
    DECLARE _token BIGINT DEFAULT dbqueue_new_token();
    DECLARE _claims LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE _taken, _moved, _wanted, _priority INT DEFAULT 0;
    DECLARE _id, _read_count, _max_reads BIGINT;
    DECLARE _lease_seconds DOUBLE;
    DECLARE _now DATETIME(6);

    IF EXISTS (SELECT 1 FROM {queues} WHERE name = _queue_name AND is_paused) THEN
        RETURN '[]';
    END IF;
    SET _lease = COALESCE(_lease, {lease});
    claiming: LOOP
        SET _moved = 0;
        SET _priority = {highest};
        taking: WHILE _taken < _how_many DO
            SET _priority = ({next_priority_waiting});
            IF _priority IS NULL THEN
                LEAVE taking;
            END IF;
            SET _wanted = _how_many - _taken;
            BEGIN
                DECLARE _end BOOLEAN DEFAULT FALSE;
                DECLARE due CURSOR FOR
                    {due};
                DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
                OPEN due;
                FETCH due INTO _id, _read_count, _max_reads, _lease_seconds, _now;
                WHILE NOT _end DO
                    {take};
                    IF _max_reads > 0 AND _read_count >= _max_reads THEN
                        {bury};
                        SET _moved = _moved + 1;
                    ELSE
                        SET _taken = _taken + 1;
                        SET _claims = CONCAT_WS(',', _claims, JSON_OBJECT(
                            'id', _id, 'token', _token, 'read_count', _read_count + 1, 'claimed_at', _now,
                            'available_at', {deadline}
                        ));
                    END IF;
                    FETCH due INTO _id, _read_count, _max_reads, _lease_seconds, _now;
                END WHILE;
                CLOSE due;
            END;
        END WHILE;
        IF _taken >= _how_many THEN
            LEAVE claiming;
        END IF;

        -- the queue came back short: run to n or dead for leases that are over, but those that were just taken
        SET _priority = {highest};
        rescuing: LOOP
            SET _priority = ({next_priority_running});
            IF _priority IS NULL THEN
                LEAVE rescuing;
            END IF;
            BEGIN
                DECLARE _end BOOLEAN DEFAULT FALSE;
                DECLARE late CURSOR FOR
                    {late};
                DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
                OPEN late;
                FETCH late INTO _id, _now;
                WHILE NOT _end DO
                    {rescue};
                    SET _moved = _moved + 1;
                    FETCH late INTO _id, _now;
                END WHILE;
                CLOSE late;
            END;
        END LOOP;
        IF _moved = 0 THEN
            LEAVE claiming;
        END IF;
    END LOOP;
    RETURN CONCAT('[', COALESCE(_claims, ''), ']');
END

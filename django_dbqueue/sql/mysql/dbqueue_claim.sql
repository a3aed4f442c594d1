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
    -- Candidates are read without a lock and locked one by one by their primary key: a range that is read under locks
    -- locks its gaps, too, in a session at REPEATABLE READ, and then claims and enqueues deadlock. Each look is a SELECT:
    -- in a function that writes the table, SET x = (SELECT ...) and IF (SELECT ...) lock what they read.
    DECLARE _token BIGINT DEFAULT dbqueue_new_token();
    DECLARE _claims LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE _taken, _moved, _seen, _page, _priority INT DEFAULT 0;
    DECLARE _id, _read_count, _max_reads BIGINT;
    DECLARE _lease_seconds DOUBLE;
    DECLARE _now DATETIME(6) DEFAULT {now};

    SELECT COUNT(*) INTO _seen FROM {queues} WHERE name = _queue_name AND is_paused;
    IF _seen > 0 THEN
        RETURN '[]';
    END IF;
    SET _lease = COALESCE(_lease, {lease});
    claiming: LOOP
        SET _moved = 0;
        SET _priority = {highest};
        taking: WHILE _taken < _how_many DO
            SELECT MAX(priority) INTO _priority FROM (
                {next_priority_waiting}
            ) AS found;
            IF _priority IS NULL THEN
                LEAVE taking;
            END IF;
            SET _page = _how_many - _taken;
            paging: LOOP
                SET _seen = 0;
                BEGIN
                    DECLARE _end BOOLEAN DEFAULT FALSE;
                    DECLARE due CURSOR FOR
                        {due};
                    DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
                    OPEN due;
                    FETCH due INTO _id, _now;
                    WHILE NOT _end AND _taken < _how_many DO
                        SET _seen = _seen + 1;
                        {lock_due};
                        IF _end THEN
                            SET _end = FALSE; -- somebody else has it
                        ELSE
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
                        END IF;
                        FETCH due INTO _id, _now;
                    END WHILE;
                    CLOSE due;
                END;
                IF _taken >= _how_many OR _seen < _page THEN
                    LEAVE paging;
                END IF;
                SET _page = _page * 4 + 12; -- others were at the same rows: look further
            END LOOP;
        END WHILE;
        IF _taken >= _how_many THEN
            LEAVE claiming;
        END IF;

        -- the queue came back short: run to n or dead for leases that are over, but those that were just taken
        SET _priority = {highest};
        rescuing: LOOP
            SELECT MAX(priority) INTO _priority FROM (
                {next_priority_running}
            ) AS found;
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
                    {lock_late};
                    IF _end THEN
                        SET _end = FALSE; -- settled, or somebody else rescues it
                    ELSE
                        {rescue};
                        SET _moved = _moved + 1;
                    END IF;
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

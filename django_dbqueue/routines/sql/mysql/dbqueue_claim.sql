CREATE PROCEDURE dbqueue_claim(
    IN _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    IN _how_many INT,
    IN _lease DOUBLE,
    OUT _claims LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin
)
MODIFIES SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- n to run: takes due messages and gives a JSON array of what it took, in order.
    -- Candidates are read without a lock, in order, and tried one by one by their primary key: a range that is read under
    -- locks locks its gaps, too, in a session at REPEATABLE READ, and then claims and enqueues deadlock. They are tried
    -- here, because SKIP LOCKED skips nothing inside of a function; and they are taken in a function, because that is one
    -- statement, atomic in autocommit, where the statements of a procedure commit one by one.
    DECLARE _token BIGINT DEFAULT dbqueue_new_token();
    DECLARE _ids, _some LONGTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
    DECLARE _taken, _found, _got, _rescued, _seen, _page, _priority INT DEFAULT 0;
    DECLARE _id BIGINT;
    DECLARE _now DATETIME(6);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        -- What was taken before goes to the caller if it stands, whatever hindered the rest: a deadlock, which rolls back
        -- the caller's transaction if there is one, or a wait that was too long.
        SELECT COUNT(*) INTO _seen FROM {message}
        WHERE id = JSON_UNQUOTE(JSON_EXTRACT(CONCAT('[', _claims, ']'), '$[0].id')) AND claim_token = _token;
        IF _seen = 0 THEN
            RESIGNAL;
        END IF;
        SET _claims = CONCAT('[', _claims, ']');
    END;

    SET _claims = NULL;
    SET _lease = COALESCE(_lease, {lease});
    SELECT COUNT(*) INTO _seen FROM {queues} WHERE name = _queue_name AND {is_paused};
    claiming: WHILE _taken < _how_many AND _seen = 0 DO
        SET _ids = NULL;
        SET _found = 0;
        SET _priority = {highest};
        looking: WHILE _taken + _found < _how_many DO
            SELECT MAX(priority) INTO _priority FROM (
                {next_priority_waiting}
            ) AS next;
            IF _priority IS NULL THEN
                LEAVE looking;
            END IF;
            SET _page = _how_many - _taken - _found;
            paging: LOOP
                SET _seen = 0;
                BEGIN
                    DECLARE _end BOOLEAN DEFAULT FALSE;
                    DECLARE due CURSOR FOR
                        {due};
                    DECLARE CONTINUE HANDLER FOR NOT FOUND SET _end = TRUE;
                    OPEN due;
                    FETCH due INTO _id, _now;
                    WHILE NOT _end AND _taken + _found < _how_many DO
                        SET _seen = _seen + 1;
                        IF NOT COALESCE(FIND_IN_SET(_id, _ids), FALSE) THEN
                            {try_due};
                            IF _end THEN
                                SET _end = FALSE; -- somebody else has it
                            ELSE
                                SET _ids = CONCAT_WS(',', _ids, _id);
                                SET _found = _found + 1;
                            END IF;
                        END IF;
                        FETCH due INTO _id, _now;
                    END WHILE;
                    CLOSE due;
                END;
                IF _taken + _found >= _how_many OR _seen < _page THEN
                    LEAVE paging;
                END IF;
                SET _page = _page * 4 + 12; -- others were at the same rows: look further
            END LOOP;
        END WHILE;
        SET _seen = 0;
        SET _got = 0;
        IF _found > 0 THEN
            SELECT dbqueue_take(_ids, _token, _lease, {max_reads}) INTO _some;
            SET _got = JSON_LENGTH(CONCAT('[', _some, ']'));
        END IF;
        IF _got > 0 THEN
            SET _taken = _taken + _got;
            SET _claims = CONCAT_WS(',', _claims, _some);
        END IF;
        IF _got = _found AND _taken < _how_many THEN
            -- the queue came back short
            CALL dbqueue_rescue_late(_queue_name, _token, _rescued);
            IF _rescued = 0 THEN
                LEAVE claiming;
            END IF;
        END IF;
    END WHILE;
    SET _claims = CONCAT('[', COALESCE(_claims, ''), ']');
END

CREATE PROCEDURE dbqueue_rescue_late(
    IN _queue_name VARCHAR(255) CHARACTER SET ascii COLLATE ascii_bin,
    IN _token BIGINT,
    OUT _rescued INT
)
MODIFIES SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to n or dead for leases that are over, but those of this token: a claim must not find again what it has just
    -- taken with a lease of nothing. Each row is moved by one function; whoever has it locked keeps it.
    DECLARE _id BIGINT;
    DECLARE _now DATETIME(6);
    DECLARE _priority INT DEFAULT {highest};
    SET _rescued = 0;
    rescuing: LOOP
        SELECT MAX(priority) INTO _priority FROM (
            {next_priority_running}
        ) AS next;
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
                {try_late};
                IF _end THEN
                    SET _end = FALSE; -- settled, or somebody has it
                ELSE
                    SET _rescued = _rescued + dbqueue_give_back(_id);
                END IF;
                FETCH late INTO _id, _now;
            END WHILE;
            CLOSE late;
        END;
    END LOOP;
END

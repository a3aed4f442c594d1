CREATE FUNCTION extend_message(_id BIGINT, _token BIGINT, _seconds DOUBLE)
RETURNS BOOLEAN
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to run, the lease to end that many seconds from now (NULL: by its own length). The row is locked first, for
    -- ROW_COUNT() counts changes, and the new deadline may be the old one.
    CALL dbqueue_check_seconds('seconds', 0, _seconds);
    IF ({lock_held}) IS NULL THEN
        RETURN FALSE;
    END IF;
    IF _seconds IS NULL THEN
        {extend_by_own};
    ELSE
        {extend};
    END IF;
    RETURN TRUE;
END

CREATE FUNCTION ack_message(_id BIGINT, _token BIGINT)
RETURNS BOOLEAN
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to y (or the row goes, where its queue keeps no history), if this claim still holds it
    {remove};
    IF ROW_COUNT() > 0 THEN
        RETURN TRUE;
    END IF;
    {ack};
    RETURN ROW_COUNT() > 0;
END

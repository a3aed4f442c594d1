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
    IF ROW_COUNT() = 0 THEN
        RETURN FALSE;
    END IF;
    IF LAST_INSERT_ID() <> 0 THEN
        CALL dbqueue_lane_moved(_id, LAST_INSERT_ID(), FALSE, {is_own_transaction});
    END IF;
    RETURN TRUE;
END

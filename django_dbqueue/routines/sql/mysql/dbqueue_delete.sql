CREATE FUNCTION dbqueue_delete(_message_id BIGINT)
RETURNS BOOLEAN
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- {n, run, dead} to y by the id alone. A function, so that the message's end and its group's next one are one
    -- commit in autocommit too.
    {remove_by_id};
    IF ROW_COUNT() > 0 THEN
        RETURN TRUE;
    END IF;
    {delete};
    IF ROW_COUNT() = 0 THEN
        RETURN FALSE;
    END IF;
    IF LAST_INSERT_ID() <> 0 THEN
        CALL dbqueue_lane_moved(_message_id, LAST_INSERT_ID(), TRUE, {is_own_transaction});
    END IF;
    RETURN TRUE;
END

CREATE FUNCTION nack_message(_id BIGINT, _token BIGINT, _delay DOUBLE)
RETURNS BOOLEAN
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to n after a delay in seconds (NULL: back where it stood), or dead when its reads are spent
    CALL dbqueue_check_seconds('delay', 0, _delay);
    {record_nack};
    IF _delay IS NULL THEN
        {nack};
    ELSE
        {nack_later};
    END IF;
    IF ROW_COUNT() = 0 THEN
        RETURN FALSE;
    END IF;
    IF LAST_INSERT_ID() <> 0 THEN
        CALL dbqueue_lane_moved(_id, LAST_INSERT_ID(), FALSE, {is_own_transaction});
    END IF;
    RETURN TRUE;
END

CREATE FUNCTION ack_message(_id BIGINT, _token BIGINT)
RETURNS BOOLEAN
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to y, if this claim still holds it
    {ack};
    RETURN ROW_COUNT() > 0;
END

CREATE FUNCTION dbqueue_give_back(_id BIGINT)
RETURNS INT
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to n or dead for a message whose lease is over; gives how many. A function, so that the message's event and
    -- its move are one commit in autocommit too.
    {record_rescue};
    {rescue};
    RETURN ROW_COUNT();
END

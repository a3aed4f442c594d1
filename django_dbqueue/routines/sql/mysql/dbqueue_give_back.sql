CREATE FUNCTION dbqueue_give_back(_id BIGINT)
RETURNS INT
NOT DETERMINISTIC READS SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- run to n or dead for a message whose lease is over; gives how many. A function, so that the message's event and
    -- its move are one commit in autocommit too.
    {record_rescue};
    {rescue};
    IF ROW_COUNT() = 0 THEN
        RETURN 0;
    END IF;
    IF LAST_INSERT_ID() <> 0 THEN
        CALL dbqueue_lane_moved(_id, LAST_INSERT_ID(), FALSE, {is_own_transaction});
    END IF;
    RETURN 1;
END

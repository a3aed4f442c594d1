CREATE PROCEDURE delete_message_from_queue(IN _message_id BIGINT)
MODIFIES SQL DATA SQL SECURITY DEFINER
COMMENT '{comment}'
BEGIN
    -- {n, run, dead} to y by the id alone, whoever holds it; ack_message() is the fenced way
    DECLARE _is_done BOOLEAN DEFAULT dbqueue_delete(_message_id); -- DO would hide its errors
END
